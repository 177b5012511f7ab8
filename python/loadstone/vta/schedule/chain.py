# SPDX-License-Identifier: Apache-2.0
"""A chain of products and ALU operations on one accumulator as nests over tiles.

In:   `ChainSpec`: loop extents in tiles, which loops each input moves along, the steps.
Out:  a Function. Parameters: x0, x1, ..., weights, out.
Next: kernels/from_nests.py.

    [weights: whole]
    for tiles:
        [x0]  acc = 0;  acc += x0 * weights[0]          an input is loaded in front of its first use
        [x1]  acc += x1 * weights[1]
        acc = acc >> 8 ...
        out = acc

An input that does not move along a loop is read with stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.accumulators import Accumulators, ChainStep, Element, Multiply
from loadstone.vta.schedule.affine import Place
from loadstone.vta.schedule.nests import (
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
    chip_copy,
    whole_copy,
)

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
        assert isinstance(self.steps[0], Multiply)
        assert all(len(moves) == len(self.extents) for moves in self.moves)

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
        self.x_chip = [
            NestTensor(f"{x.name}_chip", _moved(self.sizes, moves), self.lanes, "int8", Memory.INP)
            for x, moves in zip(self.x, spec.moves, strict=True)
        ]
        self.weights = NestTensor("weights", (spec.tiles,), self.square, "int8")
        self.weights_chip = chip_copy(self.weights, Memory.WGT)
        self.out = NestTensor("out", spec.extents, self.lanes, "int8")

    def function(self) -> Function:
        """The whole function."""
        weights = whole_copy(self.weights, self.weights_chip)
        body = (*weights, self.turns.around(self._turn()))
        return Function((*self.x, self.weights, self.out), body)

    def _turn(self) -> list[Statement]:
        statements: list[Statement] = [NestAllocation(tile) for tile in (self.acc, *self.x_chip)]
        loaded: set[int] = set()
        for number, step in enumerate(self.spec.steps):
            if isinstance(step, Multiply) and step.input not in loaded:
                statements.append(self._load(step.input))
                loaded.add(step.input)
            if number == 0:
                statements.append(self.cleared(self.acc))
            if isinstance(step, Multiply):
                statements.append(self._product(step))
            else:
                statements.append(self.immediate(step))
        return [*statements, self.stored(self._of_output)]

    def tile_loops(self, loops: NestLoops) -> Element:
        at = [loops.loop(size, f"t{loop}") for loop, size in enumerate(self.sizes)]
        self._within(loops, at)
        return tuple(at)

    def _within(self, loops: NestLoops, at: Sequence[Place | None]) -> None:
        """Conditions where the tile hangs over. None: a loop that is not there."""
        for place, begin, size, extent in zip(
            at, self.begins, self.sizes, self.spec.extents, strict=True
        ):
            if place is not None and extent % size:
                loops.within(begin + place, extent)

    def _load(self, number: int) -> Nest:
        loops, moves = NestLoops(), self.spec.moves[number]
        at = [
            loops.loop(size, f"t{loop}") if moving else None
            for loop, (size, moving) in enumerate(zip(self.sizes, moves, strict=True))
        ]
        self._within(loops, at)
        inside = tuple(place for place in at if place is not None) or (0,)
        source = tuple(
            begin + place for begin, place in zip(self.begins, at, strict=True) if place is not None
        ) or (0,)
        return loops.nest(
            NestStep("dma_copy", (self.x_chip[number][inside], self.x[number][source]), (0,))
        )

    def _product(self, step: Multiply) -> Nest:
        def product(at: Element) -> list[NestStep]:
            source = tuple(_along(at, self.spec.moves[step.input])) or (0,)
            value, weight = self.x_chip[step.input][source], self.weights_chip[step.tile]
            return [NestStep("gemm", (self.acc[at], value, weight))]

        return self.elements(product)

    def _of_output(self, at: Element) -> NestAccess:
        return self.out[tuple(begin + place for begin, place in zip(self.begins, at, strict=True))]


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
