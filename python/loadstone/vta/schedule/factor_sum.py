# SPDX-License-Identifier: Apache-2.0
"""The sum of one tile of a product of activations, one of which is loaded as weights.

In:   a Window whose rows are matrices, Factors, the tile's writer, how many blocks are summed at
      once.
Out:  `FactorSum`, with the interface of a SumWriter.
Next: rescaled.py writes it between the other nests of a tile.

    x[c, h, m][1, k]           the first factor: of each matrix h its rows m
    w[c, h, o][lane, k]        the second one: its rows are lanes, a block of them a tile
    first[c, part][1, k]       tiles whose parts add up to minus the zero point of x
    second[c, part][lane, k]   the same for w
    acc[o, h, m] += x * w + first * w + x * second
"""

from __future__ import annotations

from collections.abc import Callable

from loadstone.ir_pass.affine import Place
from loadstone.ir_pass.nests import Nest, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.vta.schedule.rescaled_spec import Factors, Window
from loadstone.vta.schedule.tile_writer import TileWriter

__all__ = ["FactorSum"]


class FactorSum:
    """x, w: the factors; tables: of their zero points, where they have some. chunks: the loop over
    all chunks of blocks, and `each` is its variable."""

    def __init__(self, window: Window, factors: Factors, chunk: int, tile: TileWriter) -> None:
        self.window, self.chunk, self.tile = window, chunk, tile
        depth, (matrices, rows) = window.in_blocks, window.input
        first, second = factors.parts
        self.x = NestTensor("x", (depth, matrices, rows), tile.lanes, "int8")
        self.w = NestTensor("w", (depth, matrices, factors.columns), tile.square, "int8")
        self.first = NestTensor("first", (depth, max(1, first)), tile.lanes, "int8", "table")
        self.second = NestTensor("second", (depth, max(1, second)), tile.square, "int8", "table")
        self.parts = factors.parts
        self.tables = (self.first,) * (first > 0) + (self.second,) * (second > 0)
        self.chunks = NestLoops()
        self.each = self.chunks.turn(-(-depth // chunk), "chunk")

    def products(self, chunk: Place, _run: tuple[int, int]) -> Nest:
        """acc += x * w."""
        return self._nest(chunk, lambda x, w, _source: (x, w))

    def others(self) -> list[Nest]:
        """acc += first * w + x * second, in each chunk."""
        first, second = self.parts
        return [
            *(
                self._nest(
                    self.each, lambda _x, w, source, part=part: (self.first[source, part], w)
                )
                for part in range(first)
            ),
            *(
                self._nest(
                    self.each, lambda x, _w, source, part=part: (x, self.second[source, part])
                )
                for part in range(second)
            ),
        ]

    def _nest(self, chunk: Place, factors: Callable[..., tuple[NestAccess, NestAccess]]) -> Nest:
        """acc += the product that `factors` makes of x, w and the block of channels."""
        loops = NestLoops()
        at = self.tile.tile_loops(loops)
        source = chunk * self.chunk + loops.loop(self.chunk, "inner")
        if self.window.in_blocks % self.chunk:
            loops.within(source, self.window.in_blocks)
        block, matrix, row = self.tile.of_output(at)
        pair = factors(self.x[source, matrix, row], self.w[source, matrix, block], source)
        return loops.nest(NestStep("gemm", (self.tile.acc[at], *pair)))
