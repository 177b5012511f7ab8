# SPDX-License-Identifier: Apache-2.0
"""The proof that a stream's tokens order its instructions.

In:   the token flags of instructions in program order; what each must not overtake.
Out:  the most tokens that each queue can hold; LoweringError naming two instructions that no token
      orders, a token that nobody gives or takes, a queue that overflows.
Next: vta/synchronize.py and program_tokens.py ask it of what tokens.py has made.

It looks at the flags alone. Program order itself is one schedule that satisfies every token (each
push stands before its pop), so nothing can deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.hazards import NONE

__all__ = ["QueueEnds", "TokenStream", "prove_order"]


class QueueEnds(Protocol):
    """Tokens from one unit to another: numbers of both, and the flags that give and take one."""

    @property
    def pusher(self) -> int:
        """Who gives."""
        ...

    @property
    def popper(self) -> int:
        """Who takes."""
        ...

    @property
    def push(self) -> str:
        """The flag of the one who gives."""
        ...

    @property
    def pop(self) -> str:
        """The flag of the one who takes."""
        ...


@dataclass(frozen=True)
class TokenStream:
    """By instruction: its unit, its name for messages, the token flags that are set. who: begins
    messages; units: their names."""

    who: str
    units: Sequence[str]
    unit: Sequence[int]
    name: Callable[[int], str]
    flags: Sequence[Collection[str]]


@dataclass(frozen=True)
class _Clocks:
    """before[n, g]: the last instruction of unit g that is complete when n begins. pushes, pops:
    numbers, per queue."""

    before: NDArray[np.int64]
    pushes: list[list[int]]
    pops: list[list[int]]


def prove_order(
    stream: TokenStream,
    conflicts: NDArray[np.int32],
    queues: Sequence[QueueEnds],
    most: Sequence[int],
) -> Mapping[int, int]:
    """Checks that every hazard is ordered, nothing deadlocks, and no queue k passes most[k]
    tokens.

    conflicts: (instructions, units), as of hazards.conflicts_of. Returns, by number of the queue,
    the most tokens that it can hold in any execution. Raises LoweringError naming two instructions.
    """
    clock = _vector_clocks(stream, queues)
    for k, queue in enumerate(queues):
        left = len(clock.pushes[k]) - len(clock.pops[k])
        if left:
            raise LoweringError(
                f"{stream.who}: {left} tokens from {stream.units[queue.pusher]} to "
                f"{stream.units[queue.popper]} are never taken"
            )
    wrong = np.argwhere(conflicts.reshape(clock.before.shape) > clock.before)
    if len(wrong):
        number, unit = wrong[0].tolist()
        last = int(conflicts[number, unit])
        raise LoweringError(
            f"{stream.who}: instruction {number} ({stream.name(number)}) is not ordered "
            f"after {last} ({stream.name(last)}), which touches the same tiles"
        )
    return {k: _most_tokens(clock, stream, k, queues[k], most[k]) for k in range(len(queues))}


def _vector_clocks(stream: TokenStream, queues: Sequence[QueueEnds]) -> _Clocks:
    """A unit learns by its pops alone, and of itself: only instructions with flags are walked."""
    units = range(len(stream.units))
    popped = _by_unit([(queue.popper, queue.pop) for queue in queues], len(units))
    pushed = _by_unit([(queue.pusher, queue.push) for queue in queues], len(units))
    # by unit: the instructions with which it learned something, and all it knew of others since
    learned = [[NONE] for _ in units]
    knows = [[[NONE] * len(units)] for _ in units]
    pushes: list[list[int]] = [[] for _ in queues]
    pops: list[list[int]] = [[] for _ in queues]
    given: dict[int, list[int]] = {}  # what a token of this instruction says
    for number, (unit, flags) in enumerate(zip(stream.unit, stream.flags, strict=True)):
        if not flags:
            continue
        known = knows[unit][-1]
        for k, flag in popped[unit]:
            if flag in flags:
                turn = len(pops[k])
                if turn >= len(pushes[k]):
                    raise LoweringError(
                        f"{stream.who}: instruction {number} waits for token {turn} of "
                        f"{stream.units[queues[k].pusher]}, which nothing before it pushes"
                    )
                pops[k].append(number)
                known = list(map(max, known, given[pushes[k][turn]]))
        if known is not knows[unit][-1]:
            learned[unit].append(number)
            knows[unit].append(known)
        for k, flag in pushed[unit]:
            if flag in flags:
                pushes[k].append(number)
                given[number] = [*known[:unit], number, *known[unit + 1 :]]
    return _Clocks(_before(stream.unit, learned, knows), pushes, pops)


def _before(
    unit_of: Sequence[int], learned: Sequence[Sequence[int]], knows: Sequence[Sequence[list[int]]]
) -> NDArray[np.int64]:
    """(instructions, units): what each knows when it begins, from what units know since some of
    theirs, and the instruction in front of it in its own unit."""
    units = np.fromiter(unit_of, np.int64, len(unit_of))
    before = np.full((len(units), len(knows)), NONE, np.int64)
    for unit, since in enumerate(learned):
        own = np.flatnonzero(units == unit)
        before[own] = np.array(knows[unit])[np.searchsorted(since, own, side="right") - 1]
        before[own, unit] = NONE
        before[own[1:], unit] = own[:-1]
    return before


def _by_unit(ends: Sequence[tuple[int, str]], units: int) -> list[list[tuple[int, str]]]:
    """By unit, the queues whose end it is, and its flag."""
    return [
        [(k, flag) for k, (end, flag) in enumerate(ends) if end == unit] for unit in range(units)
    ]


def _most_tokens(clock: _Clocks, stream: TokenStream, k: int, queue: QueueEnds, limit: int) -> int:
    """When the n-th push happens, the pops known to be complete have emptied the queue by at least
    their number."""
    given = np.array(clock.pushes[k], np.int64)
    done = np.searchsorted(clock.pops[k], clock.before[given, queue.popper], side="right")
    most = int((np.arange(1, len(given) + 1) - done).max(initial=0))
    if most > limit:
        raise LoweringError(
            f"{stream.who}: the queue {stream.units[queue.pusher]} -> "
            f"{stream.units[queue.popper]} may hold {most} tokens; the limit is {limit}"
        )
    return most
