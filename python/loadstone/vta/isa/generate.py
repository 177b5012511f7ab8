# SPDX-License-Identifier: Apache-2.0
"""Write driver/include/lds_isa.h, hw_sim/rtl/lds_isa_pkg.sv and docs/isa.md from the spec.

In:   the texts of the files (c_header.py, sv_package.py, isa_page.py).
Out:  `write` and `stale` for `loadstone isa [--check]`.
Next: runtime/, driver/ and hw_sim/ include the header, hw_sim/rtl the package; people read the
      page.
"""

from __future__ import annotations

from pathlib import Path

from loadstone.files import write_whole
from loadstone.vta.isa.c_header import header
from loadstone.vta.isa.isa_page import page
from loadstone.vta.isa.sv_package import package

__all__ = ["OUTPUTS", "header", "package", "page", "stale", "write"]

#: Path below the repository's root -> its text.
OUTPUTS = {
    "driver/include/lds_isa.h": header,
    "hw_sim/rtl/lds_isa_pkg.sv": package,
    "docs/isa.md": page,
}


def write(root: Path) -> list[Path]:
    """Writes what is not current below the repository's root; returns the files that changed."""
    changed = stale(root)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, OUTPUTS[path.relative_to(root).as_posix()]())
    return changed


def stale(root: Path) -> list[Path]:
    """The generated files that differ from what the spec says, or are missing."""
    return [
        root / name
        for name, text in OUTPUTS.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text()
    ]
