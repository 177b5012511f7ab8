# SPDX-License-Identifier: Apache-2.0
"""The sum of one tile of a convolution: loads of its factors, and their products.

In:   a Window, the tile's writer, how many input blocks are summed at once.
Out:  `SumWriter`, whose methods give statements; `sum_writer` has the one of each tile.
Next: rescaled.py puts the statements one behind the other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.relax.compat import tirx
from loadstone.vta.schedule.loops import Loops, chip_buffer, dram_buffer
from loadstone.vta.schedule.rescaled_spec import Window
from loadstone.vta.schedule.tile_writer import TileWriter

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, Stmt

__all__ = ["SumWriter", "sum_writer"]


class SumWriter:
    """x, w: the factors in DRAM; pixels, weights: those of a chunk on chip. chunks: the loop over
    all chunks, and `each` is its variable."""

    def __init__(self, window: Window, own_input: bool, chunk: int, tile: TileWriter) -> None:
        self.window, self.own_input, self.chunk, self.tile = window, own_input, chunk, tile
        groups = tile.blocks if own_input else 1
        lanes, square = tile.lanes, tile.square
        taps = (window.parts, *window.kernel)
        loaded = window.loaded(tile.rows, tile.columns)
        self.x = dram_buffer("x", (groups, window.in_blocks, *window.input, *lanes), "int8")
        self.w = dram_buffer("w", (tile.blocks, window.in_blocks, *taps, *square), "int8")
        self.pixels = chip_buffer("x_chip", (groups, chunk, *loaded, *lanes), "int8", "inp")
        self.weights = chip_buffer("w_chip", (tile.blocks, chunk, *taps, *square), "int8", "wgt")
        self.chunks = Loops()
        self.each = self.chunks.turn(-(-window.in_blocks // chunk), "chunk")

    def load_pixels(self, chunk: Expr) -> Stmt:
        """Input rows of the tile, with pads, no more than the whole output needs."""
        window, tile, loops = self.window, self.tile, Loops()
        names = ("group", "inner", "y", "x", "lane_b", "lane")
        group, inner, y, x, batch, lane = (
            loops.loop(int(extent), name)
            for extent, name in zip(self.pixels.shape, names, strict=True)
        )
        whole = window.loaded(*window.output)
        first = (tile.row * tile.rows, tile.column * tile.columns)
        places = [
            start * step + at for start, step, at in zip(first, window.step, (y, x), strict=True)
        ]
        inside = []
        sources = []
        for axis, place in enumerate(places):
            size = (tile.rows, tile.columns)[axis]
            turns = -(-window.output[axis] // size)
            covered = (turns - 1) * size * window.step[axis]
            if covered + int(self.pixels.shape[2 + axis]) > whole[axis]:
                loops.conditions.append(place < whole[axis])
            apart = window.strides[0] if axis == 0 and window.kernel[0] == 1 else 1
            source = place * apart - window.padding[axis]
            if window.padding[axis] > 0:
                inside.append(source >= 0)
            if (whole[axis] - 1) * apart - window.padding[axis] >= window.input[axis]:
                inside.append(source < window.input[axis])
            sources.append(source)
        self._within(loops, inner, chunk)
        at = (group, chunk * self.chunk + inner, *sources, batch, lane)
        value = tirx.BufferLoad(self.x, at)
        if inside:
            value = tirx.if_then_else(
                tirx.all(*inside), value, tirx.IntImm("int8", window.pad_value)
            )
        indices = [group, inner, y, x, batch, lane]
        return loops.around(tirx.BufferStore(self.pixels, value, indices))

    def load_weights(self, chunk: Expr) -> Stmt:
        """All taps of the chunk."""
        loops, copy = Loops(), self.weights
        at = [loops.loop(int(extent), f"w{axis}") for axis, extent in enumerate(copy.shape)]
        self._within(loops, at[1], chunk)
        source = [at[0], chunk * self.chunk + at[1], *at[2:]]
        return loops.around(tirx.BufferStore(copy, tirx.BufferLoad(self.w, source), at))

    def products(self, chunk: Expr, run: tuple[int, int]) -> Stmt:
        """acc += pixels * weights, of a run (first, count) of parts."""
        window, loops = self.window, Loops()
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
        batch, lane, k = self.tile.product_lanes(loops)
        self._within(loops, inner, chunk)
        source = (
            block if self.own_input else 0,
            inner,
            i * window.step[0] + y * window.dilation[0],
            j * window.step[1] + x * window.dilation[1],
            batch,
            k,
        )
        at = (block, i, j, batch, lane)
        weight = (block, inner, first + part, y, x, lane, k)
        pixel, by = tirx.BufferLoad(self.pixels, source), tirx.BufferLoad(self.weights, weight)
        return loops.around(self.tile.gemm(at, pixel, by))

    def _within(self, loops: Loops, inner: Expr, chunk: Expr) -> None:
        """Input blocks beyond the last one are in no chunk."""
        if self.window.in_blocks % self.chunk:
            loops.conditions.append(chunk * self.chunk + inner < self.window.in_blocks)


@lru_cache(maxsize=256)
def sum_writer(window: Window, own_input: bool, chunk: int, tile: TileWriter) -> SumWriter:
    """One for all functions with such a sum. tile: of tile_writer."""
    return SumWriter(window, own_input, chunk, tile)
