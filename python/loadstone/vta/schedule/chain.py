# SPDX-License-Identifier: Apache-2.0
"""A chain of products and ALU operations on one accumulator as nests over tiles.

In:   `ChainSpec`: loop extents in tiles, which loops each input moves along, the steps.
Out:  a Function without copies. Parameters: weights, x0, x1, ..., out.
Next: ir_pass/insert_dma_copy.py.

    for tiles:
        acc = 0;  acc += x0 * weights[0]
        acc += x1 * weights[1]
        acc = acc >> 8 ...
        out = acc

An input that does not move along a loop is read with stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

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

__all__ = ["ChainSpec", "schedule"]

_Value = TypeVar("_Value")

#: Tiles in flight are at most so many, and at least so many parts of the whole, so that load,
#: compute and store overlap ...
_LARGEST_TILES = 512
_LEAST_PARTS = 6
#: ... but one part is no smaller than this, so that instructions do not cost more than their steps.
_LEAST_TILES = 64


@dataclass(frozen=True)
class ChainSpec:
    """extents: loops over tiles, outermost first. moves: per input and loop, whether the input
    moves along it. steps: the first is a Multiply. chosen: the tile of each loop; None: as large
    as it should be."""

    extents: tuple[int, ...]
    moves: tuple[tuple[bool, ...], ...]
    steps: tuple[ChainStep, ...]
    chosen: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.steps[0], Multiply):
            raise AssertionError(f"a chain begins with {self.steps[0]}, not with a product")
        if any(len(moves) != len(self.extents) for moves in self.moves):
            raise AssertionError(f"moves {self.moves} are not of {len(self.extents)} loops")

    @property
    def tiles(self) -> int:
        """Weight tiles."""
        return 1 + max(step.tile for step in self.steps if isinstance(step, Multiply))


def schedule(spec: ChainSpec, config: HwConfig) -> Function:
    """The function of one spec."""
    return _Writer(spec, config).function()


class _Writer(Accumulators):
    """Writes the function. begins: where the tile of this turn begins on each loop."""

    def __init__(self, spec: ChainSpec, config: HwConfig) -> None:
        super().__init__(_tile(spec, config), config)
        self.spec = spec
        self.turns = NestLoops()
        self.begins = [
            self.turns.turn(-(-extent // size), f"t{loop}_0") * size
            for loop, (extent, size) in enumerate(zip(spec.extents, self.sizes, strict=True))
        ]
        self.x = [
            NestTensor(f"x{number}", _moved(spec.extents, moves), self.lanes, "int8")
            for number, moves in enumerate(spec.moves)
        ]
        self.weights = NestTensor("weights", (spec.tiles,), self.square, "int8", "table")
        self.out = NestTensor("out", spec.extents, self.lanes, "int8")

    def function(self) -> Function:
        """The whole function."""
        tensors = (self.weights, self.acc, *self.x, self.out)
        return Function("chain", tensors, self.turns.around(self._turn()))

    def _turn(self) -> list[Statement]:
        """The sum begins with the first product."""
        first, *others = self.spec.steps
        assert isinstance(first, Multiply)
        begun = NestGroup((self.cleared(self.acc), self._product(first)))
        following = [
            self._product(step) if isinstance(step, Multiply) else self.immediate(step)
            for step in others
        ]
        return [begun, *following, self.stored(self._of_output)]

    def tile_loops(self, loops: NestLoops) -> Element:
        at = [loops.loop(size, f"t{loop}") for loop, size in enumerate(self.sizes)]
        for place, begin, size, extent in zip(
            at, self.begins, self.sizes, self.spec.extents, strict=True
        ):
            if extent % size:
                loops.within(begin + place, extent)
        return tuple(at)

    def _product(self, step: Multiply) -> Nest:
        def product(at: Element) -> list[NestStep]:
            source = tuple(_along(self._whole(at), self.spec.moves[step.input])) or (0,)
            value, weight = self.x[step.input][source], self.weights[step.tile]
            return [NestStep("gemm", (self.acc[at], value, weight))]

        return self.elements(product)

    def _of_output(self, at: Element) -> NestAccess:
        return self.out[self._whole(at)]

    def _whole(self, at: Element) -> Element:
        """The place of an element of the tile in the whole."""
        return tuple(begin + place for begin, place in zip(self.begins, at, strict=True))


def _along(values: Sequence[_Value], moves: Sequence[bool]) -> list[_Value]:
    """Those of the loops that an input moves along."""
    return [value for value, moving in zip(values, moves, strict=True) if moving]


def _moved(extents: Sequence[int], moves: Sequence[bool]) -> tuple[int, ...]:
    """The shape of an input that moves along some loops."""
    return tuple(_along(extents, moves)) or (1,)


def _tile(spec: ChainSpec, config: HwConfig) -> list[int]:
    """Tile sizes: those that were chosen; else filled from the innermost loop, at most half of what
    the scratchpads hold, at least some parts of the whole."""
    if spec.chosen is not None:
        return list(spec.chosen)
    room = min(config.depth(Memory.INP) // len(spec.moves), config.depth(Memory.ACC)) // 2
    wanted = max(_LEAST_TILES, -(-prod(spec.extents) // _LEAST_PARTS))
    left = max(1, min(room, wanted, _LARGEST_TILES))
    sizes: list[int] = []
    for extent in reversed(spec.extents):
        parts = -(-extent // left)
        sizes.insert(0, -(-extent // parts))
        left = max(1, left // sizes[0])
    return sizes
