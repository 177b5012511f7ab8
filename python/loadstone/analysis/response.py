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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["BlockTimes", "longest_responses", "utilization"]

#: Runs in a busy period that are looked at: of more than that, nobody promises anything.
_MOST_RUNS = 100_000


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


def _longest(
    higher: Sequence[BlockTimes], own: BlockTimes, lower: Sequence[BlockTimes]
) -> int | None:
    # the block that has begun one cycle before the release
    blocked = max(max((one.longest for one in lower), default=0) - 1, 0)
    busy = sum(Fraction(one.cycles, one.period) for one in higher)
    # where higher priorities take all of the time, a run without cycles never begins, either
    if busy >= 1 or busy + Fraction(own.cycles, own.period) > 1:
        return None
    last = own.blocks[-1] if own.blocks else 0
    longest, run, start = 0, 0, 0
    while True:
        before = blocked + (run + 1) * own.cycles - last
        start = _first(max(start, before), before, higher)
        longest = max(longest, start + last - run * own.period)
        run += 1
        # the busy period ends where this run ends with nothing released and not served
        if _busy(blocked + run * own.cycles, higher) <= run * own.period:
            return longest
        if run == _MOST_RUNS:
            return None


def _first(begin: int, own: int, higher: Sequence[BlockTimes]) -> int:
    """The first w with w = own + what those of higher priority need that came until then."""
    w = begin
    while True:
        needed = own + sum((w // one.period + 1) * one.cycles for one in higher)
        if needed <= w:
            return w
        w = needed


def _busy(own: int, higher: Sequence[BlockTimes]) -> int:
    """When all is done that was released before that."""
    w = max(own, 1)
    while True:
        needed = own + sum(-(-w // one.period) * one.cycles for one in higher)
        if needed <= w:
            return w
        w = needed
