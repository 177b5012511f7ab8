# SPDX-License-Identifier: Apache-2.0
"""The sum of one tile of a convolution: products of its factors.

In:   a Window, the tile's writer, how many input blocks are summed at once.
Out:  `SumWriter`, whose `products` is a nest; `sum_writer` has the one of each tile.
Next: rescaled.py writes it between the other nests of a tile.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.affine import Place
from loadstone.ir_pass.nests import Nest, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.vta.schedule.rescaled_spec import Window
from loadstone.vta.schedule.tile_writer import TileWriter

__all__ = ["SumWriter", "sum_writer"]


class SumWriter:
    """x, w: the factors; tables: small tensors that it reads besides. chunks: the loop over all
    chunks, and `each` is its variable."""

    tables: tuple[NestTensor, ...] = ()

    def __init__(self, window: Window, own_input: bool, chunk: int, tile: TileWriter) -> None:
        self.window, self.own_input, self.chunk, self.tile = window, own_input, chunk, tile
        groups = tile.blocks if own_input else 1
        taps = (window.parts, *window.kernel)
        self.x = NestTensor("x", (groups, window.in_blocks, *window.input), tile.lanes, "int8")
        self.w = NestTensor("w", (tile.blocks, window.in_blocks, *taps), tile.square, "int8")
        self.chunks = NestLoops()
        self.each = self.chunks.turn(-(-window.in_blocks // chunk), "chunk")

    def products(self, chunk: Place, run: tuple[int, int]) -> Nest:
        """acc += pixels * weights, of a run (first, count) of parts."""
        window, loops = self.window, NestLoops()
        at = self.tile.tile_loops(loops)
        first, count = run
        inner, part, *taps = (
            loops.loop(extent, name)
            for extent, name in zip(
                (self.chunk, count, *window.kernel), ("inner", "part", "ky", "kx"), strict=True
            )
        )
        source = chunk * self.chunk + inner
        if window.in_blocks % self.chunk:
            loops.within(source, window.in_blocks)
        block, *pixel = self.tile.of_output(at)
        places = [
            place * stride + tap * apart - padding
            for place, stride, tap, apart, padding in zip(
                pixel, window.strides, taps, window.dilation, window.padding, strict=True
            )
        ]
        group = block if self.own_input else 0
        factor = NestAccess(self.x, (group, source, *places), window.pad_value)
        weight = self.w[block, source, first + part, taps[0], taps[1]]
        return loops.nest(NestStep("gemm", (self.tile.acc[at], factor, weight)))

    def others(self) -> list[Nest]:
        """What is summed besides, in each chunk."""
        return []


@lru_cache(maxsize=256)
def sum_writer(window: Window, own_input: bool, chunk: int, tile: TileWriter) -> SumWriter:
    """One for all functions with such a sum. tile: of tile_writer."""
    return SumWriter(window, own_input, chunk, tile)
