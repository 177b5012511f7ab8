# SPDX-License-Identifier: Apache-2.0
"""A compiler for `make CC=...` that keeps what it compiled: exported projects share the runtime.

In:   the command line of a compiler, of one call that compiles C files and links them.
Out:  the program, as the call would have made it; objects in build/objects.
Next: `make_with_cache`, for commands/test_export.py and board/exported.py.

A file is compiled alone, and is kept when the compiler said nothing. It is taken again where the
compiler, the flags, the file and every header that it included then are the same, wherever the
project stands. It imports nothing of ours: Python starts for it in a few milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["make_with_cache"]

#: What the linker alone reads.
_OF_THE_LINKER = ("-l", "-Wl,", "-T", "-nostdlib", "-o")


def make_with_cache(compiler: str) -> str:
    """The word for `make` that lets it compile with this cache."""
    return f"CC={sys.executable} -I -S {Path(__file__).resolve()} {compiler}"


def main(words: list[str], store: Path) -> int:
    """Compiles and links; the exit status."""
    sources = [word for word in words[1:] if word.endswith(".c")]
    if not sources or "-c" in words:
        return subprocess.call(words)
    flags = _flags(words[1:])
    objects = {source: _object(words[0], flags, source, store) for source in sources}
    return subprocess.call([str(objects.get(word) or word) for word in words])


def _flags(words: list[str]) -> list[str]:
    """Those that a compilation without linking takes."""
    kept, skip = [], False
    for word in words:
        if not skip and word.startswith("-") and not word.startswith(_OF_THE_LINKER):
            kept.append(word)
        skip = word in ("-o", "-T")
    return kept


def _object(compiler: str, flags: list[str], source: str, store: Path) -> Path | None:
    """The object of a file; None where it is not kept: the call that links compiles it."""
    which = os.stat(shutil.which(compiler) or compiler)
    name = repr((compiler, which.st_size, which.st_mtime_ns, flags, source, _digest(source)))
    place = store / hashlib.sha256(name.encode()).hexdigest()[:32]
    for kept in sorted(place.glob("*/headers")):
        if all(_digest(path) == digest for digest, path in _lines(kept)):
            return kept.parent / "object.o"
    place.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=place))  # without `headers` until it is renamed
    made, listed = fresh / "object.o", fresh / "listed"
    command = [compiler, *flags, "-MMD", "-MF", str(listed), "-c", source, "-o", str(made)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or done.stderr:
        shutil.rmtree(fresh)
        return None
    headers = listed.read_text().replace("\\\n", " ").partition(":")[2].split()
    text = "".join(f"{_digest(path)} {path}\n" for path in headers)
    folder = place / f"in-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    (fresh / "headers").write_text(text)
    try:
        fresh.rename(folder)
    except OSError:  # another process was faster: its object is the same
        shutil.rmtree(fresh)
    return folder / "object.o"


def _lines(kept: Path) -> list[tuple[str, str]]:
    return [
        (digest, path)
        for digest, _, path in (line.partition(" ") for line in kept.read_text().splitlines())
    ]


def _digest(path: str) -> str:
    """Of a file's content; "" for one that is not there."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


if __name__ == "__main__":
    _STORE = Path(__file__).resolve().parent.parent / "build" / "objects" / "exported"
    raise SystemExit(main(sys.argv[1:], _STORE))
