# SPDX-License-Identifier: Apache-2.0
"""isa/hazards.py: against sets of places."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.isa.hazards import (
    NONE,
    Touch,
    TouchColumns,
    TouchStep,
    conflicts_between,
    conflicts_of,
)
from tests.little_memory import little_memory


def places(touch: Touch) -> set[int]:
    starts = [range(0, count * stride, stride) for count, stride in touch.loops]
    return {
        touch.first + sum(turn) + k
        for turn in itertools.product(*starts)
        for k in range(touch.extent)
    }


def test_conflicts_are_those_of_sets() -> None:
    rng = np.random.default_rng(1)

    def touch(grain: int) -> Touch:
        loops = tuple(
            (int(rng.integers(2, 4)), grain * int(rng.integers(1, 6)))
            for _ in range(int(rng.integers(3)))
        )
        first, extent = grain * int(rng.integers(40)), grain * int(rng.integers(1, 4))
        space = ("pad", ("dram", 1))[int(rng.integers(2))]
        return Touch(space, first, loops, extent, bool(rng.integers(2)))

    for grain in (1, 4):
        steps = [
            TouchStep(
                int(rng.integers(3)), "", tuple(touch(grain) for _ in range(int(rng.integers(4))))
            )
            for _ in range(120)
        ]
        found = conflicts_of(steps, 3).tolist()
        for number, step in enumerate(steps):
            want = [NONE] * 3
            for before, other in enumerate(steps[:number]):
                meets = any(
                    a.space == b.space and (a.writes or b.writes) and places(a) & places(b)
                    for a in step.touches
                    for b in other.touches
                )
                if meets and other.unit != step.unit:
                    want[other.unit] = before
            assert found[number] == want


def test_columns_that_cannot_be_are_refused() -> None:
    """They would reach beyond the tables."""
    unit, one = np.zeros(2, np.int32), (0, 0, 1, 0, 4, 1)
    for field, value in ((0, 2), (0, -1), (1, -1), (3, -1), (4, -4), (5, 2), (5, -1)):
        rows = np.array([[*one[:field], value, *one[field + 1 :]]])
        with pytest.raises(AssertionError):
            conflicts_between(TouchColumns(unit, rows, np.array([[1, 4]])), 2)
    rows = np.array([one])
    for loop in ((0, 4), (2, -4), (1 << 62, 4)):
        with pytest.raises(AssertionError):
            conflicts_between(TouchColumns(unit, rows, np.array([loop])), 2)
    backwards = np.array([(1, *one[1:]), one])
    with pytest.raises(AssertionError):
        conflicts_between(TouchColumns(unit, backwards, np.array([[1, 4]] * 2)), 2)
    with pytest.raises(AssertionError):
        conflicts_between(TouchColumns(unit + 2, rows, np.array([[1, 4]])), 2)
    assert (
        conflicts_between(TouchColumns(unit, rows, np.array([[1, 4]])), 2).tolist()
        == [[NONE] * 2] * 2
    )


def test_every_memory_has_its_own_touches() -> None:
    """More memories than instructions."""
    touches = tuple(Touch(name, 0, (), 1, True) for name in "abcde")
    steps = [TouchStep(0, "", touches), TouchStep(1, "", touches[3:4]), TouchStep(0, "")]
    assert conflicts_of(steps, 2).tolist() == [[NONE, NONE], [0, NONE], [NONE, NONE]]
    assert conflicts_of([TouchStep(0, "")] * 2, 2).tolist() == [[NONE, NONE]] * 2


def test_a_step_that_says_no_time_takes_a_cycle() -> None:
    assert TouchStep(0, "").cycles == 1


def test_more_memories_than_memory_is_said() -> None:
    rows = np.array([(0, 1 << 28, 1, 0, 4, 0)])
    columns = TouchColumns(np.zeros(1, np.int32), rows, np.zeros((0, 2), np.int64))
    with little_memory(), pytest.raises(MemoryError, match="conflicts"):
        conflicts_between(columns, 2)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3),
    st.integers(0, 5),
)
def test_a_touch_in_fewer_loops_has_the_same_places(
    turns: list[tuple[int, int]], extent: int
) -> None:
    def places(loops: tuple[tuple[int, int], ...], extent: int) -> set[int]:
        begins = {0}
        for count, stride in loops:
            begins = {begin + turn * stride for begin in begins for turn in range(count)}
        return {begin + place for begin in begins for place in range(extent)}

    found = Touch.of("pad", 0, turns, extent, writes=False)
    if all(count for count, _ in turns):
        assert places(found.loops, found.extent) == places(tuple(turns), extent)
    assert all(count > 1 and stride > 0 for count, stride in found.loops)
