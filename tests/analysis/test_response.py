# SPDX-License-Identifier: Apache-2.0
"""response.py: bounds of published examples and by hand, and beside a search for the worst case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from loadstone.analysis import response
from loadstone.analysis.response import (
    BlockTimes,
    longest_allowed_block,
    longest_responses,
    utilization,
)
from tests.repeat import times


def test_the_counterexample_to_the_first_analysis_of_can() -> None:
    """Davis, Burns, Bril and Lukkien: three messages of 1 ms, with periods of 2.5, 3.5 and 3.5 ms.
    Of the third one the second run responds last, after 3.5 ms, which the first analysis missed."""
    unit = 1000
    networks = [
        BlockTimes((unit,), 5 * unit // 2),
        BlockTimes((unit,), 7 * unit // 2),
        BlockTimes((unit,), 7 * unit // 2),
    ]
    found = longest_responses(networks)
    # time is discrete here: a block that began one unit before, not just before
    assert found == [2 * unit - 1, 3 * unit - 1, 7 * unit // 2]


def test_one_alone_takes_its_time() -> None:
    assert longest_responses([BlockTimes((3, 4), 7)]) == [7]
    assert longest_responses([BlockTimes((3, 5), 7)]) == [None]


def test_only_the_longest_block_of_lower_priority_is_waited_for() -> None:
    networks = [BlockTimes((10,), 1000), BlockTimes((7, 30, 2), 1000), BlockTimes((90, 1), 1000)]
    assert longest_responses(networks)[0] == 89 + 10
    assert longest_responses(networks[:2])[0] == 29 + 10
    assert longest_responses(networks[:1])[0] == 10


def test_the_last_block_is_not_interrupted() -> None:
    """Of the same length in two blocks, the one with the longer last block responds earlier."""
    higher = BlockTimes((5,), 20)
    long_last, long_first = BlockTimes((2, 16), 100), BlockTimes((16, 2), 100)
    assert longest_responses([higher, long_last])[1] == 5 + 18
    assert longest_responses([higher, long_first])[1] == 5 + 16 + 5 + 2


def test_who_comes_as_a_block_ends_goes_first() -> None:
    assert longest_responses([BlockTimes((5,), 10), BlockTimes((5, 5), 40)])[1] == 20
    assert longest_responses([BlockTimes((5,), 11), BlockTimes((5, 5), 40)])[1] == 15


@pytest.mark.parametrize("seed", range(10))
def test_the_longest_block_that_is_allowed_is_that_of_a_search(seed: int) -> None:
    drawn = random.Random(seed)
    higher = [BlockTimes((drawn.randint(1, 4),), drawn.randint(9, 20)) for _ in range(seed % 3)]
    own = BlockTimes((drawn.randint(0, 5), drawn.randint(0, 5)), 30)
    for deadline in range(1, 31):
        allowed = [
            block
            for block in range(40)
            if (said := longest_responses([*higher, own, BlockTimes((block,), 1000)])[-2])
            is not None
            and said <= deadline
        ]
        assert longest_allowed_block(higher, own, deadline) == max(allowed, default=None)


def test_no_block_is_allowed_to_who_is_late_alone_or_has_no_time() -> None:
    assert longest_allowed_block([], BlockTimes((4,), 20), 4) == 1
    assert longest_allowed_block([], BlockTimes((4,), 20), 3) is None
    assert longest_allowed_block([BlockTimes((9,), 9)], BlockTimes((4,), 20), 20) is None
    assert longest_allowed_block([], BlockTimes((0,), 20), 5) == 6


def test_who_takes_no_time_waits_for_those_of_higher_priority() -> None:
    """A network whose steps the host takes no time for, or one without steps."""
    for none in (BlockTimes((0,), 100), BlockTimes((), 100)):
        assert none.longest == none.cycles == 0
        assert longest_responses([none]) == [0]
        assert longest_responses([BlockTimes((3,), 4), none])[1] == 3
        # what comes in cycle 4, as the first two end, goes first as well
        assert longest_responses([BlockTimes((2,), 4), BlockTimes((2,), 100), none])[2] == 6


@pytest.mark.parametrize("blocks", [(0,), (), (1,)])
def test_who_gets_no_time_has_no_bound(blocks: tuple[int, ...]) -> None:
    full, half = BlockTimes((3,), 3), BlockTimes((2, 2), 8)
    own = BlockTimes(blocks, 100)
    assert longest_responses([full, own]) == [3, None]
    assert longest_responses([half, half, own]) == [5, 8, None]


def test_who_needs_no_time_has_a_bound_beside_a_device_that_is_not_full() -> None:
    """Also one that needs none, such as a network without steps, beside a full device."""
    assert longest_responses([BlockTimes((5,), 5), BlockTimes((0,), 10)]) == [5, None]
    assert longest_responses([BlockTimes((5,), 6), BlockTimes((0,), 10)]) == [5, 5]
    assert longest_responses([BlockTimes((), 6), BlockTimes((2,), 2)]) == [1, 2]


def test_a_busy_period_of_more_runs_than_are_looked_at_has_a_bound() -> None:
    """Half of the time is left: two million runs of the last one wait for a block of the first."""
    long, short = BlockTimes((10**9,), 4 * 10**9), BlockTimes((125,), 500)
    assert longest_responses([long, short]) == [10**9 + 124, 10**9 + 125]
    nearly = [BlockTimes((10**7 - 1,), 10**7), BlockTimes((1,), 10**8), BlockTimes((9,), 10**12)]
    found = longest_responses(nearly)
    assert found[0] == 10**7 + 7
    assert found[1] is not None


def _some(rng: random.Random) -> list[BlockTimes]:
    networks = []
    for _ in range(rng.randint(1, 4)):
        blocks = tuple(rng.randint(0, 6) for _ in range(rng.randint(1, 4)))
        networks.append(BlockTimes(blocks, rng.randint(max(sum(blocks), 1), 40)))
    return networks


def test_the_larger_bound_is_never_below_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor above what the formula gives for the first run."""
    rng = random.Random(7)
    above = dict.fromkeys((0, 1, 2, 5, 20), 0)
    for _ in range(times(60, 2000)):
        networks = _some(rng)
        exact = longest_responses(networks)
        for sums in above:
            with monkeypatch.context() as patched:
                patched.setattr(response, "_MOST_SUMS", sums)
                larger = longest_responses(networks)
            for place, (most, longest) in enumerate(zip(larger, exact, strict=True)):
                assert (most is None) == (longest is None)
                if most is not None and longest is not None:
                    assert longest <= most <= _of_the_formula(networks, place), (networks, sums)
                    above[sums] += most > longest
    assert above[0] > above[2] > above[5] > above[20]


def _of_the_formula(networks: Sequence[BlockTimes], place: int) -> Fraction:
    higher, own = networks[:place], networks[place]
    last = own.blocks[-1]
    waits = max([1, *(max(one.blocks) for one in networks[place + 1 :])]) - 1
    free = 1 - sum(Fraction(one.cycles, one.period) for one in higher)
    return (waits + own.cycles - last + sum(one.cycles for one in higher)) / free + last


def test_runs_that_are_left_out_respond_no_later() -> None:
    """One run after the other, until the busy period ends; short runs of which many come before
    those of higher priority come again, behind a long block."""
    rng = random.Random(11)
    runs = 0
    for _ in range(times(300, 20_000)):
        higher = [BlockTimes((rng.randint(0, 9),), rng.randint(12, 60)) for _ in range(2)]
        own = BlockTimes((rng.randint(0, 1), rng.randint(0, 2)), rng.randint(1, 9))
        long = BlockTimes((rng.randint(1, 90),), 1 << 40)
        expected, looked_at = _one_after_the_other(higher, own, long.longest - 1)
        assert longest_responses([*higher, own, long])[2] == expected, (higher, own, long)
        runs = max(runs, looked_at)
    assert runs > 100


def _one_after_the_other(
    higher: Sequence[BlockTimes], own: BlockTimes, blocked: int
) -> tuple[int | None, int]:
    """The longest response, and the runs of the busy period."""
    free = 1 - sum(Fraction(one.cycles, one.period) for one in higher)
    if free <= 0 or Fraction(own.cycles, own.period) > free:
        return None, 0
    longest, run, now, end = 0, 0, 0, 1
    while True:
        before = blocked + (run + 1) * own.cycles - own.blocks[-1]
        while before + sum((now // one.period + 1) * one.cycles for one in higher) > now:
            now += 1
        longest = max(longest, now + own.blocks[-1] - run * own.period)
        run += 1
        end = 1
        while (
            blocked + run * own.cycles + sum(-(-end // h.period) * h.cycles for h in higher) > end
        ):
            end += 1
        # a device that is full may have no last run
        if end <= run * own.period or run > 1000:
            return longest, run


def test_utilization_is_the_share_of_time() -> None:
    assert utilization([BlockTimes((3, 2), 10), BlockTimes((1,), 4)]) == pytest.approx(0.75)


# --- beside a search ------------------------------------------------------------------------------
def _seen(networks: Sequence[BlockTimes], offsets: Sequence[int], horizon: int) -> list[int]:
    """The longest response of each in a run with these first releases, as runtime/schedule.c."""
    after, now = list(offsets), 0
    waiting: list[list[int]] = [[] for _ in networks]
    done, worst = [0] * len(networks), [0] * len(networks)
    while now < horizon:
        for place, one in enumerate(networks):
            while after[place] <= now:
                waiting[place].append(after[place])
                after[place] += one.period
        chosen = next((place for place, queue in enumerate(waiting) if queue), None)
        if chosen is None:
            now = min(after)
            continue
        now += networks[chosen].blocks[done[chosen]]
        done[chosen] = (done[chosen] + 1) % len(networks[chosen].blocks)
        if done[chosen] == 0:
            worst[chosen] = max(worst[chosen], now - waiting[chosen].pop(0))
    return worst


def test_no_response_is_longer_and_nearly_all_bounds_are_reached() -> None:
    rng = random.Random(1)
    reached = total = 0
    for _ in range(times(60, 2000)):
        networks = []
        for _ in range(rng.randint(1, 4)):
            blocks = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
            networks.append(BlockTimes(blocks, rng.randint(sum(blocks), 60)))
        if utilization(networks) > 1:
            continue
        bounds, worst = longest_responses(networks), [0] * len(networks)
        for turn in range(40):
            offsets = [rng.randint(0, 60) for _ in networks]
            if turn % 3 == 0:
                offsets = [1] * len(networks)
                offsets[rng.randrange(len(networks))] = 0
            worst = list(map(max, worst, _seen(networks, offsets, 2000)))
        for found, most in zip(worst, bounds, strict=True):
            assert most is not None
            assert found <= most, networks
            assert most <= 1.3 * found, networks
            reached += found == most
            total += 1
    assert reached > 0.95 * total
