# SPDX-License-Identifier: Apache-2.0
"""prove/requantize.py against the same rules in exact rational numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.prove.requantize import (
    Average,
    Away,
    Double,
    Float32,
    Requantizer,
    average,
    away,
    double,
    float32,
    quantize_multiplier,
    single,
    wrapped,
)

SUMS = st.integers(-(1 << 31), (1 << 31) - 1)
SCALES = st.floats(2.0**-40, 2.0**10)


def one(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array([value], np.int64)


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def half_away(value: Fraction) -> int:
    return half_up(value) if value >= 0 else -half_up(-value)


@given(SCALES)
def test_a_multiplier_is_the_scale_to_31_bits(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    if real < 2.0**-32:
        assert (multiplier, shift) == (0, 0)
    elif multiplier:
        assert 1 << 30 <= multiplier < 1 << 31
        error = abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(real))
        assert error <= Fraction(2) ** (shift - 32)


def test_the_ends_of_multipliers() -> None:
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(1.0) == (1 << 30, 1)
    assert quantize_multiplier(1 - 2.0**-40) == (1 << 30, 1)
    assert quantize_multiplier(2.0**-33) == (0, 0)
    assert quantize_multiplier(2.0**-32) == (1 << 30, -31)
    assert quantize_multiplier(2.0**29) == (1 << 30, 30)
    assert quantize_multiplier(2.0**30) == ((1 << 31) - 1, 30)
    assert quantize_multiplier(2.0**40) == ((1 << 31) - 1, 30)


@given(SUMS, st.integers(1 << 30, (1 << 31) - 1), st.integers(-31, 10))
def test_double_rounds_twice(total: int, multiplier: int, shift: int) -> None:
    shifted = int(wrapped(one(total << max(shift, 0)))[0])
    high = half_up(Fraction(shifted * multiplier, 1 << 31))
    assert double(one(total), multiplier, shift)[0] == half_away(
        Fraction(high, 1 << max(-shift, 0))
    )


def test_a_half_below_zero_goes_away_from_zero() -> None:
    """-2 by a half is -1, halved."""
    assert double(one(-2), 1 << 30, -1)[0] == -1


@pytest.mark.parametrize("rule", [away, float32])
def test_what_is_beyond_32_bits_is_their_end(rule: Callable[..., np.ndarray]) -> None:
    ends = np.array([-(1 << 31), (1 << 31) - 1], np.int64)
    assert rule(ends, 4.0).tolist() == ends.tolist()


@given(SUMS, st.integers(1 << 30, (1 << 31) - 1), st.integers(-31, 0))
def test_single_rounds_once(total: int, multiplier: int, shift: int) -> None:
    exact = Fraction(total * multiplier, 1 << (31 - shift))
    assert single(one(total), multiplier, shift)[0] == half_up(exact)


@given(st.integers(-(1 << 20), 1 << 20), st.integers(-8, 3))
def test_away_rounds_ties_away_from_zero(total: int, exponent: int) -> None:
    exact = Fraction(total) * Fraction(2) ** exponent
    assert away(one(total), 2.0**exponent)[0] == half_away(exact)


@given(st.integers(-(1 << 23), 1 << 23), st.integers(-8, 3))
def test_float32_rounds_ties_to_even(total: int, exponent: int) -> None:
    assert float32(one(total), 2.0**exponent)[0] == round(Fraction(total) * Fraction(2) ** exponent)


def test_float32_rounds_the_sum_first() -> None:
    assert float32(one((1 << 24) + 1), 1.0)[0] == 1 << 24
    assert float32(one((1 << 31) - 1), 1e30)[0] == (1 << 31) - 1


@given(SUMS, st.integers(1, 1 << 20))
def test_average_rounds_ties_away_from_zero(total: int, count: int) -> None:
    assert average(one(total), count)[0] == half_away(Fraction(total, count))


@pytest.mark.parametrize(
    "scaling",
    [
        Double.of(np.array([0.003, 0.25])),
        Away(np.array([0.003, 0.25])),
        Float32(np.float32([0.003, 0.25]).astype(np.float64)),
        Average(7),
    ],
    ids=["double", "away", "float32", "average"],
)
def test_a_requantizer_is_non_decreasing_and_clamps(
    scaling: Double | Away | Float32 | Average,
) -> None:
    requantizer = Requantizer(scaling, 5, -100, 90)
    sums = np.arange(-70_000, 70_000, dtype=np.int64)
    levels = requantizer.levels(sums[:, None], np.arange(2))
    assert levels.shape[0] == sums.size
    assert np.all(np.diff(levels, axis=0) >= 0)
    assert (levels.min(), levels.max()) == (-100, 90)
    assert requantizer.levels(one(0), 0)[0] == 5


def test_a_left_shift_wraps() -> None:
    assert double(one(1 << 30), 1 << 30, 2)[0] == 0
