# SPDX-License-Identifier: Apache-2.0
"""The table of networks by ways as text, and what of it is read back.

In:   cells.
Out:  a line for each, without what differs from one processor to the next.
Next: tests/golden/matrix.txt; __main__.py prints it, test_matrix.py compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.conftest import ROOT
from tests.matrix.cells import Cell

__all__ = ["GOLDEN", "line", "lines"]

GOLDEN = ROOT / "tests" / "golden" / "matrix.txt"


def line(cell: Cell) -> str:
    """`resnet  onnx  100 % of MACs on the device, 3 of 13 operators on the host, in C`."""
    begin = f"{cell.network:20} {cell.way:8}"
    if cell.refused:
        return f"{begin} refused: {cell.refused}"
    runs = "in C" if not cell.python else f"{len(cell.python)} steps need Python"
    return (
        f"{begin} {cell.macs:3d} % of MACs on the device, {len(cell.on_host)} of {cell.operators} "
        f"operators on the host, {runs}"
    )


def lines(file: Path = GOLDEN) -> dict[tuple[str, str], str]:
    """Those of a file, by network and way."""
    texts: Iterable[str] = file.read_text().splitlines() if file.exists() else ()
    return {(text.split()[0], text.split()[1]): text for text in texts}
