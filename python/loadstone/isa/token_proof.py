# SPDX-License-Identifier: Apache-2.0
"""The proof that a stream's tokens order its instructions.

In:   instructions in program order, the token flags of each, hazards.
Out:  the most tokens that each queue can hold; LoweringError naming two instructions that no token
      orders, a token that nobody gives or takes, a queue that overflows.
Next: vta/synchronize.py and program_tokens.py ask it of what tokens.py has made.

It looks at the flags alone. Program order itself is one schedule that satisfies every token (each
push stands before its pop), so nothing can deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from loadstone.errors import LoweringError
from loadstone.isa.hazards import NONE, Conflicts

__all__ = ["QueueEnds", "TokenStream", "prove_order"]

_Step = TypeVar("_Step")


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
    """before[n][g]: the last instruction of unit g that is complete when n begins. pushes, pops:
    numbers, per queue."""

    before: list[list[int]]
    pushes: list[list[int]]
    pops: list[list[int]]


def prove_order(
    steps: Sequence[_Step],
    stream: TokenStream,
    hazards: Conflicts[_Step],
    queues: Sequence[QueueEnds],
    most: Sequence[int],
) -> Mapping[int, int]:
    """Checks that every hazard is ordered, nothing deadlocks, and no queue k passes most[k]
    tokens.

    Returns, by number of the queue, the most tokens that it can hold in any execution. Raises
    LoweringError naming two instructions.
    """
    clock = _vector_clocks(stream, queues)
    for k, queue in enumerate(queues):
        left = len(clock.pushes[k]) - len(clock.pops[k])
        if left:
            raise LoweringError(
                f"{stream.who}: {left} tokens from {stream.units[queue.pusher]} to "
                f"{stream.units[queue.popper]} are never taken"
            )
    for number, step in enumerate(steps):
        for unit, last in enumerate(hazards.conflicts(step)):
            if last > clock.before[number][unit]:
                raise LoweringError(
                    f"{stream.who}: instruction {number} ({stream.name(number)}) is not ordered "
                    f"after {last} ({stream.name(last)}), which touches the same tiles"
                )
        hazards.record(step, number)
    return {k: _most_tokens(clock, stream, k, queues[k], most[k]) for k in range(len(queues))}


def _vector_clocks(stream: TokenStream, queues: Sequence[QueueEnds]) -> _Clocks:
    units = range(len(stream.units))
    popped = _by_unit([queue.popper for queue in queues], len(units))
    pushed = _by_unit([queue.pusher for queue in queues], len(units))
    knows = [[NONE] * len(units) for _ in units]
    after: list[list[int]] = []
    before: list[list[int]] = []
    pushes: list[list[int]] = [[] for _ in queues]
    pops: list[list[int]] = [[] for _ in queues]
    for number, (unit, flags) in enumerate(zip(stream.unit, stream.flags, strict=True)):
        known = knows[unit]
        for k in popped[unit]:
            if queues[k].pop in flags:
                turn = len(pops[k])
                if turn >= len(pushes[k]):
                    raise LoweringError(
                        f"{stream.who}: instruction {number} waits for token {turn} of "
                        f"{stream.units[queues[k].pusher]}, which nothing before it pushes"
                    )
                pops[k].append(number)
                known = list(map(max, known, after[pushes[k][turn]]))
        before.append(known)
        known = list(known)
        known[unit] = number
        knows[unit] = known
        after.append(known)
        for k in pushed[unit]:
            if queues[k].push in flags:
                pushes[k].append(number)
    return _Clocks(before, pushes, pops)


def _by_unit(ends: Sequence[int], units: int) -> list[list[int]]:
    """By unit, the queues whose end it is."""
    return [[k for k, end in enumerate(ends) if end == unit] for unit in range(units)]


def _most_tokens(clock: _Clocks, stream: TokenStream, k: int, queue: QueueEnds, limit: int) -> int:
    """When the n-th push happens, the pops known to be complete have emptied the queue by at least
    their number."""
    most = 0
    taken = np.array(clock.pops[k])
    for turn, number in enumerate(clock.pushes[k]):
        done = int(np.searchsorted(taken, clock.before[number][queue.popper], side="right"))
        most = max(most, turn + 1 - done)
    if most > limit:
        raise LoweringError(
            f"{stream.who}: the queue {stream.units[queue.pusher]} -> "
            f"{stream.units[queue.popper]} may hold {most} tokens; the limit is {limit}"
        )
    return most
