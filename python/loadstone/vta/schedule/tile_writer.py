# SPDX-License-Identifier: Apache-2.0
"""One tile of a convolution: its turns, and statements on its accumulators.

In:   the extents of the output and of the tile, a HwConfig.
Out:  `TileWriter`, whose methods give statements; `tile_writer` has the one of each tile.
Next: sum_writer.py adds what the sum reads; rescaled.py writes a convolution with both.

A writer knows the tile alone, and a statement depends on nothing but the writer and what its method
is told. So one of two functions may have the other's: statements.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.accumulators import Accumulators, Element
from loadstone.vta.schedule.epilogue import extern
from loadstone.vta.schedule.loops import Loops, chip_buffer, dram_buffer
from loadstone.vta.schedule.rescaled_spec import StairShape

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, Stmt

__all__ = ["TileWriter", "tile_writer"]


class TileWriter(Accumulators):
    """Statements on the tile of one turn: `turns` are the two outer loops, everything else is nests
    of one store. acc: the sum of every output of the tile; more: two further accumulators."""

    def __init__(
        self, blocks: int, output: tuple[int, int], tile: tuple[int, int], config: HwConfig
    ) -> None:
        """output, tile: (rows, columns), of each of the blocks."""
        self.blocks, self.output, (self.rows, self.columns) = blocks, output, tile
        super().__init__((blocks, *tile), config)
        self.turns = Loops()
        self.row = self.turns.loop(-(-output[0] // self.rows), "row")
        self.column = self.turns.loop(-(-output[1] // self.columns), "column")
        self.out = dram_buffer("out", (blocks, *output, *self.lanes), "int8")
        self.more = [chip_buffer(name, self.shape, "int32", "acc") for name in ("acc1", "acc2")]

    def tile_loops(self, loops: Loops) -> tuple[Expr, ...]:
        """Loops over the tile's blocks and pixels, those that the output has."""
        block = loops.loop(self.blocks, "block")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        self.place(loops, i, j)
        return block, i, j

    def place(self, loops: Loops, i: Expr, j: Expr) -> tuple[Expr, Expr]:
        """Row and column of the output; a condition where a tile hangs over."""
        row, column = self.row * self.rows + i, self.column * self.columns + j
        for place, size, tile in zip(
            (row, column), self.output, (self.rows, self.columns), strict=True
        ):
            if size % tile:
                loops.conditions.append(place < size)
        return row, column

    # --- ALU operations ---------------------------------------------------------------------------
    def by_tile(self, operation: str, operands: Buffer, row: int) -> Stmt:
        """The sum = the sum, operation, a row of the operands of its block."""

        def step(value: Expr, at: Element) -> Expr:
            return extern(operation, value, tirx.BufferLoad(operands, (at[0], row, at[3], at[4])))

        return self.alu(step)

    def next_byte(self) -> Stmt:
        """The sum without its low byte, as that is read: with a sign."""
        return self.alu(lambda value, _: extern("shr", extern("add", value, 128), 8))

    def floor(self, stair: StairShape, into: Buffer) -> Stmt:
        """What a stair makes of an accumulator."""
        first, second = stair.shifts

        def shifted(value: Expr, _: Element) -> Expr:
            value = extern("shr", value, first)
            value = extern("add", value, stair.add) if stair.add else value
            value = extern("shr", value, second)
            value = value if stair.low is None else extern("max", value, stair.low)
            return value if stair.high is None else extern("min", value, stair.high)

        return self.alu(shifted, into)

    # --- products ---------------------------------------------------------------------------------
    def constant(
        self, ones: Buffer, tiles: Buffer, tile: int, is_shared: bool, into: Buffer
    ) -> Stmt:
        """into += a constant: the input tile `ones` times a weight tile, of each block or of
        all."""
        loops = Loops()
        block, i, j = self.tile_loops(loops)
        batch, lane, k = self.product_lanes(loops)
        weight = tirx.BufferLoad(tiles, (0 if is_shared else block, tile, lane, k))
        source = tirx.BufferLoad(ones, (0, batch, k))
        return loops.around(self.gemm((block, i, j, batch, lane), source, weight, into))

    def digit_products(
        self,
        digits: Buffer,
        run: tuple[int, int],
        tiles: Buffer,
        tile: int,
        is_shared: bool,
        into: Buffer,
    ) -> Stmt:
        """into += a run (first, count) of digits, each times a weight tile, of each block or of
        all; tile: the first one."""
        first, count = run
        loops = Loops()
        block, i, j = self.tile_loops(loops)
        turn = loops.loop(count, "digit")
        batch, lane, k = self.product_lanes(loops)
        source = tirx.BufferLoad(digits, (block, first + turn, i, j, batch, k))
        weight = tirx.BufferLoad(tiles, (0 if is_shared else block, tile + turn, lane, k))
        return loops.around(self.gemm((block, i, j, batch, lane), source, weight, into))

    # --- stores -----------------------------------------------------------------------------------
    def store(self, to: Buffer, digit: int | None = None) -> Stmt:
        """The low bytes of the sum to DRAM: to a tensor as large as the output, or a digit of
        such."""

        def of_output(at: Element) -> tuple[Buffer, Element]:
            row = self.row * self.rows + at[1]
            column = self.column * self.columns + at[2]
            which = () if digit is None else (digit,)
            return to, (at[0], *which, row, column, at[3], at[4])

        return self.stored(of_output)

    def fetch(self, digits: Buffer, copy: Buffer, count: int) -> Stmt:
        """The digits of this tile from DRAM, as input tiles."""
        loops = Loops()
        block = loops.loop(self.blocks, "block")
        digit = loops.loop(count, "digit")
        i, j = loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        row, column = self.place(loops, i, j)
        value = tirx.BufferLoad(digits, (block, digit, row, column, batch, lane))
        return loops.around(tirx.BufferStore(copy, value, [block, digit, i, j, batch, lane]))


@lru_cache(maxsize=256)
def tile_writer(
    blocks: int, output: tuple[int, int], tile: tuple[int, int], config: HwConfig
) -> TileWriter:
    """One for all functions with such a tile."""
    return TileWriter(blocks, output, tile, config)
