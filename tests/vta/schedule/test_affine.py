# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/affine.py: an index is the number that its expression gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.schedule.affine import Index, Variable, index

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
