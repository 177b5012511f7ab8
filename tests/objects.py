# SPDX-License-Identifier: Apache-2.0
"""Object files of C and C++, each compiled once for all tests and processes.

In:   a compiler with its flags, a source.
Out:  `compiled`: the object file, with what the compiler writes beside it (x.su); `simulator`:
      the objects of hw_sim.
Next: board/build.py, c/build.py, c/test_c.py, c/test_threads.py, fuzz/__main__.py link them.

They stay in build/objects from one run to the next. The name holds the compiler, its flags, the
source and every header of the repository: what has changed is compiled again, whatever its time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loadstone.files import write_whole
from tests.board.tools import ROOT, run

__all__ = ["all_compiled", "compiled", "simulator"]

OBJECTS = ROOT / "build" / "objects"
_HEADERS = (".h", ".hh", ".inc")
#: Flags of the vector kernels (hw_sim/kernels.cmake).
_LANES = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wno-psabi")
_VECTORS = {
    "kernels_avx2": ("-mavx2",),
    "kernels_avx512": tuple(f"-mavx512{x}" for x in ("f", "bw", "dq", "vl", "vnni")),
}


def compiled(command: Sequence[str | Path], source: Path) -> Path:
    """`command -c source -o object`; the object."""
    words = [str(word) for word in command]
    folder = OBJECTS / _key(words, source)
    made = folder / f"{source.stem}.o"
    if not made.is_file():
        OBJECTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=OBJECTS, ignore_cleanup_errors=True) as fresh:
            run([*words, "-c", source, "-o", Path(fresh, made.name)])
            try:
                os.rename(fresh, folder)
            except OSError:  # another process was faster: its object is the same
                assert made.is_file()
    return made


def all_compiled(
    command: Sequence[str | Path], sources: Sequence[Path], jobs: int = 1
) -> list[Path]:
    """The objects of several sources, in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda source: compiled(command, source), sources))


def simulator(command: Sequence[str], kernels: Sequence[str]) -> list[Path]:
    """The simulator by `command`; its vector kernels by the command `kernels`, each file with flags
    of its own. The others are one file that includes them all: what a compiler does with a file of
    the simulator is to read the standard library's headers, mostly."""
    files = sorted((ROOT / "hw_sim").glob("*.cc"))
    vectors = [file for file in files if file.stem.startswith("kernels_")]
    text = "".join(  # with what they hold: the name is of the content
        f'#include "{file}" // {hashlib.sha256(file.read_bytes()).hexdigest()}\n'
        for file in files
        if file not in vectors
    )
    OBJECTS.mkdir(parents=True, exist_ok=True)
    whole = OBJECTS / f"simulator-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cc"
    if not whole.is_file():
        write_whole(whole, text.encode())
    return [
        compiled([*command, f"-I{ROOT / 'hw_sim'}"], whole),
        *(compiled([*kernels, *_LANES, *_VECTORS.get(v.stem, ())], v) for v in vectors),
    ]


def _key(words: Sequence[str], source: Path) -> str:
    compiler = Path(shutil.which(words[0]) or words[0]).resolve().stat()
    digest = hashlib.sha256("\0".join([*words, str(source)]).encode())
    digest.update(f"{compiler.st_size} {compiler.st_mtime_ns}".encode())
    digest.update(_headers() + source.read_bytes())
    return digest.hexdigest()[:32]


@functools.cache
def _headers() -> bytes:
    """A digest of every header, by name; they do not change while tests run."""
    digest = hashlib.sha256()
    for part in ("runtime", "driver", "hw_sim", "native", "lab", "tests"):
        for path in sorted(p for p in (ROOT / part).rglob("*") if p.suffix in _HEADERS):
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.digest()
