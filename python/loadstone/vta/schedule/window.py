# SPDX-License-Identifier: Apache-2.0
"""Sums over windows, and a chain of products and ALU operations on them, as nests over tiles.

In:   `WindowSpec`: geometry in tiles, which part of the output, the steps.
Out:  a Function without copies. Parameters: weights, x, out.
Next: ir_pass/insert_dma_copy.py.

A product of the chain (accumulators.py) is that of every tap of the window with one weight tile, so
that the window's sum is multiplied. The input stays on the chip from the first product to the last;
a sum of more taps than fit is loaded again, part by part, for each product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Place
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.accumulators import Accumulators, ChainStep, Element, Multiply

__all__ = ["WindowSpec", "schedule"]

#: Tiles of the output that are in flight are at most this part of all, so that load, compute and
#: store overlap.
_LEAST_PARTS = 4


@dataclass(frozen=True)
class WindowSpec:
    """blocks: samples times channel blocks. padding: (top, left), read as 0. first, part: the
    output pixels that are computed, of output."""

    blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    first: tuple[int, int]
    part: tuple[int, int]
    steps: tuple[ChainStep, ...]

    @property
    def tiles(self) -> int:
        """Weight tiles."""
        return 1 + max(step.tile for step in self.steps if isinstance(step, Multiply))

    def reach(self, axis: int, extent: int) -> int:
        """The number of input pixels along an axis that this many output pixels read."""
        return (extent - 1) * self.strides[axis] + self.kernel[axis]


@dataclass(frozen=True)
class _Tile:
    """Output tiles in flight, and rows of the window whose input is."""

    blocks: int
    rows: int
    columns: int
    taps: int


def schedule(spec: WindowSpec, config: HwConfig) -> Function:
    """The function of one spec."""
    return _Writer(spec, _tile(spec, config), config).function()


class _Writer(Accumulators):
    """Writes the function. begins: block, row and column of the part where a turn's tile begins."""

    def __init__(self, spec: WindowSpec, tile: _Tile, config: HwConfig) -> None:
        super().__init__((tile.blocks, tile.rows, tile.columns), config)
        self.spec, self.taps = spec, tile.taps
        self.extents = (spec.blocks, *spec.part)
        self.turns = NestLoops()
        self.begins = [
            self.turns.turn(-(-extent // size), f"{name}_0") * size
            for name, extent, size in zip("cij", self.extents, self.sizes, strict=True)
        ]
        self.x = NestTensor("x", (spec.blocks, *spec.input), self.lanes, "int8")
        self.weights = NestTensor("weights", (spec.tiles,), self.square, "int8", "table")
        self.out = NestTensor("out", (spec.blocks, *spec.output), self.lanes, "int8")

    def function(self) -> Function:
        """The whole function."""
        tensors = (self.weights, self.acc, self.x, self.out)
        return Function("window", tensors, self.turns.around(self._turn()))

    def _turn(self) -> list[Statement]:
        """Where the whole window is in flight, the sum begins with the first product; else each
        product reads it part by part."""
        cleared, taps = self.cleared(self.acc), self.spec.kernel[0]
        statements: list[Statement] = [cleared]
        for number, step in enumerate(self.spec.steps):
            if not isinstance(step, Multiply):
                statements.append(self.immediate(step))
            elif self.taps < taps:
                turns = NestLoops()
                first = turns.loop(-(-taps // self.taps), "ky_0") * self.taps
                statements += turns.around([self._product(step, first)])
            elif number == 0:
                statements = [NestGroup((cleared, self._product(step, 0)))]
            else:
                statements.append(self._product(step, 0))
        return [*statements, self.stored(self._of_output)]

    def tile_loops(self, loops: NestLoops) -> Element:
        at = [loops.loop(size, name) for name, size in zip("cij", self.sizes, strict=True)]
        for place, begin, size, extent in zip(
            at, self.begins, self.sizes, self.extents, strict=True
        ):
            if extent % size:
                loops.within(begin + place, extent)
        return tuple(at)

    def _product(self, step: Multiply, first: Place) -> Nest:
        """Of the taps in flight, from `first` on."""
        spec, loops = self.spec, NestLoops()
        c, i, j = self.tile_loops(loops)
        y, x = loops.loop(self.taps, "ky"), loops.loop(spec.kernel[1], "kx")
        if spec.kernel[0] % self.taps:
            loops.within(first + y, spec.kernel[0])
        block, *pixel = self._whole((c, i, j))
        places = [
            place * stride + tap - padding
            for place, stride, tap, padding in zip(
                pixel, spec.strides, (first + y, x), spec.padding, strict=True
            )
        ]
        source = NestAccess(self.x, (block, *places), 0)
        product = NestStep("gemm", (self.acc[c, i, j], source, self.weights[step.tile]))
        return loops.nest(product)

    def _of_output(self, at: Element) -> NestAccess:
        return self.out[self._whole(at)]

    def _whole(self, at: Element) -> Element:
        """Block, row and column of the output."""
        c, i, j = (begin + place for begin, place in zip(self.begins, at, strict=True))
        return c, i + self.spec.first[0], j + self.spec.first[1]


def _tile(spec: WindowSpec, config: HwConfig) -> _Tile:
    """The largest part whose input fits twice, with its accumulators; of a window that does not
    fit, as many rows as do."""
    found = [
        _Tile(blocks, rows, columns, taps)
        for taps in _parts(spec.kernel[0])
        for columns in _parts(spec.part[1])
        for rows in _parts(spec.part[0])
        for blocks in _parts(spec.blocks)
        if (rows == spec.part[0] or blocks == 1)
        and (taps == spec.kernel[0] or (rows, columns, blocks) == (1, 1, 1))
        and _fits(spec, config, _Tile(blocks, rows, columns, taps))
    ]
    if not found:
        raise LoweringError(
            f"tile: windows of {spec.kernel[0]}x{spec.kernel[1]} pixels fit no scratchpad "
            f"of {config.name}"
        )
    whole = spec.blocks * prod(spec.part)

    def preferred(tile: _Tile) -> tuple[int, bool, int]:
        size = tile.blocks * tile.rows * tile.columns
        small = size * _LEAST_PARTS <= whole
        return tile.taps, small, size if small else -size

    return max(found, key=preferred)


def _fits(spec: WindowSpec, config: HwConfig, tile: _Tile) -> bool:
    rows = (tile.rows - 1) * spec.strides[0] + tile.taps
    pixels = tile.blocks * rows * spec.reach(1, tile.columns)
    accumulators = tile.blocks * tile.rows * tile.columns
    micro_ops = tile.taps * spec.kernel[1] * min(tile.blocks, tile.rows, tile.columns)
    return (
        2 * pixels <= config.depth(Memory.INP)
        and 2 * accumulators <= config.depth(Memory.ACC)
        and 4 * micro_ops <= config.depth(Memory.UOP)
    )


def _parts(total: int) -> list[int]:
    """Sizes that cut `total` into nearly equal parts."""
    return sorted({-(-total // count) for count in range(1, total + 1)}, reverse=True)
