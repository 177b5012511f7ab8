# SPDX-License-Identifier: Apache-2.0
"""Write the files that are generated from VTA's instruction set: `python -m tools.isa [--check]`.

In:   vta/isa/spec.py and vta/isa/registers.py, through c_header.py, sv_package.py, c_words.py and
      isa_page.py.
Out:  driver/include/lds_isa.h, hw_sim/rtl/lds_isa_pkg.sv, lab/isa_words.h and docs/isa.md of this
      checkout; with --check exit status 1 when one of them is not current.
Next: runtime/, driver/ and hw_sim/ include the header, hw_sim/rtl imports the package; `make check`
      runs the check.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loadstone.files import write_whole
from tools.isa.c_header import header
from tools.isa.c_words import words as assembler_words
from tools.isa.isa_page import page
from tools.isa.sv_package import package

__all__ = ["OUTPUTS", "main", "stale", "write"]

#: Path below the repository's root -> its text.
OUTPUTS = {
    "driver/include/lds_isa.h": header,
    "hw_sim/rtl/lds_isa_pkg.sv": package,
    "docs/isa.md": page,
    "lab/isa_words.h": assembler_words,
}


def write(root: Path) -> list[Path]:
    """Writes the files that are not current; returns their paths."""
    changed = stale(root)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, OUTPUTS[path.relative_to(root).as_posix()]())
    return changed


def stale(root: Path) -> list[Path]:
    """The generated files that differ from the spec, or are missing."""
    return [
        root / name
        for name, text in OUTPUTS.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text()
    ]


def main(words: Sequence[str] | None = None, root: Path = Path(__file__).parents[2]) -> int:
    """Writes or checks the files of a checkout; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.isa")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args(words).check:
        changed = stale(root)
        for path in changed:
            print(f"{path} differs from the spec: run `python -m tools.isa`")
        return 1 if changed else 0
    for path in write(root):
        print(f"{path} written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
