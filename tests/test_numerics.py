# SPDX-License-Identifier: Apache-2.0
"""numerics.py against a literal reading of its definitions in Python integers, one number at a
time."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadstone import numerics
from loadstone.numerics import INT32_MAX, INT32_MIN, Rounding
from tests.draw import Random

# --------------------------------------------------------------------------------------------------
# The definitions again, slowly: Python integers of any size, exact fractions
# --------------------------------------------------------------------------------------------------


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def slow_double(acc: int, multiplier: int, shift: int) -> int:
    x = wrap(acc * 2 ** max(shift, 0))
    if x == multiplier == INT32_MIN:
        v = INT32_MAX
    else:
        ab = x * multiplier
        nudged = ab + (2**30 if ab >= 0 else 1 - 2**30)
        v = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    right = max(-shift, 0)
    mask = 2**right - 1
    return (v >> right) + ((v & mask) > (mask >> 1) + (v < 0))


def slow_single(acc: int, multiplier: int, shift: int) -> int:
    return (acc * multiplier + 2 ** (30 - shift)) >> (31 - shift)


def nearest_float32(value: Fraction) -> float:
    """The float32 nearest to an exact value, ties to even; infinity beyond the largest. Python has
    no float32 of its own."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = max(math.frexp(magnitude)[1] - 24, -149)
    while magnitude / Fraction(2) ** exponent >= 2**24:  # frexp rounds its argument to a float64
        exponent += 1
    ticks = round(magnitude / Fraction(2) ** exponent)  # round() of a Fraction is half to even
    result = (
        float("inf")
        if ticks * Fraction(2) ** exponent >= 2**128
        else float(ticks * Fraction(2) ** exponent)
    )
    return math.copysign(result, value)


def slow_float32(acc: int, scale: float) -> int:
    if math.isnan(scale) or (math.isinf(scale) and acc == 0):
        return 0
    if math.isinf(scale):
        return INT32_MAX if (acc > 0) == (scale > 0) else INT32_MIN
    product = nearest_float32(Fraction(nearest_float32(Fraction(acc))) * Fraction(scale))
    if math.isinf(product):
        return INT32_MAX if product > 0 else INT32_MIN
    return min(max(round(Fraction(product)), INT32_MIN), INT32_MAX)


def float_of_bits(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def slow_rq(
    acc: int,
    bias: int,
    multiplier: int,
    lane: int,
    *,
    zero_point: int,
    low: int,
    high: int,
    rounding: Rounding,
) -> int:
    x = wrap(acc + bias)
    if rounding is Rounding.FLOAT32:
        value = slow_float32(x, float_of_bits(multiplier))
    else:
        bits = lane % 2**32
        shift = min(max((bits % 256 + 128) % 256 - 128, -31), 30)
        x = wrap(x * 2 ** (bits // 256 % 32))
        value = (slow_double if rounding is Rounding.DOUBLE else slow_single)(x, multiplier, shift)
    return min(max(value + zero_point, low), high)


EDGES = [0, 1, -1, 2**30, -(2**30), 2**30 + 1, INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1]
int32 = st.integers(INT32_MIN, INT32_MAX) | st.sampled_from(EDGES) | st.integers(-300, 300)
shifts = st.integers(-31, 30)
float_bits = int32 | st.floats(width=32).map(lambda f: struct.unpack("<i", struct.pack("<f", f))[0])
many = settings(max_examples=300, deadline=None)


# --------------------------------------------------------------------------------------------------
# Identities
# --------------------------------------------------------------------------------------------------


@many
@given(int32, int32, shifts)
@example(INT32_MIN, INT32_MIN, 0)
@example(INT32_MIN, INT32_MIN, -31)
@example(2, INT32_MIN, 30)
def test_double_is_its_definition(acc: int, multiplier: int, shift: int) -> None:
    assert numerics.requantize_double(acc, multiplier, shift) == slow_double(acc, multiplier, shift)


@many
@given(int32, int32, shifts)
@example(INT32_MIN, INT32_MIN, 30)
@example(INT32_MIN, INT32_MIN, -31)
def test_single_is_its_definition(acc: int, multiplier: int, shift: int) -> None:
    assert numerics.requantize_single(acc, multiplier, shift) == slow_single(acc, multiplier, shift)


@many
@given(int32, float_bits)
@example(3, 0x3F000000)  # 1.5 rounds to 2
@example(5, 0x3F000000)  # 2.5 rounds to 2
@example(0, 0x7F800000)  # 0 * infinity is not a number
@example(-1, 0x7F800000)
@example(1, 0x7FC00000)
@example(INT32_MIN, 0x3F800000)
@example(INT32_MAX, 0x3F800000)  # becomes 2^31 in float32, saturates
@example(INT32_MAX, 0x00000001)  # the smallest subnormal
def test_float32_is_its_definition(acc: int, bits: int) -> None:
    scale = float_of_bits(bits)
    assert numerics.requantize_float32(acc, np.float32(scale)) == slow_float32(acc, scale)


@many
@given(st.floats(width=32) | st.integers(-(2**20), 2**20).map(lambda n: n / 2))
@example(0.4999999701976776)  # the float32 below a half: adding a half first would round it up
@example(-0.5)
@example(2.0**24 + 2)
@example(float("inf"))
def test_round_half_away_is_exact(value: float) -> None:
    got = float(numerics.round_half_away(np.float32(value)))
    if not math.isfinite(value):
        assert str(got).lstrip("-") == str(value).lstrip("-")
        assert math.isnan(got) or got == value
    else:
        assert got == math.copysign(math.floor(abs(Fraction(value)) + Fraction(1, 2)), value)


@many
@given(int32, st.floats(2**-40, 2.0))
@example(-1, 0.5)
@example(3, 0.5)
@example(INT32_MIN, 2.0)
def test_float64_is_its_definition(acc: int, scale: float) -> None:
    product = acc * scale  # Python's own float64
    away = math.copysign(math.floor(abs(Fraction(product)) + Fraction(1, 2)), product)
    assert numerics.requantize_float64(acc, scale) == min(max(away, INT32_MIN), INT32_MAX)


@many
@given(
    acc=int32,
    bias=int32,
    multiplier=float_bits,
    lane=int32,
    zero_point=int32,
    low=int32,
    high=int32,
    rounding=st.sampled_from(Rounding),
)
def test_rq_is_total_and_is_its_definition(
    acc: int,
    bias: int,
    multiplier: int,
    lane: int,
    zero_point: int,
    low: int,
    high: int,
    rounding: Rounding,
) -> None:
    """Any 32 bits may stand in an operand lane or a register: the result is defined for all."""
    got = numerics.rq(
        acc, bias, multiplier, lane, zero_point=zero_point, low=low, high=high, rounding=rounding
    )
    want = slow_rq(
        acc, bias, multiplier, lane, zero_point=zero_point, low=low, high=high, rounding=rounding
    )
    assert got.dtype == np.int32
    assert got == want


def test_arrays_are_their_scalars() -> None:
    """Vectorised over every pair of edges and every shift, against the slow definition."""
    acc, multiplier, shift = (a.ravel() for a in np.meshgrid(EDGES, EDGES, np.arange(-31, 31)))
    triples = list(zip(acc.tolist(), multiplier.tolist(), shift.tolist(), strict=True))
    np.testing.assert_array_equal(
        numerics.requantize_double(acc, multiplier, shift), [slow_double(*t) for t in triples]
    )
    np.testing.assert_array_equal(
        numerics.requantize_single(acc, multiplier, shift), [slow_single(*t) for t in triples]
    )


def test_the_roundings_differ() -> None:
    """The three are not the same function: a test that mixes them up must fail."""
    rng = np.random.default_rng(1)
    acc = rng.integers(-(2**20), 2**20, 100_000)
    multiplier, shift = numerics.quantize_multiplier(rng.uniform(2**-14, 2**-13, acc.size))
    double = numerics.requantize_double(acc, multiplier, shift)
    single = numerics.requantize_single(acc, multiplier, shift)
    assert 0 < np.count_nonzero(double != single) < acc.size / 100
    assert np.abs(double - single).max() == 1
    assert numerics.requantize_single(5, *numerics.quantize_multiplier(0.5)) == 3  # ties upward
    assert numerics.requantize_float32(5, 0.5) == 2  # ties to even


# --------------------------------------------------------------------------------------------------
# Lanes
# --------------------------------------------------------------------------------------------------


@given(shifts, st.integers(0, 31))
def test_shift_lane_round_trips(shift: int, pre_shift: int) -> None:
    assert tuple(numerics.unpack_shift_lane(numerics.shift_lane(shift, pre_shift))) == (
        shift,
        pre_shift,
    )


def test_shift_lane_clamps_and_ignores_upper_bits() -> None:
    assert numerics.unpack_shift_lane(0x80) == (-31, 0)
    assert numerics.unpack_shift_lane(0x7F) == (30, 0)
    assert numerics.unpack_shift_lane(-1) == (-1, 31)
    assert numerics.unpack_shift_lane(0x7FFF_E000) == (0, 0)


def test_scale_lane_keeps_the_bits_and_the_shape() -> None:
    assert numerics.scale_lane(1.0) == 0x3F800000
    assert numerics.scale_lane(np.ones((2, 3))).shape == (2, 3)
    assert numerics.requantize(7, numerics.scale_lane(2.0), -1, Rounding.FLOAT32) == 14


def test_an_unknown_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match="3 is not a valid Rounding"):
        numerics.requantize(1, 1, 1, 3)


# --------------------------------------------------------------------------------------------------
# From scales to multipliers
# --------------------------------------------------------------------------------------------------


@many
@given(st.floats(-1e12, 1e12, allow_nan=False, allow_infinity=False) | st.floats(2**-40, 2.0))
@example(0.0)
@example(1 - 2**-53)  # rounds up to 1.0: the multiplier is renormalised
@example(2.0**30 - 2**-8)
def test_quantize_multiplier_is_the_nearest(real: float) -> None:
    multiplier, shift = (int(v) for v in numerics.quantize_multiplier(real))
    got = Fraction(multiplier) * Fraction(2) ** (shift - 31)
    if abs(real) >= 2**30 - 1:
        assert (abs(multiplier), shift) == (INT32_MAX, 30) or abs(got - Fraction(real)) <= Fraction(
            1, 2
        )
    elif abs(real) < 2**-32:
        assert (multiplier, shift) == (0, 0) or (abs(multiplier), shift) == (2**30, -31)
    else:
        assert 2**30 <= abs(multiplier) < 2**31
        assert abs(got - Fraction(real)) <= Fraction(2) ** (shift - 32)


def test_scales_keep_to_their_precision() -> None:
    """TFLite multiplies in float64, ONNX Runtime in float32: the results differ, and not by
    luck."""
    scales = np.random.default_rng(2).uniform(1e-3, 1, (3, 1000)).astype(np.float32)
    tflite, onnx = numerics.tflite_scale(*scales), numerics.onnx_scale(*scales)
    assert tflite.dtype == np.float64
    assert onnx.dtype == np.float32
    assert np.count_nonzero(tflite.astype(np.float32) != onnx) > 100
    np.testing.assert_allclose(tflite, onnx, rtol=2**-22)


@pytest.mark.parametrize("seed", range(12))
def test_single_is_float64_with_a_proven_multiplier(seed: int) -> None:
    """The multiplier that is called exact makes the device's rounding SINGLE equal float64's, also
    at ties."""
    draw = Random(seed)
    scale = np.array([draw.scale(2**-16, 2**-1) for _ in range(64)], np.float64)
    zero_point = draw.int(-128, 127)
    multiplier, shift, exact = numerics.single_multiplier(scale, zero_point)
    assert exact.all()

    acc = draw.rng.integers(-300, 300, (20_000, 64)) / scale
    acc = np.concatenate([acc, (np.rint(acc * scale) + 0.5) / scale]).astype(np.int32)
    single = np.clip(numerics.requantize_single(acc, multiplier, shift) + zero_point, -128, 127)
    wanted = np.clip(
        numerics.requantize_float64(acc, scale).astype(np.int64) + zero_point, -128, 127
    )
    np.testing.assert_array_equal(single, wanted)


def test_a_multiplier_that_cannot_be_proven_says_so() -> None:
    """7 / 640 is no float64: the kernel's ties depend on how each product rounds, which no fixed
    multiplier follows."""
    scale = numerics.tflite_scale(7 / 128, 1 / 8, 5 / 8)
    _, _, exact = numerics.single_multiplier(scale, 0)
    assert exact.tolist() == [False]
