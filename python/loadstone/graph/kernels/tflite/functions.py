# SPDX-License-Identifier: Apache-2.0
"""TFLite's functions of one real number, in fixed point or tables: SOFTMAX, LOGISTIC,
HARD_SWISH, ABS, RSQRT, SQRT.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; partition/patterns/elementwise.py fills tables with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels import fixed_point
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, dequantize, finish
from loadstone.numerics import (
    high_multiply,
    quantize_multiplier,
    requantize_double,
    round_half_away,
    rounding_shift_right,
)

__all__ = ["absolute", "hard_swish", "input_radius", "logistic", "rsqrt", "softmax", "square_root"]


def softmax(x: Int8Array, q_in: Quantization, beta: float = 1.0) -> Int8Array:
    """SOFTMAX over the last axis; the output's scale is 1/256 and its zero point -128.

    x: (..., classes); the result has the same shape. exp of the distance from the row's maximum in
        Q0.31, their sum in Q12.19, one reciprocal per row.
    Domain: LiteRT aborts when a row's sum of exp reaches 512 (a thousand logits close together).
    """
    integer_bits, sum_bits = 5, 12
    multiplier, shift = quantize_multiplier(
        min(np.float64(beta) * q_in.scale * 2.0 ** (31 - integer_bits), 2.0**31 - 1)
    )
    smallest = -input_radius(integer_bits, int(shift))
    below = np.asarray(x, np.int64)
    below = below - below.max(-1, keepdims=True)
    seen = below >= smallest
    scaled = requantize_double(np.where(seen, below, 0), multiplier, shift)
    powers = fixed_point.exp_of_negative(scaled, integer_bits)
    total = np.where(seen, rounding_shift_right(powers, sum_bits), 0).sum(-1, keepdims=True)
    inverse, over_unit = fixed_point.reciprocal(total, sum_bits)
    probability = rounding_shift_right(high_multiply(inverse, powers), over_unit + 31 - 8)
    return finish(np.where(seen, probability, 0), -128)


def input_radius(integer_bits: int, shift: int) -> int:
    """The largest input that does not overflow Q<integer_bits> after a left shift: TFLite's
    CalculateInputRadius."""
    return int(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**shift)


def logistic(x: Int8Array, q_in: Quantization) -> Int8Array:
    """LOGISTIC: 1 / (1 + exp(-x)); the output's scale is 1/256 and its zero point -128.

    Elementwise: the result has the shape of x. LiteRT fills a table in float32. Its expf rounds
    correctly, NumPy's does not: so exp is float64, rounded.
    """
    with np.errstate(over="ignore"):
        power = np.exp(-dequantize(x, q_in).astype(np.float64)).astype(np.float32)
    value = np.float32(1) / (np.float32(1) + power)
    return finish(round_half_away(value * np.float32(256)), -128)


def hard_swish(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """HARD_SWISH: x * min(max(x + 3, 0), 6) / 6, in 16-bit fixed point.

    Domain: q_in.scale < 128 * q_out.scale (LiteRT refuses more).
    """
    fine = np.float32(1 / 128) * np.float32(q_in.scale)  # the scale of (x - zero point) * 2^7
    out_multiplier, out_shift = _multiplier16(fine / np.float32(q_out.scale))
    multiplier, shift = _multiplier16(fine / (np.float32(3) / np.float32(32768)))
    hires = centred(x, q_in) << 7
    value = _high_multiply16(hires, out_multiplier)
    gate = _high_multiply16(
        _clip16(hires << max(shift - 1, 0)), multiplier
    )  # x / 3 in Q0.15, saturated to [-1, 1]
    gate = _clip16(gate << 1) if shift > 0 else rounding_shift_right(gate, -shift).astype(np.int64)
    gate = (gate + (1 << 15)) >> 1
    product = gate * value
    product = np.sign(product) * (
        np.abs(product) >> 15
    )  # truncated: it takes back the bias of the products that are rounded
    return finish(rounding_shift_right(product, -out_shift), q_out.zero_point)


def absolute(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """ABS: |x|, requantized DOUBLE when the scales differ.

    Elementwise: the result has the shape of x.
    """
    distance = np.abs(centred(x, q_in))
    if q_in.scale != q_out.scale:
        ratio = np.float32(q_in.scale) / np.float32(q_out.scale)
        distance = requantize_double(distance, *quantize_multiplier(ratio)).astype(np.int64)
    return finish(distance, q_out.zero_point)


def rsqrt(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """RSQRT: 1 / sqrt(x), the root of the integer with 20 bits behind the point, then requantized.

    Elementwise: the result has the shape of x.

    0 gives the largest value. Domain: LiteRT refuses to run with x below 0; here they give it, too.
    """
    bits = 20
    distance = centred(x, q_in)
    inverse, shift = fixed_point.inverse_square_root(np.maximum(distance, 1))
    fine = requantize_double(1, inverse, shift + bits)
    scale = 1.0 / (float(np.sqrt(np.float32(q_in.scale))) * q_out.scale)
    multiplier, out_shift = quantize_multiplier(scale)
    value = requantize_double(fine, multiplier, out_shift - bits)
    return np.where(distance > 0, finish(value, q_out.zero_point), np.int8(127))


def square_root(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """SQRT: in float32, rounded down.

    Elementwise: the result has the shape of x.

    Domain: LiteRT refuses to run with x below 0; here they give the root of 0.
    """
    real = np.sqrt(np.maximum(dequantize(x, q_in), np.float32(0)))
    return finish(np.floor(real / np.float32(q_out.scale)), q_out.zero_point)


def _multiplier16(real: np.float32) -> tuple[int, int]:
    """(multiplier, shift) with real = multiplier * 2^(shift - 15): the 31 bits of
    `quantize_multiplier`, rounded to 15."""
    multiplier, shift = quantize_multiplier(np.float64(real))
    return min((int(multiplier) + (1 << 15)) >> 16, (1 << 15) - 1), int(shift)


def _clip16(value: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.clip(value, -(1 << 15), (1 << 15) - 1)


def _high_multiply16(a: NDArray[np.int64], b: int) -> NDArray[np.int64]:
    """a * b / 2^15 of int16, to nearest: gemmlowp's SaturatingRoundingDoublingHighMul."""
    nudged = a * b + np.where(a * b >= 0, 1 << 14, 1 - (1 << 14))
    return np.asarray(np.sign(nudged) * (np.abs(nudged) >> 15), np.int64)
