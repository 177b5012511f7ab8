# SPDX-License-Identifier: Apache-2.0
"""ir_pass/affine.py: an index is the number that its expression gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadstone.ir_pass.affine import Index, Variable, highest, index, lowest, substituted

NUMBERS = st.integers(-9, 9)


@given(st.lists(NUMBERS, min_size=8, max_size=8))
def test_indices_add_subtract_and_multiply_as_numbers_do(numbers: list[int]) -> None:
    a, b, c, d, e, f, x, y = numbers
    first, second = Variable("x", 10), Variable("y", 10)
    i, j = Index(0, {first: 1}), Index(0, {second: 1})
    values = {first: x, second: y}
    assert (i * a + j * b + c).at(values) == a * x + b * y + c
    assert (d - i * e - (j + i) * f).at(values) == d - x * e - (y + x) * f
    assert (a + (i - j) * b - c).at(values) == a + (x - y) * b - c
    assert index(a).at({}) == a
    assert index(i) is i


@given(st.lists(NUMBERS, min_size=3, max_size=3), st.integers(1, 4), st.integers(1, 4))
def test_the_least_and_the_greatest_value_are_those_of_all_turns(
    numbers: list[int], rows: int, columns: int
) -> None:
    first, second = Variable("x", rows), Variable("y", columns)
    place = Index(numbers[0], {first: numbers[1], second: numbers[2]})
    found = [place.at({first: x, second: y}) for x in range(rows) for y in range(columns)]
    assert (lowest(place), highest(place)) == (min(found), max(found))
    still = [place.at({first: x, second: 0}) for x in range(rows)]
    assert (lowest(place, {first}), highest(place, {first})) == (min(still), max(still))


@given(st.lists(NUMBERS, min_size=7, max_size=7))
def test_an_index_takes_the_place_of_a_variable(numbers: list[int]) -> None:
    a, b, c, d, e, x, y = numbers
    first, second = Variable("x", 10), Variable("y", 10)
    place, by = Index(a, {first: b, second: c}), Index(d, {second: e})
    found = substituted(place, {first: by})
    assert first not in found.terms
    assert found.at({second: y}) == place.at({first: by.at({second: y}), second: y})
    assert substituted(place, {second: x}).at({first: y}) == place.at({first: y, second: x})


def test_a_difference_has_no_terms_that_are_the_same_in_both() -> None:
    x, y = Variable("x", 3), Variable("y", 4)
    place, other = Index(7, {x: 2, y: 5}), Index(3, {x: 2, y: 4})
    assert (place - other).terms == {y: 1}
    assert (other - place).terms == {y: -1}
    assert (Index(0, {}) - other).terms == {x: -2, y: -4}
    assert (place - other).constant == 4
