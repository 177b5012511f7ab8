# SPDX-License-Identifier: Apache-2.0
"""TFLite's arithmetic on elements: ADD, SUB, MUL, DIV, SQUARED_DIFFERENCE, LEAKY_RELU.

In:   int8 activations of any shape, with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; vta/operators/elementwise.py takes its constants from here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.fixed_point import reciprocal
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.graph.kernels.windows import INT8_LIMITS
from loadstone.numerics import (
    INT32_MAX,
    INT32_MIN,
    high_multiply,
    quantize_multiplier,
    requantize_double,
    wrap_int32,
)

__all__ = [
    "ADD_PRE_SHIFT",
    "DIFFERENCE_PRE_SHIFT",
    "AddConstants",
    "add",
    "add_constants",
    "div",
    "div_scale",
    "leading_sign_bits",
    "leaky_relu",
    "mul",
    "mul_scale",
    "squared_difference",
    "sub",
]

#: ADD and SUB shift their inputs left by so many bits before they requantize them.
ADD_PRE_SHIFT = 20
#: SQUARED_DIFFERENCE shifts its inputs left by so many.
DIFFERENCE_PRE_SHIFT = 7


class AddConstants(NamedTuple):
    """The three requantizations of ADD and SUB: (multiplier, shift) of each input and of the
    sum."""

    first: tuple[int, int]
    second: tuple[int, int]
    output: tuple[int, int]


def add_constants(q_a: Quantization, q_b: Quantization, q_out: Quantization) -> AddConstants:
    """Both inputs come to twice the larger scale, 20 bits up, so that their sum fits 32 bits.

    Domain: 2 * the larger input scale < 2^20 * the output scale (LiteRT aborts beyond).
    """
    common = 2.0 * max(q_a.scale, q_b.scale)
    reals = (q_a.scale / common, q_b.scale / common, common / (2.0**ADD_PRE_SHIFT * q_out.scale))
    return AddConstants(*((int(m), int(s)) for m, s in map(quantize_multiplier, reals)))


def add(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """ADD: shapes broadcast."""
    return _add((a, q_a), (b, q_b), 1, q_out, limits)


def sub(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """SUB: as ADD, with the second input's requantized value taken away.

    a, b: shapes broadcast.
    """
    return _add((a, q_a), (b, q_b), -1, q_out, limits)


def _add(
    first_of: tuple[Int8Array, Quantization],
    second_of: tuple[Int8Array, Quantization],
    sign: int,
    q_out: Quantization,
    limits: tuple[int, int],
) -> Int8Array:
    constants = add_constants(first_of[1], second_of[1], q_out)
    first = requantize_double(centred(*first_of) << ADD_PRE_SHIFT, *constants.first)
    second = requantize_double(centred(*second_of) << ADD_PRE_SHIFT, *constants.second)
    total = first.astype(np.int64) + sign * second.astype(np.int64)
    return finish(requantize_double(total, *constants.output), q_out.zero_point, limits)


def mul_scale(q_a: Quantization, q_b: Quantization, q_out: Quantization) -> float:
    """MUL's scale: q_a.scale * q_b.scale / q_out.scale, the operations in float32."""
    return float(np.float32(q_a.scale) * np.float32(q_b.scale) / np.float32(q_out.scale))


def mul(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """MUL: shapes broadcast."""
    product = centred(a, q_a) * centred(b, q_b)
    return finish(
        requantize_double(product, *quantize_multiplier(mul_scale(q_a, q_b, q_out))),
        q_out.zero_point,
        limits,
    )


def div(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """DIV: shapes broadcast. A reciprocal in fixed point, times a shifted left as far as possible.

    Domain: the scale of the quotient is below 2^23, and no b is q_b's zero point (LiteRT refuses to
    run); here that is the largest or smallest value, by the sign of a.
    """
    negative = centred(b, q_b) < 0
    numerator, denominator = centred(a, q_a), np.abs(centred(b, q_b))
    numerator = np.where(negative, -numerator, numerator)
    inverse, over_unit = reciprocal(np.maximum(denominator, 1), 31)
    headroom = leading_sign_bits(numerator)
    quotient = high_multiply(numerator << headroom, inverse)
    multiplier, shift = quantize_multiplier(div_scale(q_a, q_b, q_out))
    result = _divide_by_power(high_multiply(quotient, multiplier), over_unit + headroom - shift)
    result = np.where(denominator == 0, np.where(numerator < 0, INT32_MIN, INT32_MAX), result)
    return finish(result, q_out.zero_point, limits)


def div_scale(q_a: Quantization, q_b: Quantization, q_out: Quantization) -> float:
    """DIV's scale: q_a.scale / (q_b.scale * q_out.scale), the operations in float32."""
    return float(np.float32(q_a.scale) / (np.float32(q_b.scale) * np.float32(q_out.scale)))


def _divide_by_power(x: ArrayLike, bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """`rounding_shift_right`, and what becomes of it above 31 bits, as it does for small quotients
    and for 0: C gives that no meaning, x86 shifts by the low five bits and rounds by the rest."""
    x = np.asarray(x, np.int64)
    mask = wrap_int32((np.int64(1) << bits) - 1).astype(np.int64)
    threshold = (mask >> 1) + (x < 0)
    return np.asarray((x >> (bits & 31)) + (wrap_int32(x & mask) > threshold), np.int64)


def leading_sign_bits(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """By how many bits an int32 can be shifted left before it overflows.

    x: of any shape; the result has the same shape.
    """
    magnitude = np.where(x >= 0, x, ~x)
    bits = np.ceil(np.log2(magnitude.astype(np.float64) + 1)).astype(np.int64)
    return np.asarray(31 - bits, np.int64)


def squared_difference(
    a: Int8Array, b: Int8Array, q_a: Quantization, q_b: Quantization, q_out: Quantization
) -> Int8Array:
    """SQUARED_DIFFERENCE: shapes broadcast. As SUB, with 7 bits, and squared before the last of its
    three requantizations.

    Domain: (2 * the larger input scale)^2 < 2^14 * the output's (LiteRT aborts beyond).
    """
    common = 2.0 * max(q_a.scale, q_b.scale)
    first, second = (
        requantize_double(
            centred(x, q) << DIFFERENCE_PRE_SHIFT, *quantize_multiplier(q.scale / common)
        ).astype(np.int64)
        for x, q in ((a, q_a), (b, q_b))
    )
    square = wrap_int32(np.square(first - second))
    scale = common * common / (2.0 ** (2 * DIFFERENCE_PRE_SHIFT) * q_out.scale)
    return finish(requantize_double(square, *quantize_multiplier(scale)), q_out.zero_point)


def leaky_relu(x: Int8Array, q_in: Quantization, q_out: Quantization, alpha: float) -> Int8Array:
    """LEAKY_RELU: negative values times alpha.

    Elementwise: the result has the shape of x. Rounding DOUBLE on both sides of zero.
    """
    distance = centred(x, q_in)
    ratio = np.float32(q_in.scale) / np.float32(q_out.scale)
    slope = np.float32(q_in.scale) * np.float32(alpha) / np.float32(q_out.scale)
    positive = requantize_double(distance, *quantize_multiplier(ratio))
    negative = requantize_double(distance, *quantize_multiplier(slope))
    return finish(np.where(distance >= 0, positive, negative), q_out.zero_point)
