# SPDX-License-Identifier: Apache-2.0
"""The specification of a rescaled convolution's kernel: integers only.

In:   nothing.
Out:  RescaledSpec, and its parts: the sum's Window, the ChainShape of the operations after it.
Next: schedule/rescaled.py writes the nests, schedule/rescaled_tile.py chooses the tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

__all__ = ["ChainShape", "Factors", "LevelShape", "RescaledSpec", "StairShape", "Window"]


@dataclass(frozen=True)
class LevelShape:
    """shift of the sum so far; runs of digits (first, count), one weight tile each; constants.

    Without digits, the runs are of parts of the weights, and each is a whole sum.
    """

    shift: int
    runs: tuple[tuple[int, int], ...]
    constants: int

    @property
    def tiles(self) -> int:
        """Weight tiles that the level reads: those of the constants first."""
        return self.constants + sum(count for _, count in self.runs)


@dataclass(frozen=True)
class StairShape:
    """One of several floors of a sum: constants; whether the sign digit has a weight tile; a shift,
    something to add, another shift; a clamp, or None."""

    constants: int
    signed: bool
    shifts: tuple[int, int]
    add: int
    low: int | None
    high: int | None

    @property
    def tiles(self) -> int:
        """Weight tiles: those of the constants first."""
        return self.constants + self.signed


@dataclass(frozen=True)
class ChainShape:
    """The levels, then a shift: by `shift`, or by a tile of each block (None); then a clamp.

    upper: levels of a second accumulator, which is shifted to the left before each. stairs: in
    place of the shift, floors that are added up.
    """

    levels: tuple[LevelShape, ...]
    shift: int | None
    low: int
    high: int
    upper: tuple[LevelShape, ...] = ()
    stairs: tuple[StairShape, ...] = ()

    @property
    def tiles(self) -> int:
        """Weight tiles of all levels, and then of the stairs."""
        levels = sum(level.tiles for level in (*self.levels, *self.upper))
        return levels + sum(stair.tiles for stair in self.stairs)

    @property
    def accumulators(self) -> int:
        """The number of accumulator tiles besides that of the sum: one for the terms that are added
        to it, one for each further stair."""
        return min(2, max(0, len(self.stairs) - 1))


@dataclass(frozen=True)
class Window:
    """The sum in tiles and pixels. input, output, kernel, strides, dilation, padding: (height,
    width)."""

    in_blocks: int
    parts: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    pad_value: int

    @property
    def row_step(self) -> int:
        """Input rows between output rows as they lie in the scratchpad: a kernel of one row loads
        only the rows that it reads."""
        return 1 if self.kernel[0] == 1 else self.strides[0]

    @property
    def step(self) -> tuple[int, int]:
        """Of the input between neighbouring outputs, in the scratchpad."""
        return self.row_step, self.strides[1]

    def loaded(self, rows: int, columns: int) -> tuple[int, int]:
        """Input rows and columns in the scratchpad for a tile of the output."""
        first, second = (
            (size - 1) * step + (taps - 1) * apart + 1
            for size, step, taps, apart in zip(
                (rows, columns), self.step, self.kernel, self.dilation, strict=True
            )
        )
        return first, second

    @property
    def taps(self) -> int:
        """GEMM steps of one tile's sum."""
        return self.in_blocks * self.parts * prod(self.kernel)


@dataclass(frozen=True)
class Factors:
    """The sum of a product of activations, one of which is loaded as weights: a row of the window
    is a matrix. columns: of the second factor, in blocks, of which the kernel may do some. parts:
    tiles that add up to minus the zero point of the first and of the second factor."""

    columns: int
    parts: tuple[int, int]


@dataclass(frozen=True)
class RescaledSpec:
    """blocks: of output channels, side by side. own_input: each has input blocks of its own
    (depthwise). tile: rows, columns, input blocks. bias: weight tiles of it; added: it is an
    operand tile instead. left, right: shifts in front of the split: by an immediate (below 0:
    to the right), then by a tile. multipliers: sets of weight tiles of the chain: `blocks`, or 1
    for all. digits 0: the levels add up products of parts of the weights. factors: of a product of
    activations."""

    window: Window
    blocks: int
    own_input: bool
    tile: tuple[int, int, int]
    bias: int
    left: int
    right: bool
    digits: int
    clamped: bool
    signed: bool
    chain: ChainShape
    multipliers: int
    added: bool = False
    factors: Factors | None = None

    @property
    def sum_steps(self) -> int:
        """GEMM steps of one tile's sum."""
        return self.window.taps * (1 + sum(self.factors.parts if self.factors else ()))

    @property
    def stored(self) -> int:
        """Digits that go through memory."""
        return self.digits + self.signed

    @property
    def chain_tiles(self) -> int:
        """Weight tiles of the chain besides the sum's own."""
        return self.chain.tiles if self.digits else sum(x.constants for x in self.chain.levels)

    @property
    def operand_rows(self) -> int:
        """Operand tiles of a block: the last shift, the bias, the shift in front of the split."""
        return self.bias_row + self.added + self.right

    @property
    def bias_row(self) -> int:
        """Of the operand tiles, where the bias is one."""
        return int(self.chain.shift is None)
