# SPDX-License-Identifier: Apache-2.0
"""vta/integers/linear_search.py: what is found is exact, and what exists is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.integers.chain import run
from loadstone.vta.integers.linear_form import Correction
from loadstone.vta.integers.linear_search import LinearProblem, find_chain
from tests.repeat import times

VALUES = np.arange(-128, 128)


def problem(wanted: np.ndarray, factor: float, zero: int = 0) -> LinearProblem:
    return LinearProblem((VALUES,), np.clip(wanted, -128, 127), (factor,), (zero,), -128, 127)


@given(st.integers(20, 20000), st.integers(-100000, 100000))
@settings(max_examples=times(40, 1000), deadline=None)
def test_any_line_that_is_rounded_is_found(slope: int, offset: int) -> None:
    line = problem((VALUES * slope + offset) // 1009, slope / 1009)
    chain = find_chain(line)
    assert chain is not None
    np.testing.assert_array_equal(run(chain, line.inputs), line.wanted)


@pytest.mark.parametrize("numerator", [1, 3, 5, 7])
@pytest.mark.parametrize("denominator", [2, 4, 6, 10])
def test_ties_to_even_need_the_parity(numerator: int, denominator: int) -> None:
    """Of fractions whose ties are frequent, also where no binary multiplier is exact."""
    quotients, rests = np.divmod(VALUES * numerator, denominator)
    up = (2 * rests > denominator) | ((2 * rests == denominator) & (quotients % 2 == 1))
    exact = problem(quotients + up, numerator / denominator)
    chain = find_chain(exact, (Correction.NONE, Correction.EVEN))
    assert chain is not None
    assert find_chain(exact) is None
    np.testing.assert_array_equal(run(chain, exact.inputs), exact.wanted)


def test_ties_away_from_zero_need_nothing() -> None:
    away = problem(np.sign(VALUES) * ((np.abs(VALUES) + 1) // 2), 0.5)
    assert find_chain(away) is not None


def test_no_line_is_no_chain() -> None:
    assert find_chain(problem(VALUES * VALUES // 100, 0.5), tuple(Correction)) is None


def test_what_is_clamped_everywhere_is_constant() -> None:
    constant = problem(VALUES - 1000, 1.0, zero=120)
    assert (constant.wanted == -128).all()
    assert find_chain(constant) is not None


def test_clamps_that_nothing_reaches_are_left_out() -> None:
    chain = find_chain(problem(VALUES // 2, 0.5))
    assert chain is not None
    assert len(chain) == 2
