# SPDX-License-Identifier: Apache-2.0
"""The taps of DEPTHWISE's window: which tiles it reads, and which weights they meet.

In:   an instruction, and the lanes of the device's tiles.
Out:  `window_taps`.
Next: reference.py executes instructions with it.

R is the most rows that a window of the device has. The last row of every window meets the weights
from 4 * (R - 1) on, so that hardware, which keeps the rows before it, need not move any:

    R = 3      weights of a lane    0 1 2 .   4 5 6 .   8 9 10 .   . . . .
    window     of three rows        row 0     row 1     row 2
               of two rows                    row 0     row 1
               of one row                               row 0

The place behind those of the last row is the second part of its first tile's weight, where the
instruction is wide: it counts 128 times.
"""

from __future__ import annotations

from loadstone.errors import SimulationError
from loadstone.vta.isa.insn import Depthwise
from loadstone.vta.isa.spec import WIDE_FACTOR, WINDOW_COLUMNS, WINDOW_PITCH, window_rows

__all__ = ["window_taps"]


def window_taps(insn: Depthwise, block: int) -> list[tuple[int, int, int]]:
    """(tile from the window's first on, weight of a lane, what the product counts) of each tap.
    Raises SimulationError for a window that the device has not."""
    most = window_rows(block)
    if not (1 <= insn.rows <= most and 1 <= insn.columns <= WINDOW_COLUMNS):
        raise SimulationError(
            f"DEPTHWISE: a window of {insn.rows} x {insn.columns} is outside [1, {most}] x "
            f"[1, {WINDOW_COLUMNS}]"
        )
    taps = [
        (r * insn.row_stride + c, WINDOW_PITCH * (most - insn.rows + r) + c, 1)
        for r in range(insn.rows)
        for c in range(insn.columns)
    ]
    if insn.wide:
        taps.append(((insn.rows - 1) * insn.row_stride, WINDOW_PITCH * most - 1, WIDE_FACTOR))
    return taps
