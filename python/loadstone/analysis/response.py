# SPDX-License-Identifier: Apache-2.0
"""How long a response can take at most, of several networks that share a device by priorities.

In:   for each network the lengths of its blocks, and how often it can be released.
Out:  the longest time from a release to the end of its run, or that there is none.
Next: commands/bound.py prints it; tests/analysis/test_response.py tries it against runs.

Inside a block (a program, or a step of the host) nobody interrupts: this is fixed-priority
scheduling with deferred preemption, whose special case of one block is that of messages on a CAN
bus. The analysis is that of

    R. I. Davis, A. Burns, R. J. Bril, J. J. Lukkien: Controller Area Network (CAN) schedulability
    analysis: Refuted, revisited and revised. Real-Time Systems 35 (2007), 239-272.
    R. J. Bril, J. J. Lukkien, W. F. J. Verhaegh: Worst-case response time analysis of real-time
    tasks under fixed-priority scheduling with deferred preemption. Real-Time Systems 42 (2009), 63.

Time is discrete (cycles), so that suprema are maxima. All of higher priority, and the task itself,
are released together, right after the longest block B of lower priority began; every further
release comes as early as it can. Of the task's runs in this busy period, the k-th (from 0) begins
its last block q at the first w with

    w = B + (k + 1) C - q + sum over higher priorities j of (floor(w / T_j) + 1) C_j

(who is released in cycle w itself goes first), and has answered w + q - k T after its release. The
longest of these is the bound; one run alone is not enough, because the last block of one delays
others, which then delay the next one.

Where the device is nearly full, such a w may be found after so many steps that nobody waits for it.
Since floor(w / T_j) + 1 <= w / T_j + 1, with U the share of those of higher priority,

    w <= (B + (k + 1) C - q + sum C_j) / (1 - U)

and by this larger bound no later run responds later, because C <= (1 - U) T.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["BlockTimes", "longest_allowed_block", "longest_responses", "utilization"]

#: Sums that are computed for one network, in less than a second, before the larger bound is taken.
_MOST_SUMS = 300_000


@dataclass(frozen=True)
class BlockTimes:
    """A network: the cycles of its blocks, in order; the least time between two releases."""

    blocks: tuple[int, ...]
    period: int

    @property
    def cycles(self) -> int:
        """Of a run alone."""
        return sum(self.blocks)

    @property
    def longest(self) -> int:
        """Its longest block."""
        return max(self.blocks, default=0)


def utilization(networks: Sequence[BlockTimes]) -> float:
    """The share of the time in which something runs."""
    return sum(one.cycles / one.period for one in networks)


def longest_responses(networks: Sequence[BlockTimes]) -> list[int | None]:
    """In cycles, of networks by descending priority; None where a response has no bound, because
    those of higher priority and the network itself leave no time.

    >>> longest_responses([BlockTimes((3,), 10), BlockTimes((4, 4), 20)])
    [6, 11]
    >>> longest_responses([BlockTimes((3,), 4), BlockTimes((2,), 7)])
    [4, None]
    """
    return [
        _longest(networks[:place], one, networks[place + 1 :]) for place, one in enumerate(networks)
    ]


def longest_allowed_block(
    higher: Sequence[BlockTimes], own: BlockTimes, deadline: int
) -> int | None:
    """The longest block of lower priority with which a network responds within its deadline; None:
    it responds later without any.

    >>> longest_allowed_block([BlockTimes((3,), 10)], BlockTimes((4, 4), 20), 15)
    3
    >>> longest_allowed_block([BlockTimes((3,), 10)], BlockTimes((4, 4), 20), 10)
    """

    def is_late(block: int) -> bool:
        response = _longest(higher, own, [BlockTimes((block,), own.period)])
        return response is None or response > deadline

    # who waits for the rest of a longer one is late, even without any cycles
    in_time = bisect_left(range(deadline + 2), True, key=is_late)
    return in_time - 1 if in_time else None


def _longest(
    higher: Sequence[BlockTimes], own: BlockTimes, lower: Sequence[BlockTimes]
) -> int | None:
    # the block that has begun one cycle before the release
    blocked = max(max((one.longest for one in lower), default=0) - 1, 0)
    taken = sum((Fraction(one.cycles, one.period) for one in higher), Fraction(0))
    # where higher priorities take all of the time, a run without cycles never begins, either
    if taken >= 1 or taken + Fraction(own.cycles, own.period) > 1:
        return None
    last = own.blocks[-1] if own.blocks else 0
    longest, run, start, busy = 0, 0, 0, 1
    sums = _Sums(higher, _MOST_SUMS)
    while True:
        before = blocked + (run + 1) * own.cycles - last
        begun = sums.settled(max(start, before), before, at_once=True)
        if begun is None:
            most = int((before + sum(one.cycles for one in higher)) / (1 - taken))
            return max(longest, most + last - run * own.period)
        start = begun
        longest = max(longest, start + last - run * own.period)
        # the busy period ends where this run ends with nothing released and not served
        after = blocked + (run + 1) * own.cycles
        ended = sums.settled(max(busy, after), after, at_once=False)
        if ended is not None and ended <= (run + 1) * own.period:
            return longest
        busy = ended or busy
        # runs that begin before somebody of higher priority comes again respond earlier and earlier
        if not higher or own.cycles == 0:
            return longest
        again = min((start // one.period + 1) * one.period for one in higher)
        run += max((again - start - 1) // own.cycles, 1)


class _Sums:
    """What those of higher priority need. left: sums that may still be computed."""

    def __init__(self, higher: Sequence[BlockTimes], left: int) -> None:
        self._higher = [(one.cycles, one.period) for one in higher]
        self._left = left

    def settled(self, begin: int, own: int, *, at_once: bool) -> int | None:
        """The first w, from `begin` on, with w = own + what came before w; at_once: what comes in w
        too. None: no sum is left."""
        w = begin
        while self._left > 0:
            self._left -= 1
            if at_once:
                needed = own + sum((w // period + 1) * cycles for cycles, period in self._higher)
            else:
                needed = own + sum(-(-w // period) * cycles for cycles, period in self._higher)
            if needed <= w:
                return w
            w = needed
        return None
