# SPDX-License-Identifier: Apache-2.0
"""The proof that a stream's tokens order its instructions.

In:   the token flags of instructions in program order; what each must not overtake.
Out:  the most tokens that each queue can hold; LoweringError naming two instructions that no token
      orders, a token that nobody gives or takes, a queue that overflows.
Next: vta/passes/synchronize/synchronize.py and program_tokens.py ask it of what tokens.py has made.

It looks at the flags alone. Program order itself is one schedule that satisfies every token (each
push stands before its pop), so nothing can deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
    """By instruction: unit (n,), its name for messages, and pops and pushes (n, queues): whether it
    takes a token of a queue, and whether it gives one. who: begins messages; units: their names."""

    who: str
    units: Sequence[str]
    unit: NDArray[np.int32]
    name: Callable[[int], str]
    pops: NDArray[np.bool_]
    pushes: NDArray[np.bool_]


@dataclass(frozen=True)
class _Clocks:
    """before[n, g]: the last instruction of unit g that is complete when n begins. pushes, pops:
    numbers, per queue."""

    before: NDArray[np.int64]
    pushes: list[NDArray[np.int64]]
    pops: list[NDArray[np.int64]]


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
            f"after {last} ({stream.name(last)}), which it must wait for"
        )
    return {k: _most_tokens(clock, stream, k, queues[k], most[k]) for k in range(len(queues))}


def _vector_clocks(stream: TokenStream, queues: Sequence[QueueEnds]) -> _Clocks:
    """A unit learns by its pops alone, and of itself: only instructions with tokens are walked."""
    units = range(len(stream.units))
    # by unit: the instructions with which it learned something, and all it knew of others since
    learned = [[NONE] for _ in units]
    knows = [[[NONE] * len(units)] for _ in units]
    given: list[deque[list[int]]] = [deque() for _ in queues]  # what tokens say that nobody took
    who, what = np.nonzero(np.concatenate([stream.pops, stream.pushes], axis=1))  # pops first
    events = zip(who.tolist(), stream.unit[who].tolist(), what.tolist(), strict=True)
    for number, unit, event in events:
        known = knows[unit][-1]
        if event >= len(queues):
            given[event - len(queues)].append([*known[:unit], number, *known[unit + 1 :]])
            continue
        if not given[event]:
            raise LoweringError(
                f"{stream.who}: instruction {number} waits for token "
                f"{np.count_nonzero(stream.pops[:number, event])} of "
                f"{stream.units[queues[event].pusher]}, which nothing before it pushes"
            )
        learned[unit].append(number)
        knows[unit].append(list(map(max, known, given[event].popleft())))
    pushes, pops = (
        [np.flatnonzero(of_queue) for of_queue in ends.T] for ends in (stream.pushes, stream.pops)
    )
    return _Clocks(_before(stream.unit, learned, knows), pushes, pops)


def _before(
    unit_of: NDArray[np.int32],
    learned: Sequence[Sequence[int]],
    knows: Sequence[Sequence[list[int]]],
) -> NDArray[np.int64]:
    """(instructions, units): what each knows when it begins, from what units know since some of
    theirs, and the instruction in front of it in its own unit."""
    before = np.full((len(unit_of), len(knows)), NONE, np.int64)
    for unit, since in enumerate(learned):
        own = np.flatnonzero(unit_of == unit)
        before[own] = np.array(knows[unit])[np.searchsorted(since, own, side="right") - 1]
        before[own, unit] = NONE
        before[own[1:], unit] = own[:-1]
    return before


def _most_tokens(clock: _Clocks, stream: TokenStream, k: int, queue: QueueEnds, limit: int) -> int:
    """When the n-th push happens, the pops known to be complete have emptied the queue by at least
    their number."""
    given = clock.pushes[k]
    done = np.searchsorted(clock.pops[k], clock.before[given, queue.popper], side="right")
    most = int((np.arange(1, len(given) + 1) - done).max(initial=0))
    if most > limit:
        raise LoweringError(
            f"{stream.who}: the queue {stream.units[queue.pusher]} -> "
            f"{stream.units[queue.popper]} may hold {most} tokens; the limit is {limit}"
        )
    return most
