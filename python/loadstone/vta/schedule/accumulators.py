# SPDX-License-Identifier: Apache-2.0
"""Statements on the accumulators of one tile: products, ALU operations, all in place.

In:   the loops over a tile, and which of its elements the output has (a subclass says both).
Out:  `Accumulators`, whose methods give statements, each a nest of one store; `ChainStep`, what is
      done to an accumulator, one after another.
Next: chain.py (elements), window.py (sums over windows), tile_writer.py (convolutions).

    acc = 0
    acc += x0 * weights[0]          Multiply(0, 0)
    acc += x1 * weights[1]          Multiply(1, 1)
    acc = acc >> 8                  Immediate("shr", 8)
    acc += x0 * weights[2] ...
    out = low byte of acc
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule.epilogue import Immediate, extern
from loadstone.vta.schedule.loops import Loops, chip_buffer

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, Stmt

__all__ = ["Accumulators", "ChainStep", "Element", "Index", "Multiply"]

Index: TypeAlias = "Sequence[Expr | int]"
#: Where an element of a tile stands: the tile's own loops, then sample and lane.
Element: TypeAlias = "tuple[Expr, ...]"


@dataclass(frozen=True)
class Multiply:
    """acc += input `input` times weight tile `tile`."""

    input: int
    tile: int


ChainStep: TypeAlias = Multiply | Immediate


class Accumulators:
    """sizes: of the loops over a tile. acc: the sum of every element."""

    def __init__(self, sizes: Sequence[int], config: HwConfig) -> None:
        self.sizes = tuple(sizes)
        self.batch, self.block = config.batch, config.block
        self.lanes, self.square = (self.batch, self.block), (self.block, self.block)
        self.shape = (*self.sizes, *self.lanes)
        self.acc = chip_buffer("acc", self.shape, "int32", "acc")

    def tile_loops(self, loops: Loops) -> tuple[Expr, ...]:
        """Opens the loops over the tile, with a condition where it hangs over the output."""
        raise NotImplementedError

    def product_lanes(self, loops: Loops) -> tuple[Expr, Expr, Expr]:
        """Loops over the lanes of a product: sample, output, input."""
        return (
            loops.loop(self.batch, "lane_b"),
            loops.loop(self.block, "lane"),
            loops.loop(self.block, "k"),
        )

    def gemm(self, at: Index, source: Expr, weight: Expr, into: Buffer | None = None) -> Stmt:
        """into (None: the sum) += source * weight."""
        into = self.acc if into is None else into
        product = source.astype("int32") * weight.astype("int32")
        return tirx.BufferStore(into, tirx.BufferLoad(into, at) + product, list(at))

    def pixels(self, store: Callable[[Element], tuple[Buffer, Index, Expr]]) -> Stmt:
        """One store for every element of the tile."""
        loops = Loops()
        at = self.tile_loops(loops)
        batch, lane = loops.loop(self.batch, "lane_b"), loops.loop(self.block, "lane")
        buffer, place, value = store((*at, batch, lane))
        return loops.around(tirx.BufferStore(buffer, value, list(place)))

    def cleared(self, buffer: Buffer) -> Stmt:
        """All elements of a tile 0."""
        return self.pixels(lambda at: (buffer, at, tirx.IntImm("int32", 0)))

    def alu(self, step: Callable[[Expr, Element], Expr], into: Buffer | None = None) -> Stmt:
        """into (None: the sum) = step of it and where it stands."""
        buffer = self.acc if into is None else into
        return self.pixels(lambda at: (buffer, at, step(tirx.BufferLoad(buffer, at), at)))

    def immediate(self, step: Immediate) -> Stmt:
        """The sum = the sum, operation, value."""
        return self.alu(lambda value, _: extern(step.op, value, step.value))

    def plus(self, into: Buffer, other: Buffer) -> Stmt:
        """into += other."""
        return self.alu(lambda value, at: extern("add", value, tirx.BufferLoad(other, at)), into)

    def shift(self, bits: int, into: Buffer | None = None) -> Stmt:
        """To the right by so many bits; to the left where they are negative."""
        return self.alu(lambda value, _: extern("shr", value, bits), into)

    def clamp(self, low: int, high: int) -> Stmt:
        """The sum within bounds."""
        return self.alu(lambda value, _: extern("min", extern("max", value, low), high))

    def stored(self, to: Callable[[Element], tuple[Buffer, Index]]) -> Stmt:
        """The low bytes of the sum to DRAM: the buffer and the place of each element."""
        return self.pixels(lambda at: (*to(at), tirx.BufferLoad(self.acc, at).astype("int8")))
