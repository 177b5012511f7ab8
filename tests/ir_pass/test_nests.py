# SPDX-License-Identifier: Apache-2.0
"""ir_pass/nests.py: strides and bounds of a nest's calls, counted in tiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import NestAccess, NestLoops, NestStep, NestTensor

X = NestTensor("x", (4, 9), (1, 16), "int8")
ACC = NestTensor("acc", (2, 9), (1, 16), "int32", "local", "acc")
CHIP = NestTensor("x_chip", (2, 9), (1, 16), "int8", "local", "inp")


def turn() -> tuple[Index, NestLoops]:
    """A loop of three turns around a nest."""
    around = NestLoops()
    return around.loop(3, "turn"), around


def test_an_operand_has_a_stride_for_each_loop_and_begins_where_outer_loops_say() -> None:
    outer, around = turn()
    loops = NestLoops()
    i, j = loops.loop(2, "i"), loops.loop(3, "j")
    nest = loops.nest(NestStep("copy", (CHIP[i, j * 2 + 1], X[outer + i, j * 2 + 1])))
    (call,) = nest.calls
    assert [axis.strides for axis in call.axes] == [(9, 9), (2, 2)]
    values = {around.variables[0]: 2}
    assert [number.at(values) for _, number in call.operands] == [1, 19]


@pytest.mark.parametrize(("value", "turns"), [(0, (0, 2)), (1, (0, 2)), (2, (0, 1))])
def test_a_loop_ends_where_its_condition_does(value: int, turns: tuple[int, int]) -> None:
    outer, around = turn()
    loops = NestLoops()
    i = loops.loop(2, "i")
    loops.within(outer * 2 + i, 5)
    (call,) = loops.nest(NestStep("fill", (ACC[i, 0],), (0,))).calls
    assert call.axes[0].executed({around.variables[0]: value}) == turns


def test_bounds_are_those_of_all_turns_in_which_no_condition_is_negative() -> None:
    outer, around = turn()
    for factor in (-3, -2, -1, 1, 2, 3):
        for base in range(-7, 8):
            loops = NestLoops()
            i = loops.loop(5, "i")
            condition = i * factor + outer * 2 + base
            loops.conditions.append(condition)
            (call,) = loops.nest(NestStep("fill", (ACC[0, i],), (0,))).calls
            for value in range(3):
                values = {around.variables[0]: value}
                first, last = call.axes[0].executed(values)
                held = [n for n in range(5) if n * factor + value * 2 + base >= 0]
                assert list(range(first, last)) == held


def test_a_condition_on_outer_loops_alone_is_a_loop_of_one_turn_or_none() -> None:
    outer, around = turn()
    loops = NestLoops()
    loops.conditions.append(1 - outer)
    i = loops.loop(2, "i")
    (call,) = loops.nest(NestStep("fill", (ACC[i, 0],), (0,))).calls
    assert call.axes[0].strides == (0,)
    ends = [call.axes[0].executed({around.variables[0]: value}) for value in range(3)]
    assert [last > first for first, last in ends] == [True, True, False]


def test_pads_are_outside_what_is_executed_or_inside_it() -> None:
    loops = NestLoops()
    j = loops.loop(9, "j")
    loops.within(j, 7)
    small = NestTensor("x", (1, 3), (1, 16), "int8")
    step = NestStep("copy", (CHIP[0, j], NestAccess(small, (0, j - 1), -5)))
    (call,) = loops.nest(step).calls
    (axis,) = call.axes
    assert (axis.executed({}), axis.inside({})) == ((0, 7), (1, 4))
    assert call.operands[1][1].at({}) == -1
    assert call.immediates == (-5,)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(-4, 4), st.integers(1, 3))
def test_padding_is_read_where_the_place_is_not_in_the_tensor(
    size: int, turns: int, first: int, step: int
) -> None:
    tensor, i = NestTensor("x", (size,), (1, 16), "int8"), Variable("i", turns)
    place = Index(first, {i: step})
    inside = NestAccess(tensor, (place,), 0).inside
    for turn in range(turns):
        is_inside = 0 <= place.at({i: turn}) < size
        assert is_inside == all(bound.at({i: turn}) >= 0 for bound in inside)
    never_left = all(0 <= place.at({i: turn}) < size for turn in range(turns))
    assert never_left == (not inside)
    assert not tensor[place].inside


def test_a_condition_on_two_loops_of_the_nest_is_refused() -> None:
    loops = NestLoops()
    i, j = loops.loop(2, "i"), loops.loop(3, "j")
    loops.within(i + j, 3)
    nest = loops.nest(NestStep("fill", (ACC[i, j],), (0,)))
    with pytest.raises(LoweringError, match=r"bounds the loops \['i', 'j'\]"):
        assert nest.calls
