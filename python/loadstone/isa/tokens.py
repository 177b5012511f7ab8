# SPDX-License-Identifier: Apache-2.0
"""Dependency tokens from hazards, for any units and queues between them.

In:   instructions in program order with the unit of each; what each must not overtake; the queues.
Out:  the same with the token flags of each, and instructions that do nothing where a unit must
      pass on what another knows.
Next: token_proof.py proves that they suffice; vta/synchronize.py and program_tokens.py use it.

The units run in order, each at its own pace; only tokens order them against each other.

`knows[s][g]` is the last instruction of unit g that unit s can be sure is complete. An instruction
that conflicts with a later-than-known instruction p of another unit waits: p pushes, it pops. A pop
passes on all that p knew, so waits that follow from others are never made. What a unit must know of
one from which it has no queue comes by way of an instruction of a unit between the two, one that
waits for the former and pushes to the latter; it is chosen late enough that the unit between does
not stall, and one that does nothing stands in where there is none.

A unit that has run ahead of a neighbour by many tokens waits for it, so that no queue passes
`most`. A queue of few tokens has no room for those of instructions that are already out: there each
token is given by an instruction that knows of room for it, or by one that does nothing and waits
until there is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import le
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.hazards import NONE
from loadstone.isa.token_proof import QueueEnds

__all__ = ["Ordered", "TokenRules", "ordered"]

_Step = TypeVar("_Step")
#: A queue of fewer tokens is one of few.
_FEW = 64
#: No-ops that make room for each other, before the proof says that there is none.
_DEEPEST = 8


@dataclass(frozen=True)
class TokenRules(Generic[_Step]):
    """The units and their queues. most: of each queue, the tokens that it holds. noop: an
    instruction of a unit that does nothing, in the place of one; None where the unit has none.
    joins: whether an instruction waits for all before it.

    late: a queue whose popper, where it must wait, waits for the latest instruction that should be
    done by then, and not for the oldest that would do: whoever needs to know one of these then
    need not stall it.
    """

    units: Sequence[str]
    queues: Sequence[QueueEnds]
    most: Sequence[int]
    unit_of: Callable[[_Step], int]
    cycles_of: Callable[[_Step], int]
    noop: Callable[[int, _Step], _Step | None]
    joins: Callable[[_Step], bool] = lambda step: False
    late: QueueEnds | None = None

    @cached_property
    def between(self) -> dict[tuple[int, int], int]:
        """By (pusher, popper), the number of their queue."""
        return {(queue.pusher, queue.popper): k for k, queue in enumerate(self.queues)}

    @cached_property
    def pushed(self) -> list[list[tuple[int, int]]]:
        """By unit, the queues that it pushes to, and who pops."""
        return [
            [(k, queue.popper) for k, queue in enumerate(self.queues) if queue.pusher == unit]
            for unit in range(len(self.units))
        ]

    @cached_property
    def near(self) -> list[list[int]]:
        """By unit, those from which a queue leads to it, ascending."""
        return [
            sorted({queue.pusher for queue in self.queues if queue.popper == unit})
            for unit in range(len(self.units))
        ]

    @cached_property
    def has_few(self) -> bool:
        """Whether a queue holds few tokens, and room in it must be made."""
        return min(self.most, default=_FEW) < _FEW

    @cached_property
    def paths(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """By (from, to), the units between them on the shortest way; none where no way leads."""
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for begin in range(len(self.units)):
            edge = [(begin, ())]  # type: list[tuple[int, tuple[int, ...]]]
            while edge:
                unit, passed = edge.pop(0)
                for _, to in self.pushed[unit]:
                    if to != begin and (begin, to) not in found:
                        found[begin, to] = passed
                        edge.append((to, (*passed, to)))
        return found


@dataclass(frozen=True)
class Ordered(Generic[_Step]):
    """A stream in order: by instruction, its token flags that are set, and per unit the last one
    that it must not overtake, in this stream's numbers."""

    steps: list[_Step]
    flags: list[set[str]]
    conflicts: NDArray[np.int64]


def ordered(
    steps: Sequence[_Step], conflicts: Sequence[Sequence[int]], rules: TokenRules[_Step]
) -> Ordered[_Step]:
    """The instructions with their flags, and those that do nothing between them. conflicts: as of
    hazards.conflicts_of. Raises LoweringError where no queue leads from one unit to another that
    depends on it."""
    state = _State(rules)
    place: list[int] = []  # of each instruction so far, its number in the new stream
    for step, overtaken in zip(steps, conflicts, strict=True):
        unit = rules.unit_of(step)
        needed = (
            state.last
            if rules.joins(step)
            else [NONE if number == NONE else place[number] for number in overtaken]
        )
        flags = state.tokens_for(unit, needed)
        cycles = rules.cycles_of(step)
        number = state.append(step, flags)
        place.append(number)
        state.clock[unit] += cycles
        if rules.late is not None and unit == rules.late.pusher:
            begin = state.clock[rules.late.popper]
            begin = max(begin, state.done[-1][0] if state.done else 0)
            state.done.append((begin + cycles, number))
    return Ordered(state.out, state.flags, _renumbered(conflicts, place, rules, len(state.out)))


def _renumbered(
    conflicts: Sequence[Sequence[int]], place: Sequence[int], rules: TokenRules[_Step], count: int
) -> NDArray[np.int64]:
    """(count, units): the conflicts in the numbers of the new stream; what is new has none."""
    found = np.full((count, len(rules.units)), NONE, np.int64)
    assert NONE == -1, "the number of the last place"
    table = np.array(conflicts, np.int64).reshape(len(place), len(rules.units))
    found[np.array(place, np.intp)] = np.array([*place, NONE])[table]
    return found


@dataclass
class _State(Generic[_Step]):
    """What is known while the stream is walked: instructions get numbers in the order of `out`."""

    rules: TokenRules[_Step]
    out: list[_Step] = field(default_factory=list)
    flags: list[set[str]] = field(default_factory=list)  # token flags that are set
    # what is known when instruction n is complete
    after: list[tuple[int, ...]] = field(default_factory=list)
    # cycles of each unit before each instruction of `out`
    spent: list[tuple[int, ...]] = field(default_factory=list)
    # of the late queue: (when it should be done, in cycles of the popper; number)
    done: list[tuple[int, int]] = field(default_factory=list)
    # instruction of the late queue's popper -> the latest that should be done when it starts
    fresh: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = range(len(self.rules.units))
        self.knows = [[NONE for _ in units] for _ in units]
        self.depth = 0  # of no-ops that make room for no-ops
        self.clock = [0 for _ in units]  # cycles of each unit so far
        self.of_unit: list[list[int]] = [[] for _ in units]  # numbers of its instructions
        # by queue: (popper, pusher)
        self.pops: list[list[tuple[int, int]]] = [[] for _ in self.rules.queues]

    @property
    def last(self) -> list[int]:
        """The last instruction of each unit so far."""
        return [known[unit] for unit, known in enumerate(self.knows)]

    def latest_done(self) -> int:
        """The latest instruction of the late queue that should be done by now, or none."""
        late = self.rules.late
        if late is None:
            return NONE
        place = bisect_right(self.done, (self.clock[late.popper], len(self.out)))
        return self.done[place - 1][1] if place else NONE

    def is_late(self, source: int, unit: int) -> bool:
        """Whether `late` is the queue from one to the other."""
        late = self.rules.late
        return late is not None and (late.pusher, late.popper) == (source, unit)

    def tokens_for(self, unit: int, needed: list[int]) -> set[str]:
        """The pops of the next instruction of `unit`, which must not overtake `needed`."""
        rules, knows = self.rules, self.knows[unit]
        for k, popper in rules.pushed[unit]:
            needed[popper] = max(needed[popper], self.drained(k, knows[popper]))
        flags: set[str] = set()
        if all(map(le, needed, knows)):
            return flags  # so it is with most
        near = rules.near[unit]
        for far, wanted in enumerate(needed):
            if far != unit and far not in near and wanted > self.knows[unit][far]:
                through, by = self.by_way_of(far, unit, wanted)
                needed[by] = max(needed[by], through)
        for source in near:
            wanted = needed[source]
            if self.is_late(source, unit) and wanted > self.knows[unit][source]:
                wanted = max(wanted, self.latest_done())
            needed[source] = wanted
        count = -1 if rules.has_few else len(self.out)
        while count < len(self.out):  # what makes room in one queue may take it of another
            count = len(self.out)
            for source in near:
                needed[source] = self.with_room(source, unit, needed[source])
        for source in near:
            self.wait(source, unit, needed[source], flags)
        return flags

    def with_room(self, source: int, unit: int, instruction: int) -> int:
        """The instruction of `source` that gives the token, for one that may not be overtaken: of a
        queue of few tokens the first that knows of room, or one that does nothing."""
        k = self.rules.between[source, unit]
        pops, most = self.pops[k], self.rules.most[k]
        if instruction <= self.knows[unit][source] or most >= _FEW or len(pops) < most:
            return instruction
        taken, own = pops[-most][0], self.of_unit[source]
        for number in own[bisect_left(own, instruction) :]:
            if self.after[number][unit] >= taken:
                return number
        noop = self.rules.noop(source, self.out[instruction])
        if noop is None or self.depth > _DEEPEST:
            return instruction  # the proof says which queue overflows
        needed = [NONE] * len(self.rules.units)
        needed[unit] = taken
        self.depth += 1
        flags = self.tokens_for(source, needed)
        self.depth -= 1
        return self.append(noop, flags)

    def by_way_of(self, far: int, unit: int, instruction: int) -> tuple[int, int]:
        """An instruction that knows `instruction` of `far`, and its unit, a neighbour of `unit`."""
        path = self.rules.paths.get((far, unit))
        if path is None:
            names = self.rules.units
            raise LoweringError(
                f"no queue of tokens leads from {names[far]} to {names[unit]}, and what "
                f"{names[unit]} does depends on it: give the table one"
            )
        source = far
        for by in path:
            instruction = self.carrier(source, by, unit, instruction)
            source = by
        return instruction, source

    def drained(self, k: int, taken: int) -> int:
        """What the next instruction of the pusher, which knows `taken` of the popper, must wait
        for, lest it run so far ahead that their queue overflows. With `many` tokens in a queue
        their source waits: instructions already out may push as many again."""
        pops, many = self.pops[k], self.rules.most[k] // 2
        if self.rules.most[k] < _FEW or len(pops) <= many or pops[-many - 1][0] <= taken:
            return NONE
        return pops[-many // 2][0]

    def append(self, step: _Step, flags: set[str]) -> int:
        """Puts an instruction behind the others."""
        number, unit = len(self.out), self.rules.unit_of(step)
        self.out.append(step)
        self.flags.append(flags)
        self.knows[unit][unit] = number
        self.after.append(tuple(self.knows[unit]))
        self.spent.append(tuple(self.clock))
        self.of_unit[unit].append(number)
        if self.rules.late is not None and unit == self.rules.late.popper:
            self.fresh[number] = self.latest_done()
        return number

    def wait(self, source: int, unit: int, instruction: int, flags: set[str]) -> None:
        """The instruction that owns `flags`, next in `unit`, waits for `instruction` of the
        neighbour `source`."""
        if instruction <= self.knows[unit][source]:
            return
        k = self.rules.between[source, unit]
        queue = self.rules.queues[k]
        self.flags[instruction].add(queue.push)
        flags.add(queue.pop)
        self.pops[k].append((len(self.out), instruction))
        self.learn(unit, self.after[instruction])

    def learn(self, unit: int, learned: tuple[int, ...]) -> None:
        """The next instruction of a unit knows this too."""
        self.knows[unit] = list(map(max, self.knows[unit], learned))

    def carrier(self, far: int, by: int, unit: int, instruction: int) -> int:
        """An instruction of `by` that is after `instruction` of `far`, for `unit` to wait for;
        inserted when there is none.

        The earliest that already knows; else one that can be made to wait without stalling: one at
        whose start a late enough instruction of `far` should be done, or, where that is not
        reckoned, one that comes as many cycles of `by` later as the instruction takes.
        """
        late = self.is_late(far, by)
        delay = 0 if late else self.rules.cycles_of(self.out[instruction])
        own = self.of_unit[by]
        first = bisect_right(own, max(instruction, self.knows[unit][by]))
        since = self.spent[instruction][by]
        for number in own[first:]:
            if self.after[number][far] >= instruction:
                return number
            source = self.fresh[number] if late else instruction
            if (
                source >= instruction
                and self.spent[number][by] - since >= delay
                and self.fits(far, by, source, number)
            ):
                return self.make_wait(far, by, source, number)
        noop = self.rules.noop(by, self.out[instruction])
        if noop is None:
            names = self.rules.units
            raise LoweringError(
                f"{names[unit]} must wait for {names[far]} by way of {names[by]}, and {names[by]} "
                "has no instruction that does nothing: name one, or a queue between the two"
            )
        flags: set[str] = set()
        self.wait(far, by, self.with_room(far, by, instruction), flags)
        return self.append(noop, flags)

    def fits(self, far: int, by: int, instruction: int, number: int) -> bool:
        """Whether instruction `number` of `by` can still pop a token of `instruction`: queues are
        first in, first out."""
        k = self.rules.between[far, by]
        queue, pops = self.rules.queues[k], self.pops[k]
        if self.rules.most[k] < _FEW:
            return False  # the tokens behind it would move up
        if queue.pop in self.flags[number] or queue.push in self.flags[instruction]:
            return False
        place = bisect_right(pops, (number, 0))
        return (place == 0 or pops[place - 1][1] < instruction) and (
            place == len(pops) or instruction < pops[place][1]
        )

    def make_wait(self, far: int, by: int, instruction: int, number: int) -> int:
        """Instruction `number` of `by`, already in the stream, waits for `instruction` of
        `far`."""
        k = self.rules.between[far, by]
        queue, own = self.rules.queues[k], self.of_unit[by]
        self.flags[instruction].add(queue.push)
        self.flags[number].add(queue.pop)
        insort(self.pops[k], (number, instruction))
        learned = self.after[instruction]
        for later in own[bisect_left(own, number) :]:
            self.after[later] = tuple(map(max, self.after[later], learned))
        self.learn(by, learned)
        return number
