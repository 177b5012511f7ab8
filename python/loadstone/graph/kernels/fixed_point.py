# SPDX-License-Identifier: Apache-2.0
"""exp, 1 / (1 + x) and 1 / sqrt(x) in 32-bit fixed point, as gemmlowp computes them.

In:   raw int32 numbers; Qm.n has m integer bits and n = 31 - m fractional bits, so raw = value *
      2^n.
Out:  raw int32 numbers in Q0.31, where INT32_MAX stands for 1.
Next: tflite/functions.py: SOFTMAX, RSQRT; tflite/elementwise.py: DIV; tflite/reduction.py.

Integer polynomials on a short interval, then table products: every device and compiler gets the
same bits, which the C library's exp does not promise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from loadstone.numerics import (
    INT32_MAX,
    INT32_MIN,
    Int32Array,
    high_multiply,
    rounding_shift_right,
    wrap_int32,
)

__all__ = ["exp_of_negative", "inverse_square_root", "reciprocal", "reciprocal_of_one_plus"]

_EXP_MINUS_EIGHTH = 1895147668  # exp(-1/8) in Q0.31
_ONE_THIRD = 715827883  # Q0.31
#: exp(-2^k) in Q0.31 for k = -2 .. 4.
_EXP_MINUS_POWERS = {
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
_48_OVER_17 = 1515870810  # Q2.29
_NEG_32_OVER_17 = -1010580540  # Q2.29
_HALF_ROOT_OF_2 = 1518500250  # Q0.31


def exp_of_negative(a: ArrayLike, integer_bits: int) -> Int32Array:
    """exp(a) in Q0.31 for a <= 0 in Q<integer_bits>: gemmlowp's exp_on_negative_values, 5 integer
    bits at most.

    a = r - remainder with r in [-1/4, 0) from a polynomial; each bit of the remainder is a product
    with exp(-2^k).

    a: int32 of any shape, <= 0. The result has the same shape.
    """
    if not 0 <= integer_bits <= 5:  # beyond them gemmlowp clamps, which is not written here
        raise AssertionError(f"{integer_bits} integer bits are not in [0, 5]")
    a = np.asarray(a, np.int64)
    fractional_bits = 31 - integer_bits
    quarter = 1 << (fractional_bits - 2)
    in_quarter = (a & (quarter - 1)) - quarter
    result = _exp_of_minus_quarter_to_0(_saturating_shift_left(in_quarter, integer_bits))
    remainder = in_quarter - a
    for exponent, factor in _EXP_MINUS_POWERS.items():
        if exponent < integer_bits:
            bit = 1 << (fractional_bits + exponent)
            result = np.where(remainder & bit, high_multiply(result, factor), result)
    return np.where(a == 0, INT32_MAX, result).astype(np.int32)


def _exp_of_minus_quarter_to_0(a: ArrayLike) -> Int32Array:
    """exp(a) in Q0.31 for a in [-1/4, 0), Q0.31: Taylor's series around -1/8 up to the fourth
    power."""
    x = wrap_int32(np.asarray(a, np.int64) + (1 << 28))  # a + 1/8
    x2 = high_multiply(x, x)
    x3 = high_multiply(x2, x)
    x4_over_4 = rounding_shift_right(high_multiply(x2, x2), 2)
    thirds = high_multiply(x4_over_4.astype(np.int64) + x3, _ONE_THIRD)
    tail = rounding_shift_right(thirds.astype(np.int64) + x2, 1)  # x^4/24 + x^3/6 + x^2/2
    return wrap_int32(
        high_multiply(x.astype(np.int64) + tail, _EXP_MINUS_EIGHTH).astype(np.int64)
        + _EXP_MINUS_EIGHTH
    )


def reciprocal_of_one_plus(a: ArrayLike) -> Int32Array:
    """1 / (1 + a) in Q0.31 for a in [0, 1], Q0.31: three steps of Newton's method, in Q2.29.

    a: int32 of any shape; the result has the same shape.
    """
    half_denominator = _rounding_half_sum(a, INT32_MAX)
    x = wrap_int32(high_multiply(half_denominator, _NEG_32_OVER_17).astype(np.int64) + _48_OVER_17)
    for _ in range(3):
        error = (1 << 29) - high_multiply(half_denominator, x).astype(np.int64)
        x = wrap_int32(x.astype(np.int64) + _saturating_shift_left(high_multiply(x, error), 2))
    return _saturating_shift_left(x, 1)


def reciprocal(x: ArrayLike, integer_bits: int) -> tuple[Int32Array, Int32Array]:
    """(r, s) with 1 / x = r * 2^-31 * 2^-s for x > 0 in Q<integer_bits>: TFLite's GetReciprocal."""
    x = np.asarray(x, np.int64)
    headroom = 31 - np.floor(np.log2(x.astype(np.float64))).astype(
        np.int64
    )  # leading zeros of 32 bits
    fraction = wrap_int32((x << headroom) - (1 << 31))
    return reciprocal_of_one_plus(fraction), (integer_bits - headroom).astype(np.int32)


def inverse_square_root(x: ArrayLike) -> tuple[Int32Array, Int32Array]:
    """(r, s) with 1 / sqrt(x) = r * 2^(s - 31) for integers x > 1: TFLite's
    GetInvSqrtQuantizedMultiplierExp, five steps of Newton's method in Q3.28. 0 and 1 give 1.

    x: int32 of any shape, >= 0; both results have the same shape.
    """
    x = np.asarray(x, np.int64)
    small, value, shift = x <= 1, np.maximum(x, 2), np.full(x.shape, 11, np.int64)
    while np.any(large := value >= 1 << 29):
        value, shift = np.where(large, value // 4, value), shift + large
    pairs = (30 - np.floor(np.log2(value.astype(np.float64))).astype(np.int64)) // 2 - 1
    shift, value = shift - pairs, value << 2 * pairs
    half_input = rounding_shift_right(value >> 1, 1)
    root = np.full(x.shape, 1 << 28, np.int64)  # 1 in Q3.28
    for _ in range(5):
        cube = _saturating_shift_left(high_multiply(high_multiply(root, root), root), 6)
        step = high_multiply((1 << 28) + (1 << 27), root).astype(np.int64)
        step -= high_multiply(half_input, cube)
        root = _saturating_shift_left(step, 3).astype(np.int64)
    root = high_multiply(root, _HALF_ROOT_OF_2).astype(np.int64) << np.maximum(-shift, 0)
    return (
        wrap_int32(np.where(small, INT32_MAX, root)),
        np.where(small, 0, -np.maximum(shift, 0)).astype(np.int32),
    )


def _rounding_half_sum(a: ArrayLike, b: ArrayLike) -> Int32Array:
    """(a + b) / 2 to nearest, ties away from zero."""
    total = np.asarray(a, np.int64) + np.asarray(b, np.int64)
    return wrap_int32(np.where(total >= 0, (total + 1) >> 1, -((1 - total) >> 1)))


def _saturating_shift_left(x: ArrayLike, bits: int) -> Int32Array:
    """x * 2^bits, saturated to int32."""
    return wrap_int32(np.clip(np.asarray(x, np.int64) << bits, INT32_MIN, INT32_MAX))
