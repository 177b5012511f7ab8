# SPDX-License-Identifier: Apache-2.0
"""One tile of a convolution: its turns, and statements on its accumulators.

In:   a RescaledSpec, a HwConfig.
Out:  `TileWriter`, whose methods give statements.
Next: rescaled.py writes a convolution with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.accumulators import Accumulators, Element, Index
from loadstone.vta.schedule.epilogue import extern
from loadstone.vta.schedule.loops import Loops, chip_copy, dram_buffer
from loadstone.vta.schedule.rescaled_spec import RescaledSpec

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, Stmt

__all__ = ["TileWriter"]


class TileWriter(Accumulators):
    """Statements on the tile of one turn: `turns` are the two outer loops, everything else is nests
    of one store. acc: the sum of every output of the tile; p: operand tiles of each block."""

    def __init__(self, spec: RescaledSpec, config: HwConfig) -> None:
        self.spec, self.window = spec, spec.window
        self.rows, self.columns, self.chunk = spec.tile
        super().__init__((spec.blocks, self.rows, self.columns), config)
        self.turns = Loops()
        self.row = self.turns.loop(-(-self.window.output[0] // self.rows), "row")
        self.column = self.turns.loop(-(-self.window.output[1] // self.columns), "column")
        operands = (spec.blocks, max(1, spec.operand_rows), *self.lanes)
        self.p = dram_buffer("p", operands, "int32")
        self.p_chip = chip_copy(self.p, "acc")

    def tile_loops(self, loops: Loops) -> tuple[Expr, ...]:
        """Loops over the tile's blocks and pixels, those that the output has."""
        block = loops.loop(self.spec.blocks, "block")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        self.place(loops, i, j)
        return block, i, j

    def place(self, loops: Loops, i: Expr, j: Expr) -> tuple[Expr, Expr]:
        """Row and column of the output; a condition where a tile hangs over."""
        row, column = self.row * self.rows + i, self.column * self.columns + j
        for place, size, tile in zip(
            (row, column), self.window.output, (self.rows, self.columns), strict=True
        ):
            if size % tile:
                loops.conditions.append(place < size)
        return row, column

    def shift_by_tile(self, row: int) -> Stmt:
        """By a row of the operands."""
        return self._by_tile("shr", row)

    def add_tile(self, row: int) -> Stmt:
        """The sum += a row of the operands."""
        return self._by_tile("add", row)

    def _by_tile(self, operation: str, row: int) -> Stmt:
        def step(value: Expr, at: Element) -> Expr:
            return extern(
                operation, value, tirx.BufferLoad(self.p_chip, (at[0], row, at[3], at[4]))
            )

        return self.alu(step)

    def store(self, to: Callable[[Element], tuple[Buffer, Index]]) -> Stmt:
        """The low bytes of the sum to DRAM: the buffer and the place of each element, by its row
        and column in the output."""

        def of_output(at: Element) -> tuple[Buffer, Index]:
            row = self.row * self.rows + at[1]
            column = self.column * self.columns + at[2]
            return to((at[0], row, column, at[3], at[4]))

        return self.stored(of_output)
