# SPDX-License-Identifier: Apache-2.0
"""The sum of one tile of a convolution: loads of its factors, and their products.

In:   a Window, the tile's writer, how many input blocks are summed at once.
Out:  `SumWriter`, whose methods give nests; `sum_writer` has the one of each tile.
Next: rescaled.py puts the nests one behind the other.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.affine import Index, Place
from loadstone.ir_pass.nests import COPY, Nest, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.vta.schedule.rescaled_spec import Window
from loadstone.vta.schedule.tile_writer import TileWriter

__all__ = ["SumWriter", "sum_writer"]


class SumWriter:
    """x, w: the factors in DRAM; pixels, weights: those of a chunk on chip. chunks: the loop over
    all chunks, and `each` is its variable."""

    def __init__(self, window: Window, own_input: bool, chunk: int, tile: TileWriter) -> None:
        self.window, self.own_input, self.chunk, self.tile = window, own_input, chunk, tile
        groups = tile.blocks if own_input else 1
        lanes, square = tile.lanes, tile.square
        taps = (window.parts, *window.kernel)
        rows, columns = window.loaded(tile.rows, tile.columns)
        #: Of a tile of one row, rows of the scratchpad are the taps that are read.
        self.tap_rows = 1 if tile.rows == 1 else window.dilation[0]
        loaded = (groups, chunk, window.kernel[0] if tile.rows == 1 else rows, columns)
        self.x = NestTensor("x", (groups, window.in_blocks, *window.input), lanes, "int8")
        self.w = NestTensor("w", (tile.blocks, window.in_blocks, *taps), square, "int8")
        self.pixels = NestTensor("x_chip", loaded, lanes, "int8", "local", "inp")
        self.weights = NestTensor(
            "w_chip", (tile.blocks, chunk, *taps), square, "int8", "local", "wgt"
        )
        self.chunks = NestLoops()
        self.each = self.chunks.turn(-(-window.in_blocks // chunk), "chunk")

    def load_pixels(self, chunk: Place) -> Nest:
        """Input rows of the tile, with pads, no more than the whole output needs."""
        window, tile, loops = self.window, self.tile, NestLoops()
        names = ("group", "inner", "y", "x")
        group, inner, y, x = (
            loops.loop(extent, name) for extent, name in zip(self.pixels.shape, names, strict=True)
        )
        whole = window.loaded(*window.output)
        first = (tile.row * tile.rows, tile.column * tile.columns)
        places = [
            start * step + at for start, step, at in zip(first, window.step, (y, x), strict=True)
        ]
        sources = []
        for axis, place in enumerate(places):
            size = (tile.rows, tile.columns)[axis]
            turns = -(-window.output[axis] // size)
            covered = (turns - 1) * size * window.step[axis]
            single = axis == 0 and tile.rows == 1
            if covered + self.pixels.shape[2 + axis] > whole[axis] and not single:
                loops.within(place, whole[axis])
            if single:
                place = first[0] * window.strides[0] + y * window.dilation[0]
                sources.append(place - window.padding[0])
                continue
            apart = window.strides[0] if axis == 0 and window.kernel[0] == 1 else 1
            sources.append(place * apart - window.padding[axis])
        self._within(loops, inner, chunk)
        at = (group, chunk * self.chunk + inner, *sources)
        source = NestAccess(self.x, at, window.pad_value)
        return loops.nest(NestStep(COPY, (self.pixels[group, inner, y, x], source)))

    def load_weights(self, chunk: Place) -> Nest:
        """All taps of the chunk."""
        loops, copy = NestLoops(), self.weights
        at = [loops.loop(extent, f"w{axis}") for axis, extent in enumerate(copy.shape)]
        self._within(loops, at[1], chunk)
        source = self.w[at[0], chunk * self.chunk + at[1], at[2], at[3], at[4]]
        return loops.nest(NestStep(COPY, (copy[tuple(at)], source)))

    def products(self, chunk: Place, run: tuple[int, int]) -> Nest:
        """acc += pixels * weights, of a run (first, count) of parts."""
        window, loops = self.window, NestLoops()
        block, i, j = self.tile.tile_loops(loops)
        first, count = run
        inner, part, y, x = (
            loops.loop(extent, name)
            for extent, name in zip(
                (self.chunk, count, *window.kernel),
                ("inner", "part", "ky", "kx"),
                strict=True,
            )
        )
        self._within(loops, inner, chunk)
        pixel = self.pixels[
            block if self.own_input else 0,
            inner,
            i * window.step[0] + y * self.tap_rows,
            j * window.step[1] + x * window.dilation[1],
        ]
        weight = self.weights[block, inner, first + part, y, x]
        return loops.nest(NestStep("gemm", (self.tile.acc[block, i, j], pixel, weight)))

    def _within(self, loops: NestLoops, inner: Index, chunk: Place) -> None:
        """Input blocks beyond the last one are in no chunk."""
        if self.window.in_blocks % self.chunk:
            loops.within(chunk * self.chunk + inner, self.window.in_blocks)


@lru_cache(maxsize=256)
def sum_writer(window: Window, own_input: bool, chunk: int, tile: TileWriter) -> SumWriter:
    """One for all functions with such a sum. tile: of tile_writer."""
    return SumWriter(window, own_input, chunk, tile)
