# SPDX-License-Identifier: Apache-2.0
"""backend/rounding.py: each tie as exact rational numbers have it, and the nearest multiplier."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.backend.rounding import FloatScale, MultiplyShift, StatedRounding
from loadstone.numerics import requantize_float32
from tests.graph.test_accumulators import drawn

INT32 = st.integers(-(2**31), 2**31 - 1)


def rounded(exact: Fraction, ties: str) -> int:
    down = floor(exact)
    rest = exact - down
    if ties == "floor" or rest < Fraction(1, 2):
        return down
    if rest > Fraction(1, 2) or ties == "up":
        return down + 1
    if ties == "away":
        return down + (exact > 0)
    return down + down % 2


@given(
    INT32,
    st.integers(0, 2**31 - 1),
    st.integers(0, 61),
    st.sampled_from(("up", "even", "away", "floor")),
)
def test_a_product_is_rounded_as_it_says(
    total: int, multiplier: int, shift: int, ties: str
) -> None:
    rule = MultiplyShift(np.array([multiplier]), np.array([shift]), 3, -100, 90, ties)
    want = min(max(rounded(Fraction(total * multiplier, 2**shift), ties) + 3, -100), 90)
    assert rule(np.array([[total]])).tolist() == [[want]]


@pytest.mark.parametrize("ties", ["up", "even", "away", "floor"])
def test_ties(ties: str) -> None:
    rule = MultiplyShift(np.array([1]), np.array([1]), ties=ties)
    want = {
        "up": [-1, 0, 1, 2],
        "even": [-2, 0, 0, 2],
        "away": [-2, -1, 1, 2],
        "floor": [-2, -1, 0, 1],
    }
    assert rule(np.array([[-3], [-1], [1], [3]]))[:, 0].tolist() == want[ties]


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 31])
def test_the_multiplier_is_the_nearest_of_its_bits(bits: int) -> None:
    for seed in range(6):
        operator = drawn("conv2d", seed)
        rule = MultiplyShift.of(operator, bits)
        assert (rule.multiplier >= 1 << bits - 1).all()
        assert (rule.multiplier < 1 << bits).all()
        real = rule.multiplier / 2.0**rule.shift
        relative = np.abs(real - operator.real_scales()) / operator.real_scales()
        assert relative.max() <= 2.0**-bits
        assert (rule.low, rule.high) == (operator.low, operator.high)
        assert rule.zero_point == operator.output.zero_point


def test_a_shift_that_is_limited_takes_bits_of_the_multiplier() -> None:
    operator = drawn("conv2d", 3)
    rule = MultiplyShift.of(operator, 8, most_shift=7)
    assert rule.shift.max() <= 7
    np.testing.assert_array_equal(
        rule.multiplier, np.rint(operator.real_scales() * 2.0**rule.shift)
    )


@pytest.mark.parametrize("bits", [0, 7, 23])
def test_a_scale_of_few_bits_is_the_nearest(bits: int) -> None:
    operator = drawn("conv2d", 4)
    rule = FloatScale.of(operator, bits)
    scales = operator.real_scales()
    assert (np.abs(rule.scale - scales) / scales).max() <= 2.0 ** -(bits + 1)
    below = rule.scale.view(np.uint32) & (1 << 23 - bits) - 1
    assert below.tolist() == [0] * len(scales)
    sums = np.arange(-5000, 5000, 7)[:, None] + np.zeros(len(scales), np.int64)
    want = requantize_float32(sums, rule.scale) + operator.output.zero_point
    np.testing.assert_array_equal(rule(sums), np.clip(want, operator.low, operator.high))


def test_what_is_no_rounding_is_refused() -> None:
    one = np.array([1])
    for make, message in (
        (lambda: MultiplyShift(one, one, ties="nearest"), "ties 'nearest' is not one of up, even"),
        (lambda: MultiplyShift(-one, one), r"a multiplier outside \[0, 2147483647\]"),
        (lambda: MultiplyShift(one, 62 * one), r"a shift outside \[0, 61\]"),
        (lambda: FloatScale(np.float32([-1])), "no finite number of at least 0"),
        (lambda: FloatScale(np.float32([np.inf])), "no finite number of at least 0"),
        (lambda: FloatScale.of(drawn("conv2d", 0), 24), r"24 bits, not in \[0, 23\]"),
        (lambda: MultiplyShift.of(drawn("conv2d", 0), 32), "of 32 bits"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for bound in (-1, True, 1.0):
        with pytest.raises(TypeError, match="StatedRounding: bound"):
            StatedRounding(lambda sums: sums, bound)  # type: ignore[arg-type]
