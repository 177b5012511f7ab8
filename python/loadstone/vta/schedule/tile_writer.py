# SPDX-License-Identifier: Apache-2.0
"""One tile of a convolution: its turns, and nests on its accumulators.

In:   the extents of the output and of the tile, a HwConfig.
Out:  `TileWriter`, whose methods give nests; `tile_writer` has the one of each tile.
Next: sum_writer.py adds what the sum reads; rescaled.py writes a convolution with both.

A writer depends on the tile alone, and a nest on nothing but the writer and the arguments of its
method. Two functions can therefore share a nest: `once` in ir_pass/nests.py.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.nests import Nest, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.schedule.accumulators import Accumulators, Element
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.rescaled_spec import StairShape

__all__ = ["TileWriter", "tile_writer"]


class TileWriter(Accumulators):
    """Nests on the tile of one turn: `turns` are the two outer loops. acc: the sum of every output
    of the tile; more: two further accumulators."""

    def __init__(
        self, blocks: int, output: tuple[int, int], tile: tuple[int, int], config: HwConfig
    ) -> None:
        """output, tile: (rows, columns), of each of the blocks."""
        self.blocks, self.output, (self.rows, self.columns) = blocks, output, tile
        super().__init__((blocks, *tile), config)
        self.turns = NestLoops()
        self.row = self.turns.loop(-(-output[0] // self.rows), "row")
        self.column = self.turns.loop(-(-output[1] // self.columns), "column")
        self.out = NestTensor("out", (blocks, *output), self.lanes, "int8")
        self.more = [self.sums(name) for name in ("acc1", "acc2")]

    def tile_loops(self, loops: NestLoops) -> Element:
        """Loops over the tile's blocks and pixels, those that the output has."""
        block = loops.loop(self.blocks, "block")
        at = block, loops.loop(self.rows, "i"), loops.loop(self.columns, "j")
        for place, size, tile in zip(
            self.of_output(at)[1:], self.output, (self.rows, self.columns), strict=True
        ):
            if size % tile:
                loops.within(place, size)
        return at

    def of_output(self, at: Element) -> Element:
        """Block, row and column of the output."""
        block, i, j = at
        return block, self.row * self.rows + i, self.column * self.columns + j

    # --- ALU operations ---------------------------------------------------------------------------
    def by_tile(self, operation: str, operands: NestTensor, row: int) -> Nest:
        """The sum = the sum, operation, a row of the operands of its block."""
        return self.elements(lambda at: [NestStep(operation, (self.acc[at], operands[at[0], row]))])

    def next_byte(self) -> Nest:
        """The sum without its low byte, as that is read: with a sign."""
        return self.alu([Immediate("add", 128), Immediate("shr", 8)])

    def floor(self, stair: StairShape, into: NestTensor) -> Nest:
        """What a stair makes of an accumulator."""
        first, second = stair.shifts
        operations = [Immediate("shr", first)]
        operations += [Immediate("add", stair.add)] if stair.add else []
        operations += [Immediate("shr", second)]
        operations += [] if stair.low is None else [Immediate("max", stair.low)]
        operations += [] if stair.high is None else [Immediate("min", stair.high)]
        return self.alu(operations, into)

    # --- products ---------------------------------------------------------------------------------
    def constant(
        self, ones: NestTensor, tiles: NestTensor, tile: int, is_shared: bool, into: NestTensor
    ) -> Nest:
        """into += a constant: the input tile `ones` times a weight tile, of each block or of
        all."""

        def product(at: Element) -> list[NestStep]:
            weight = tiles[0 if is_shared else at[0], tile]
            return [NestStep("gemm", (into[at], ones[0], weight))]

        return self.elements(product)

    def digit_products(
        self,
        digits: NestTensor,
        run: tuple[int, int],
        tiles: NestTensor,
        tile: int,
        is_shared: bool,
        into: NestTensor,
    ) -> Nest:
        """into += a run (first, count) of digits, each times a weight tile, of each block or of
        all; tile: the first one."""
        first, count = run
        loops = NestLoops()
        at = self.tile_loops(loops)
        turn = loops.loop(count, "digit")
        block, row, column = self.of_output(at)
        weight = tiles[0 if is_shared else block, tile + turn]
        digit = digits[block, first + turn, row, column]
        return loops.nest(NestStep("gemm", (into[at], digit, weight)))

    # --- results ----------------------------------------------------------------------------------
    def store(self, to: NestTensor, digit: int | None = None) -> Nest:
        """The low bytes of the sum to DRAM: to a tensor as large as the output, or a digit of
        such."""

        def place(at: Element) -> NestAccess:
            block, row, column = self.of_output(at)
            return to[block, row, column] if digit is None else to[block, digit, row, column]

        return self.stored(place)


@lru_cache(maxsize=256)
def tile_writer(
    blocks: int, output: tuple[int, int], tile: tuple[int, int], config: HwConfig
) -> TileWriter:
    """One for all functions with such a tile."""
    return TileWriter(blocks, output, tile, config)
