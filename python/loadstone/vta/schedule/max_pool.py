# SPDX-License-Identifier: Apache-2.0
"""Max pooling as nests over tiles: the window's input comes through the GEMM core into ACC, and the
ALU takes maxima tap by tap.

In:   `MaxPoolSpec`.
Out:  a Function without copies. Parameters: identity, x, out.
Next: ir_pass/insert_dma_copy.py.

    pixels[c, y, x]    = sum over k of x_padded[c, y, x][b, k] * identity[l, k]         pads are
    -128 and never win
    largest[c, i, j]   = max over ky, kx of pixels[c, i*stride + ky, j*stride + kx]

It is written directly in tiles: windows of neighbouring tiles overlap, so that the pixels of a tile
are no part of an axis that ir_pass/tile_loops.py could split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, gt, mul, sub

from loadstone.errors import LoweringError
from loadstone.graph.bfloat16 import LOWEST, immediate
from loadstone.ir_pass.affine import Place, highest, index
from loadstone.ir_pass.nests import (
    COPY,
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
from loadstone.vta.schedule.epilogue import Immediate

__all__ = ["MaxPoolSpec", "schedule"]

_LOWEST = -128
#: The bits of the least finite bfloat16: minus infinity, times the zeros of the identity, would be
#: no number.
_LOWEST_FLOAT = immediate(LOWEST)


@dataclass(frozen=True)
class MaxPoolSpec:
    """blocks: samples times channel blocks. padding: (top, left)."""

    blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    tail: tuple[Immediate, ...]

    def reach(self, tile: tuple[int, int]) -> tuple[int, int]:
        """Input pixels of a tile of output pixels."""
        rows, columns = ((tile[a] - 1) * self.strides[a] + self.kernel[a] for a in (0, 1))
        return rows, columns


def schedule(spec: MaxPoolSpec, config: HwConfig) -> Function:
    """The function of one spec."""
    return _Writer(spec, config).function()


class _Writer:
    """Writes the function. begins: block, row and column of the output where a turn's tile begins.
    here: an element of the tile, in the whole output."""

    def __init__(self, spec: MaxPoolSpec, config: HwConfig) -> None:
        self.spec, self.sizes = spec, _tile(spec, config)
        totals, padded = (spec.blocks, *spec.output), (spec.blocks, *spec.reach(spec.output))
        lanes, square = (config.batch, config.block), (config.block, config.block)
        element, self.lowest = ("int16", _LOWEST_FLOAT) if config.is_float else ("int8", _LOWEST)
        self.identity = NestTensor("identity", (1,), square, "int8", "table")
        self.pixels = NestTensor("pixels", padded, lanes, "int32", "local")
        self.largest = NestTensor("largest", totals, lanes, "int32", "local")
        self.x = NestTensor("x", (spec.blocks, *spec.input), lanes, element)
        self.out = NestTensor("out", totals, lanes, "int8")
        self.turns = NestLoops()
        self.begins = [
            self.turns.turn(-(-total // size), f"{name}_0") * size
            for name, total, size in zip("cij", totals, self.sizes, strict=True)
        ]
        self.tile = NestLoops()
        self.here = _opened(self.tile, "cij", self.sizes, self.begins, totals)

    def function(self) -> Function:
        """The whole function."""
        tensors = (self.identity, self.pixels, self.largest, self.x, self.out)
        return Function("max_pool", tensors, self.turns.around(self._turn()))

    def _turn(self) -> list[Statement]:
        value = self.largest[self.here]
        tail = [NestStep(each.op, (value,), (each.value,)) for each in self.spec.tail]
        return [
            self._pixels(),
            self.tile.nest(NestStep("fill", (value,), (self.lowest,))),
            self._maxima(value),
            *([self.tile.nest(*tail)] if tail else []),
            self.tile.nest(NestStep(COPY, (self.out[self.here], value))),
        ]

    def _pixels(self) -> NestGroup:
        """All that windows of the tile read, padding included."""
        spec, loops = self.spec, NestLoops()
        block, *pixel = self.begins
        begins = [block, *map(mul, pixel, spec.strides)]
        sizes = (self.sizes[0], *spec.reach(self.sizes[1:]))
        at = _opened(loops, "cuv", sizes, begins, self.pixels.shape)
        places = map(sub, at[1:], spec.padding)
        factor, value = NestAccess(self.x, (at[0], *places), self.lowest), self.pixels[at]
        return NestGroup(
            (
                loops.nest(NestStep("fill", (value,), (0,))),
                loops.nest(NestStep("gemm", (value, factor, self.identity[0]))),
            )
        )

    def _maxima(self, value: NestAccess) -> Nest:
        """Tap by tap, so that an accumulator comes again only after all others."""
        loops = NestLoops()
        taps = list(map(loops.loop, self.spec.kernel, ("ky", "kx")))
        loops.variables += self.tile.variables
        loops.conditions += self.tile.conditions
        block, *pixel = self.here
        tap: tuple[Place, ...] = (block, *map(add, map(mul, pixel, self.spec.strides), taps))
        return loops.nest(NestStep("max", (value, self.pixels[tap])))


def _opened(
    loops: NestLoops,
    names: str,
    sizes: Sequence[int],
    begins: Sequence[Place],
    totals: Sequence[int],
) -> tuple[Place, ...]:
    """Loops over a tile, within the whole; where on the whole axes their turn is."""
    at: list[Place] = []
    for name, size, begin, total in zip(names, sizes, begins, totals, strict=True):
        at.append(begin + loops.turn(size, name))
        if highest(index(at[-1])) >= total:
            loops.within(at[-1], total)
    return tuple(at)


def _tile(spec: MaxPoolSpec, config: HwConfig) -> tuple[int, int, int]:
    """(blocks, rows, columns): whole rows of one block where two sets fit; else parts of rows; more
    blocks where all rows fit.

    Where windows leave gaps (a stride larger than the kernel) that axis stays whole.
    """

    def fits(blocks: int, rows: int, columns: int, sets: int) -> bool:
        height, width = spec.reach((rows, columns))
        pixels = blocks * height * width
        acc = sets * (pixels + blocks * rows * columns)
        return sets * pixels <= config.depth(Memory.INP) and acc <= config.depth(Memory.ACC)

    def extents(axis: int) -> list[int]:
        size = spec.output[axis]
        if spec.strides[axis] > spec.kernel[axis]:
            return [size]
        return sorted({-(-size // count) for count in range(1, size + 1)}, reverse=True)

    for sets in (2, 1):
        for columns in extents(1):
            for rows in extents(0):
                if fits(1, rows, columns, sets):
                    whole = (rows, columns) == spec.output
                    blocks = max(
                        b
                        for b in range(1, spec.blocks + 1)
                        if b == 1 or (whole and fits(b, rows, columns, sets))
                    )
                    return blocks, rows, columns
    gaps = (
        ", with strides of {}x{},".format(*spec.strides)
        if any(map(gt, spec.strides, spec.kernel))
        else ""
    )
    raise LoweringError(
        f"tile: windows of {spec.kernel[0]}x{spec.kernel[1]} pixels{gaps} fit no scratchpad "
        f"of {config.name}"
    )
