# SPDX-License-Identifier: Apache-2.0
"""LiteRT's SOFTMAX of levels, in the fixed point of gemmlowp.

In:   levels less their zero point.
Out:  levels less the least of the output's type.
Next: definition.py.

exp of a negative number in Q5.26 is a polynomial on (-1/4, 0] and a product of constants for each
bit above; the sum has 12 integer bits, its reciprocal three steps of Newton's method.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.requantize import quantize_multiplier, wrapped

__all__ = ["softmax_litert"]

Integers = NDArray[np.int64]
_GREATEST = (1 << 31) - 1


def _high(a: Integers | int, b: Integers | int) -> Integers:
    """Twice the product's upper half, to nearest."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.minimum((product + (1 << 30)) >> 31, _GREATEST)


def _down(x: Integers, bits: int | Integers) -> Integers:
    """Divided by a power of two, half away from zero."""
    half = (np.int64(1) << np.asarray(bits, np.int64)) >> 1
    return np.where(x < 0, -((-x + half) >> bits), (x + half) >> bits)


def _up(x: Integers, bits: int) -> Integers:
    """Times a power of two, saturated."""
    return np.clip(x << bits, -(1 << 31), _GREATEST)


def _exp(a: Integers) -> Integers:
    """exp(a) in Q0.31 for a <= 0 in Q5.26."""
    quarter = 1 << 24
    near = (a & (quarter - 1)) - quarter
    x = _up(near, 5) + (1 << 28)
    x2 = _high(x, x)
    x3, x4 = _high(x2, x), _high(x2, x2)
    tail = _down(_high(_down(x4, 2) + x3, 715827883) + x2, 1)
    result = np.minimum(1895147668 + _high(1895147668, x + tail), _GREATEST)
    remainder = near - a
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for bit, factor in enumerate(factors, 24):
        result = np.where(remainder & (1 << bit), _high(result, factor), result)
    return np.where(a == 0, _GREATEST, result)


def _reciprocal(total: Integers) -> tuple[Integers, Integers]:
    """(1 / (1 + x) in Q0.31, bits above the unit) of a sum in Q12.19, normalised to 1 + x."""
    bits = np.array([int(value).bit_length() for value in total.reshape(-1)]).reshape(total.shape)
    headroom = 32 - bits
    x = (total << headroom) - (1 << 31)
    half = (x + _GREATEST + 1) >> 1
    estimate = 1515870810 + _high(half, -1010580540)
    for _ in range(3):
        product = _high(half, estimate)
        estimate = estimate + _up(_high(estimate, (1 << 29) - product), 2)
    return _up(estimate, 1), 12 - headroom


def softmax_litert(x: Integers, scale: float, beta: float) -> Integers:
    """The levels of rows (..., classes); the output's scale is 1/256."""
    real = min(float(beta) * scale * 2.0**26, 2.0**31 - 1)
    multiplier, left = quantize_multiplier(real)
    radius = ((1 << 5) - 1) * 2.0**26 / 2.0**left
    distance = x - x.max(-1, keepdims=True)
    counted = distance >= -int(np.floor(radius))
    scaled = _high(wrapped(np.where(counted, distance, 0) << left), multiplier)
    power = np.where(counted, _exp(scaled), 0)
    reciprocal, over = _reciprocal(_down(power, 12).sum(-1, keepdims=True))
    levels = _down(_high(reciprocal, power), over + 23)
    return np.where(counted, np.clip(levels, 0, 255), 0)
