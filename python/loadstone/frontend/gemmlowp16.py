# SPDX-License-Identifier: Apache-2.0
"""The logistic function and tanh of int16, as gemmlowp computes them, over all 65,536 values.

In:   the number of integer bits among the 15 bits below the sign.
Out:  int16 (65536,): the value at index x + 32768 is the function of x, with 15 fractional bits.
Next: tflite_lstm.py looks gates up in them.

LiteRT's recurrent kernels call gemmlowp's functions on int16, whose intermediate results are int16
too. Rounding the real functions does not give these integers, so that gemmlowp's steps are
repeated here.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_INTEGER_BITS", "Int16Table", "logistic_table", "tanh_table"]

Int16Table = NDArray[np.int16]
_Wide = NDArray[np.int64]
#: exp has one bit more than tanh, and clamps beyond 5, which is not written here.
MAX_INTEGER_BITS = 4
_ONE = 32767
_EXP_MINUS_EIGHTH, _ONE_THIRD = 28918, 10923
#: exp(-2^exponent) in Q0.15, by the exponent.
_FACTORS = {-2: 25520, -1: 19875, 0: 12055, 1: 4435, 2: 600, 3: 11, 4: 0}
_48_OVER_17, _NEG_32_OVER_17, _ONE_IN_Q2 = 23130, -15420, 1 << 13


@cache
def logistic_table() -> Int16Table:
    """1 / (1 + exp(-x)) of Q3.12: int16 (65536,), at x + 32768."""
    x = _all()
    positive = _twice(_reciprocal(_exp(-np.abs(x), 3)), 1)
    found = np.where(x > 0, positive, _ONE - positive)
    return np.where(x == 0, 1 << 14, found).astype(np.int16)


@cache
def tanh_table(integer_bits: int) -> Int16Table:
    """tanh(x): int16 (65536,), at x + 32768. integer_bits: 0 to MAX_INTEGER_BITS."""
    if not 0 <= integer_bits <= MAX_INTEGER_BITS:
        raise AssertionError(f"{integer_bits} integer bits are not in [0, {MAX_INTEGER_BITS}]")
    x = _all()
    size = _twice(_wrapped(_reciprocal(_exp(-np.abs(x), integer_bits + 1)) - _ONE_IN_Q2), 2)
    return np.where(x == 0, 0, np.where(x < 0, -size, size)).astype(np.int16)


def _all() -> _Wide:
    return np.arange(-32768, 32768, dtype=np.int64)


def _wrapped(x: _Wide) -> _Wide:
    return x.astype(np.int16).astype(np.int64)


def _twice(x: _Wide, bits: int) -> _Wide:
    """Shifted left, saturated."""
    return np.asarray(np.clip(x << bits, -32768, 32767), np.int64)


def _half(x: _Wide, bits: int) -> _Wide:
    """Shifted right, to nearest, ties away from zero."""
    size = (np.abs(x) + (1 << (bits - 1))) >> bits
    return np.asarray(np.where(x < 0, -size, size))


def _times(a: _Wide, b: _Wide | int) -> _Wide:
    """High half of the doubled product, rounded; the quotient is truncated towards zero."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    high = np.where(nudged < 0, -(-nudged >> 15), nudged >> 15)
    return np.minimum(high, 32767)


def _exp(a: _Wide, integer_bits: int) -> _Wide:
    """exp of a <= 0, in Q0.15."""
    behind = 15 - integer_bits
    quarter = 1 << (behind - 2)
    fraction = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(_twice(fraction, integer_bits))
    rest = _wrapped(fraction - a)
    for exponent, factor in _FACTORS.items():
        if integer_bits > exponent:
            result = np.where(rest & (1 << (behind + exponent)), _times(result, factor), result)
    return np.where(a == 0, _ONE, result)


def _exp_near_zero(a: _Wide) -> _Wide:
    """exp on [-1/4, 0): a Taylor series about -1/8."""
    x = _wrapped(a + (1 << 12))
    x2 = _times(x, x)
    x3 = _times(x2, x)
    x4_over_4 = _half(_times(x2, x2), 2)
    tail = _half(_wrapped(_times(_wrapped(x4_over_4 + x3), _ONE_THIRD) + x2), 1)
    step = _times(_wrapped(x + tail), _EXP_MINUS_EIGHTH)
    return np.clip(_EXP_MINUS_EIGHTH + step, -32768, 32767)


def _reciprocal(a: _Wide) -> _Wide:
    """2 / (1 + a) in Q2.13, for a in [0, 1]: three steps of Newton and Raphson."""
    half_denominator = (a + _ONE + 1) // 2
    x = _wrapped(_times(half_denominator, _NEG_32_OVER_17) + _48_OVER_17)
    for _ in range(3):
        error = _wrapped(_ONE_IN_Q2 - _times(half_denominator, x))
        x = _wrapped(x + _twice(_times(x, error), 2))
    return x
