# SPDX-License-Identifier: Apache-2.0
"""What orders instructions of different units against each other: who touched each place last.

In:   instructions in program order: the unit of each, the places that it reads and writes.
Out:  TouchHazards: the last instruction of each unit that one must not overtake; TouchTable, one
      memory of it; conflicts_of: the same of a whole program.
Next: tokens.py sets tokens by it, token_proof.py holds them against it; vta/hazards.py has VTA's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NONE",
    "Conflicts",
    "Touch",
    "TouchHazards",
    "TouchRows",
    "TouchStep",
    "TouchTable",
    "Toucher",
    "conflicts_of",
]

#: No instruction.
NONE = -1
#: What a place is touched by: a unit, and whether it writes.
Toucher: TypeAlias = tuple[int, bool]
#: What it looks at, by unit, and what it is written into.
TouchRows: TypeAlias = "tuple[list[tuple[int, NDArray[np.int32]]], NDArray[np.int32] | None]"
_Step = TypeVar("_Step")
_Told = TypeVar("_Told", contravariant=True)


class Conflicts(Protocol[_Told]):
    """Told of instructions in program order."""

    def conflicts(self, step: _Told, number: int, /) -> list[int]:
        """Per unit, the last instruction that instruction `number`, this one, must not overtake."""
        ...


def conflicts_of(steps: Sequence[_Step], hazards: Conflicts[_Step]) -> list[list[int]]:
    """Of each instruction: per unit, the last one before it that it must not overtake."""
    return [hazards.conflicts(step, number) for number, step in enumerate(steps)]


class TouchTable:
    """One memory: of each kind of touch that conflicts with one of another unit, the last
    instruction by place.

    of: by touch, the units and rows to look at: a writer conflicts with everyone, a reader with
        writers; and the row that it is written into, None where nobody looks at it. The two never
        meet: a unit's own touches are in order.
    """

    def __init__(self, touches: set[Toucher], size: int) -> None:
        pairs = {
            one: [other for other in touches if other[0] != one[0] and (one[1] or other[1])]
            for one in touches
        }
        told: dict[Toucher, NDArray[np.int32]] = {
            touch: np.full(size, NONE, np.int32)
            for touch in dict.fromkeys(other for others in pairs.values() for other in others)
        }
        self.of: dict[Toucher, TouchRows] = {
            one: ([(other[0], told[other]) for other in others], told.get(one))
            for one, others in pairs.items()
        }


@dataclass(frozen=True)
class Touch:
    """Places of a memory: `extent` of them in each turn of the loops (count, stride), which begin
    at `first`. space: a local memory, or a region of DRAM."""

    space: Hashable
    first: int
    loops: tuple[tuple[int, int], ...]
    extent: int
    writes: bool

    @property
    def end(self) -> int:
        """One past the last place."""
        return self.first + self.extent + sum((count - 1) * by for count, by in self.loops)


@dataclass(frozen=True)
class TouchStep:
    """An instruction as far as its order matters. name: for messages; cycles: about how long it
    works."""

    unit: int
    name: str
    touches: tuple[Touch, ...] = ()
    cycles: int = 1


class TouchHazards:
    """Of steps that say their touches. Places are counted in the largest unit that all touches of
    a memory are multiples of."""

    def __init__(self, units: int, steps: Sequence[TouchStep]) -> None:
        self.units = units
        touchers: dict[Hashable, set[Toucher]] = {}
        ends: dict[Hashable, int] = {}
        self._grain: dict[Hashable, int] = {}
        for step in steps:
            for touch in step.touches:
                space = touch.space
                touchers.setdefault(space, set()).add((step.unit, touch.writes))
                ends[space] = max(ends.get(space, 0), touch.end)
                strides = (stride for _, stride in touch.loops)
                grain = gcd(self._grain.get(space, 0), touch.first, touch.extent, *strides)
                self._grain[space] = grain
        self._tables = {
            space: TouchTable(of, ends[space] // self._grain[space])
            for space, of in touchers.items()
        }

    def conflicts(self, step: TouchStep, number: int) -> list[int]:
        """Per unit, the last instruction that instruction `number`, this one, must not overtake."""
        last = [NONE] * self.units
        for touch in step.touches:
            asked, told = self._tables[touch.space].of[step.unit, touch.writes]
            for other, row in asked:
                last[other] = max(last[other], int(self._view(row, touch).max()))
            if told is not None:
                self._view(told, touch)[...] = number
        return last

    def _view(self, row: NDArray[np.int32], touch: Touch) -> NDArray[np.int32]:
        grain, step = self._grain[touch.space], row.strides[0]
        shape = *(count for count, _ in touch.loops), touch.extent // grain
        strides = *(stride // grain * step for _, stride in touch.loops), step
        return np.ndarray(shape, row.dtype, row, touch.first // grain * step, strides)
