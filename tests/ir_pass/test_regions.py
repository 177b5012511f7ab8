# SPDX-License-Identifier: Apache-2.0
"""ir_pass/regions.py: a box holds what is read, and what covers it was written."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import NestAccess, NestTensor
from loadstone.ir_pass.regions import Use, covers, region_of

TURN = Variable("t", 3)
TENSOR = NestTensor("x", (40, 40), (1, 16), "int8")


@st.composite
def uses(draw: Any, most: int = 2) -> Use:
    """An access of two axes that moves with t and one or two loops of its own, where one of these
    may be bounded."""
    own = [Variable(name, draw(st.integers(1, most))) for name in "ij"]
    factors = st.sampled_from([0, 1, 1, 1, 2])

    def place(along: Variable) -> Index:
        moved = {TURN: draw(st.sampled_from([0, 4])), along: draw(factors)}
        return Index(draw(st.integers(0, 3)), moved)

    guards = []
    if draw(st.booleans()):
        along = draw(st.sampled_from(own))
        guards.append(Index(draw(st.integers(0, 3)), {along: -1, TURN: draw(st.integers(-1, 0))}))
    return Use(NestAccess(TENSOR, (place(own[0]), place(own[1]))), tuple(guards), 1)


def places(use: Use, turn: int) -> set[tuple[int, ...]]:
    """Those of a turn of t."""
    loops = list({v: None for place in use.access.at for v in place.terms if v is not TURN})  # type: ignore[union-attr]
    loops += [v for guard in use.conditions for v in guard.terms if v not in (*loops, TURN)]
    found = set()
    for values in product(*(range(loop.extent) for loop in loops)):
        at = {TURN: turn, **dict(zip(loops, values, strict=True))}
        if all(guard.at(at) >= 0 for guard in use.conditions):
            found.add(tuple(place.at(at) for place in use.access.at))  # type: ignore[union-attr]
    return found


@given(st.lists(uses(), min_size=1, max_size=4), st.lists(uses(), min_size=1, max_size=2))
def test_what_is_covered_was_written_in_the_same_turn(
    writers: list[Use], readers: list[Use]
) -> None:
    if covers(writers, readers, (TURN,)):
        for turn in range(TURN.extent):
            written = set().union(*(places(use, turn) for use in writers))
            assert written >= set().union(*(places(use, turn) for use in readers))


def box(rows: tuple[int, int], columns: tuple[int, int], factor: int = 1) -> Use:
    """Places [first, last] of each axis, from 4 t on."""
    at = []
    for name, (first, last) in zip("ij", (rows, columns), strict=True):
        loop = Variable(name, (last - first) // factor + 1)
        at.append(Index(first, {TURN: 4, loop: factor}))
    return Use(NestAccess(TENSOR, tuple(at)), (), 1)


@pytest.mark.parametrize(
    ("writers", "is_covered"),
    [
        ([box((0, 3), (0, 3))], True),
        ([box((0, 5), (0, 9))], True),
        ([box((0, 3), (0, 2))], False),
        ([box((1, 3), (0, 3))], False),
        ([box((0, 1), (0, 3)), box((2, 3), (0, 3))], True),
        ([box((0, 1), (0, 1)), box((2, 3), (0, 3)), box((0, 1), (2, 3))], True),
        ([box((0, 1), (0, 3)), box((3, 3), (0, 3))], False),
        ([box((0, 1), (0, 1)), box((2, 3), (2, 3))], False),
        # of writes that overlap it is not known
        ([box((0, 2), (0, 3)), box((2, 3), (0, 3))], False),
        # as many tiles, but some of them twice
        ([box((0, 2), (0, 3)), box((2, 2), (0, 3))], False),
        # every second place
        ([box((0, 4), (0, 4), 2)], False),
        ([box((0, 4), (0, 4), 2), box((0, 3), (0, 3))], True),
    ],
)
def test_a_box_is_covered_by_one_that_holds_it_or_by_its_parts(
    writers: list[Use], is_covered: bool
) -> None:
    assert covers(writers, [box((0, 3), (0, 3))], (TURN,)) is is_covered
    halves = [box((0, 3), (0, 1)), box((0, 3), (2, 3))]
    assert covers(writers, halves, (TURN,)) is is_covered


def test_a_condition_that_bounds_no_axis_leaves_it_open_what_is_written() -> None:
    loop = Variable("i", 2)
    guards = (Index(0, {TURN: -1, loop: -1}),)  # in the turns t > 0, nothing is done
    guarded = Use(NestAccess(TENSOR, (0, Index(0, {loop: 0}))), guards, 1)
    plain = Use(NestAccess(TENSOR, (0, 0)), (), 1)
    assert not covers([guarded], [plain], (TURN,))
    one, other = Variable("i", 4), Variable("j", 2)
    gaps = NestAccess(TENSOR, (0, Index(0, {one: 1, other: 4})))
    clipped = (Index(1, {one: -1}),)  # 0, 1, 4, 5
    assert not covers([Use(gaps, clipped, 1)], [Use(gaps, clipped, 1)], (TURN,))
    assert covers([Use(gaps, (), 1)], [Use(gaps, clipped, 1)], (TURN,))


def test_a_place_of_a_turn_alone_is_bounded_by_its_condition() -> None:
    uses = []
    for last in (9, 8):
        loop = Variable("i", 4)
        guards = (Index(last, {TURN: -4, loop: -1}),)
        uses.append(Use(NestAccess(TENSOR, (0, Index(0, {loop: 1}))), guards, 1))
    more, less = uses
    assert covers([more], [less, more], (TURN,))
    assert not covers([less], [less, more], (TURN,))


def test_places_of_another_turn_are_not_covered() -> None:
    still = Use(NestAccess(TENSOR, (0, 0)), (), 1)
    assert covers([still], [still], (TURN,))
    assert not covers([box((0, 0), (0, 0))], [still], (TURN,))
    assert not covers([still], [box((0, 0), (0, 0))], (TURN,))


@given(st.lists(uses(4), min_size=1, max_size=3))
def test_a_box_holds_every_place_that_is_read_and_leads_back_to_it(readers: list[Use]) -> None:
    moved = {tuple(place.terms[TURN] for place in use.access.at) for use in readers}  # type: ignore[union-attr]
    if len(moved) > 1:
        return
    region = region_of(TENSOR, "inp", tuple(readers), (TURN,), False)
    assert region.load is not None
    ((target, source),) = (step.operands for step in region.load.steps)
    for turn in range(TURN.extent):
        held = {}
        for values in product(*(range(loop.extent) for loop in region.load.loops)):
            at = {TURN: turn, **dict(zip(region.load.loops, values, strict=True))}
            if all(guard.at(at) >= 0 for guard in region.load.conditions):
                chip, dram = (
                    tuple(place.at(at) for place in access.at)  # type: ignore[union-attr]
                    for access in (target, source)
                )
                held[chip] = dram
        for use in readers:
            chip_use = Use(region.moved(use.access), use.conditions, 1)
            assert {held[place] for place in places(chip_use, turn)} == places(use, turn)


def test_equal_boxes_are_one_object() -> None:
    first, second = (
        region_of(TENSOR, "inp", (box((0, 3), (0, 3)),), (TURN,), False) for _ in range(2)
    )
    assert first is second
    other = region_of(TENSOR, "inp", (box((0, 3), (0, 2)),), (TURN,), False)
    assert other is not first
