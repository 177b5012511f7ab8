# SPDX-License-Identifier: Apache-2.0
"""What an instruction says by fields, numbers, sums, comparisons and products of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import ConfigError
from loadstone.isa.table import Reach
from loadstone.isa.terms import Factor, Sum, factors, fields_of, number_of, term_value


def test_a_term_is_a_product() -> None:
    """Some devices hold sizes, not bytes, and some hold one less than they mean."""
    fields = {"height": 3, "width": 5, "rows": 7}
    height, width = Factor(Sum(("height",))), Factor(Sum(("width",)))
    assert factors("height*width*4") == (height, width, Factor(Sum((), 4)))
    assert factors("(rows+1)") == (Factor(Sum(("rows",), 1)),)
    values = [term_value(t, fields) for t in (9, "rows", "(rows+1)", "height * width*(rows+1)*2")]
    assert values == [9, 7, 8, 240]
    reach = Reach("dram", "a", (("(rows+1)", "width*16"),), "width*4", writes=True)
    assert reach.places({**fields, "a": 100}) == (100, 100 + 7 * 80 + 20)


def test_sums_and_comparisons() -> None:
    """Rows with padding around them, and what counts in one mode alone."""
    fields = {"top": 1, "rows": 7, "bottom": 2, "mode": 3, "signed": -4}
    assert term_value("(top+rows+bottom+1)*2", fields) == 22
    assert factors("(mode>2)") == factors("(2<mode)")
    said = ["(mode=3)", "(mode=2)", "(mode<4)", "(mode<3)", "(mode>2)", "(mode>3)"]
    assert [term_value(term, fields) for term in said] == [1, 0, 1, 0, 1, 0]
    assert term_value("(top+bottom=mode)", fields) == 1
    assert [term_value(t, fields) for t in ("(signed+4<0)", "(signed+3<0)")] == [0, 1]
    assert term_value("rows*(mode=3)", fields) == 7


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.integers(0, 9))
def test_a_comparison_is_that_of_pythons(values: list[int], number: int) -> None:
    fields = dict(zip("abcd", values, strict=True))
    a, b, c, d = values
    for sign, holds in (("=", a + b == c + number), ("<", a + b < c + number)):
        assert term_value(f"(a+b{sign}c+{number})*d", fields) == (d if holds else 0)
    assert term_value(f"(a+b>c+{number})", fields) == int(a + b > c + number)


def test_the_fields_of_a_term() -> None:
    assert fields_of("rows*(mode=2)*(top+rows<4)") == ("rows", "mode", "top")
    assert fields_of(3) == fields_of("3") == ()


def test_what_a_term_is_when_some_fields_are_known() -> None:
    assert number_of("rows*(mode=2)", {"mode": 3}) == 0
    assert number_of("rows*(mode=2)", {"mode": 2}) is None
    assert number_of("3*(mode=2)", {"mode": 2}) == 3
    assert number_of(5, {}) == 5


@pytest.mark.parametrize(
    "text", ["a+1", "a**b", "", "(a-b)", "A", "a*-1", "(a", "(a=b=c)", "(a>=b)", "(=a)", "((a+b))"]
)
def test_refuses(text: str) -> None:
    with pytest.raises(ConfigError, match="is no number, no field"):
        factors(text)
