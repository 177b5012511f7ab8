"""Which licence a file is under, in the file itself: SPDX-License-Identifier.

In:   the files that git has.
Out:  those without the line; with --write the line in each of them.
Next: test_licences.py; whoever adds many files calls `python -m tests.licences --write`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

__all__ = ["COMMENTS", "missing", "write"]

LINE = "SPDX-License-Identifier: Apache-2.0"
_C = ("/* ", " */")
_HASH = ("# ", "")
#: Ending, or whole name -> how a comment begins and ends. Other files cannot hold one, or are
#: texts.
COMMENTS = {
    **dict.fromkeys((".c", ".h", ".cc", ".hh", ".inc", ".S", ".ld", ".css", ".dts", ".dtso"), _C),
    **dict.fromkeys((".js", ".sv", ".svh"), ("// ", "")),
    **dict.fromkeys((".py", ".cmake", ".toml", ".yml", ".in"), _HASH),
    **dict.fromkeys(("CMakeLists.txt", "Makefile", "run", ".clang-format", ".gitignore"), _HASH),
}
#: Generated, compared byte by byte, a part of a file, or somebody else's.
_OTHERS = ("tests/golden/", "python/loadstone/pages/assets/")


def tracked() -> list[Path]:
    """Those that may hold a comment."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.splitlines() if not name.startswith(_OTHERS)]
    return [path for path in paths if path.is_file() and _comment(path) is not None]


def _comment(path: Path) -> tuple[str, str] | None:
    return COMMENTS.get(path.name) or COMMENTS.get(path.suffix)


def missing() -> list[Path]:
    """Files whose first 30 lines do not say it, whatever the licence."""
    return [
        path
        for path in tracked()
        if "SPDX-License-Identifier: "
        not in "\n".join(path.read_text(encoding="utf-8").splitlines()[:30])
    ]


def write(path: Path) -> None:
    """Puts the line first: behind a `#!`, and behind the header of a C file."""
    comment = _comment(path)
    assert comment is not None
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at = int(bool(lines) and lines[0].startswith("#!"))
    if comment == _C and lines and lines[0].startswith("/*"):
        at = next(k for k, line in enumerate(lines) if line.rstrip().endswith("*/")) + 1
    lines.insert(at, f"{comment[0]}{LINE}{comment[1]}\n")
    path.write_text("".join(lines), encoding="utf-8")


def main(words: list[str]) -> int:
    """Names the files, or changes them."""
    found = missing()
    for path in found:
        if words == ["--write"]:
            write(path)
        print(path.relative_to(ROOT))
    return 0 if words == ["--write"] else int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
