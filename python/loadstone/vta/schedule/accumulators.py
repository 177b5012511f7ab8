# SPDX-License-Identifier: Apache-2.0
"""Statements on the accumulators of one tile: products, ALU operations, all in place.

In:   the loops over a tile, and which of its elements the output has (a subclass says both).
Out:  `Accumulators`, whose methods give nests; `ChainStep`, what is done to an accumulator, one
      after another.
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
from functools import cached_property
from typing import TypeAlias

from loadstone.ir_pass.affine import Index
from loadstone.ir_pass.nests import COPY, Nest, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.schedule.epilogue import Immediate

__all__ = ["Accumulators", "ChainStep", "Element", "Multiply"]

#: Where an element of a tile stands: the tile's own loops.
Element: TypeAlias = tuple[Index, ...]


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
        self.lanes, self.square = (config.batch, config.block), (config.block, config.block)
        self.acc = self.sums("acc")

    def sums(self, name: str) -> NestTensor:
        """Accumulators of every element."""
        return NestTensor(name, self.sizes, self.lanes, "int32", "local")

    def tile_loops(self, loops: NestLoops) -> Element:
        """Opens the loops over the tile, with a condition where it hangs over the output."""
        raise NotImplementedError

    def elements(self, steps: Callable[[Element], Sequence[NestStep]]) -> Nest:
        """Steps for every element of the tile."""
        loops, at = self._tile
        return loops.nest(*steps(at))

    @cached_property
    def _tile(self) -> tuple[NestLoops, Element]:
        """The loops over it, and nothing else in them."""
        loops = NestLoops()
        return loops, self.tile_loops(loops)

    def cleared(self, sums: NestTensor) -> Nest:
        """All elements of a tile 0."""
        return self.elements(lambda at: [NestStep("fill", (sums[at],), (0,))])

    def alu(self, operations: Sequence[Immediate], into: NestTensor | None = None) -> Nest:
        """into (None: the sum) = what operations make of it."""
        sums = self.acc if into is None else into
        return self.elements(
            lambda at: [NestStep(each.op, (sums[at],), (each.value,)) for each in operations]
        )

    def immediate(self, step: Immediate) -> Nest:
        """The sum = the sum, operation, value."""
        return self.alu([step])

    def plus(self, into: NestTensor, other: NestTensor) -> Nest:
        """into += other."""
        return self.elements(lambda at: [NestStep("add", (into[at], other[at]))])

    def shift(self, bits: int, into: NestTensor | None = None) -> Nest:
        """Shifts to the right by this many bits; to the left where the number is negative."""
        return self.alu([Immediate("shr", bits)], into)

    def clamp(self, low: int, high: int) -> Nest:
        """The sum within bounds."""
        return self.alu([Immediate("max", low), Immediate("min", high)])

    def stored(self, to: Callable[[Element], NestAccess]) -> Nest:
        """The low bytes of the sum to DRAM: the place of each element."""
        return self.elements(lambda at: [NestStep(COPY, (to(at), self.acc[at]))])
