# SPDX-License-Identifier: Apache-2.0
"""What depthwise convolutions cost where a step takes a whole window, lane by lane.

In:   the loops of a convolution (`WindowLoops`), the tiles of the candidates.
Out:  rows that windows read, micro-ops, and whether rows are too far apart.
Next: tilings.py estimates with them.

Rows are innermost (passes/encode/folding.py): a column of a tile begins with a whole window, and
each window below it needs as many new rows as it moves. They are the inner loop of an instruction,
or its micro-ops where blocks of channels and columns take both loops.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.hw_config import HwConfig

__all__ = ["WindowLoops", "micro_ops", "row_strides_fit", "rows_besides"]


class WindowLoops(Protocol):
    """The part of tilings.WeightedNest that windows depend on."""

    @property
    def lane_rows(self) -> int:
        """Rows of a window."""

    @property
    def taps(self) -> int:
        """Weight tiles of a pair of blocks."""

    @property
    def height(self) -> int:
        """Rows of the output."""

    @property
    def step(self) -> tuple[int, int]:
        """Input rows and columns from one output to the next."""

    @property
    def window(self) -> tuple[int, int]:
        """Input rows and columns of one output."""


def rows_besides(outputs: int, loops: WindowLoops, turns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of windows that are read for so many output tiles, in `turns` (candidates,) tiles along
    the height, besides one for each; 0 where steps are products of a tap."""
    if not loops.lane_rows:
        return np.zeros_like(turns)
    moved = min(loops.lane_rows, loops.step[0])
    columns = outputs // loops.height
    rows = columns * (loops.height * moved + turns * (loops.lane_rows - moved))
    return np.asarray(rows - outputs, np.int64)


def micro_ops(sizes: NDArray[np.int64], loops: WindowLoops) -> NDArray[np.int64]:
    """Of the sum of a tile, all loops but the two longest that move the accumulator; of windows the
    rows, where blocks and columns take both. sizes (6, candidates): samples, groups, output blocks,
    input blocks, rows, columns."""
    n, s, o, c, h, w = sizes
    if loops.lane_rows:
        return np.asarray(np.where((n * s * o > 1) & (w > 1), h, 1), np.int64)
    moving = np.sort(np.stack([n, s, o, h, w]), axis=0)
    return np.asarray(moving[:-2].prod(axis=0) * c * loops.taps, np.int64)


def row_strides_fit(
    width: NDArray[np.int64], loops: WindowLoops, config: HwConfig
) -> NDArray[np.bool_]:
    """Whether a field holds how far apart the rows of tiles of `width` (candidates,) columns are,
    where rows are those of windows."""
    apart = (width - 1) * loops.step[1] + loops.window[1]
    return np.asarray((loops.lane_rows == 0) | (apart < 1 << config.lw), np.bool_)
