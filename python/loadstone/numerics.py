# SPDX-License-Identifier: Apache-2.0
"""Requantization, exactly: the living definition of every rounding.

In:   int32 accumulators; a multiplier and a shift, or a float32 scale.
Out:  the integers that the frameworks' kernels and the device's RQ instruction give, bit for bit.
Next: vta/meaning/reference.py (RQ), operators/ (whole operators), the compiler (constants for RQ's
      operand tiles).

A real network multiplies an int32 sum by a small real number and rounds it to 8 bits. No two
frameworks do that alike, and a difference of one unit can grow to 66 at the end of a network. There
are three ways:

    DOUBLE   fixed point, rounded twice     TFLite's reference kernels, but fully connected;
                                            TFLite Micro
    SINGLE   fixed point, rounded once      TFLite's reference fully connected, nearly: see
                                            requantize_float64
    FLOAT32  float32 product, half to even  ONNX Runtime's QLinearConv, QLinearMatMul, QGemm;
                                            XNNPACK

Arguments are NumPy arrays (or scalars) that broadcast against each other: a multiplier per channel
is an array along the last axis. Every function is total: each int32, also from a corrupt program,
has one defined result.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "INT32_MAX",
    "INT32_MIN",
    "MAX_PRE_SHIFT",
    "SHIFT_MAX",
    "SHIFT_MIN",
    "Array",
    "Rounding",
    "high_multiply",
    "onnx_scale",
    "quantize_multiplier",
    "requantize",
    "requantize_double",
    "requantize_float32",
    "requantize_float64",
    "requantize_single",
    "round_half_away",
    "rounding_shift_right",
    "rq",
    "scale_lane",
    "shift_lane",
    "single_multiplier",
    "tflite_scale",
    "unpack_shift_lane",
    "wrap_int32",
]

#: An array whose type of element only its file or its caller knows.
Array = NDArray[Any]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]

INT32_MIN = -(1 << 31)
INT32_MAX = (1 << 31) - 1
#: A requantization multiplies by multiplier * 2^(shift - 31): positive shifts go left.
SHIFT_MIN = -31
SHIFT_MAX = 30
#: RQ can shift the accumulator left by so many bits before the requantization.
MAX_PRE_SHIFT = 31


class Rounding(IntEnum):
    """Values of the device's register RQ_ROUNDING."""

    DOUBLE = 0
    SINGLE = 1
    FLOAT32 = 2


def wrap_int32(value: ArrayLike) -> Int32Array:
    """The low 32 bits of integers, as the device's adders and shifters keep them: 2^31 becomes
    -2^31.

    value: of any shape; the result has the same shape.
    """
    wrapped: Int32Array = np.asarray(value, np.int64).astype(np.int32)
    return wrapped


# --------------------------------------------------------------------------------------------------
# The three roundings
# --------------------------------------------------------------------------------------------------


def requantize_double(acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Int32Array:
    """acc * multiplier * 2^(shift - 31), rounded twice: gemmlowp's fixed point arithmetic.

    acc, multiplier: int32. shift: [-31, 30]. Shapes broadcast. A left shift comes first and wraps
        to int32; the upper half of the product is rounded, then the right shift rounds again.

    Equal to TFLite's MultiplyByQuantizedMultiplier without TFLITE_SINGLE_ROUNDING.
    """
    shift = np.asarray(shift, np.int64)
    x = wrap_int32(np.asarray(acc, np.int64) << np.maximum(shift, 0))
    return rounding_shift_right(high_multiply(x, multiplier), np.maximum(-shift, 0))


def high_multiply(a: ArrayLike, b: ArrayLike) -> Int32Array:
    """a * b / 2^31 of int32: the product of two Q0.31 numbers, to nearest; INT32_MIN * INT32_MIN
    saturates.

    Shapes broadcast. Ties go upward: away from zero for positive products. Equal to gemmlowp's
    SaturatingRoundingDoublingHighMul, which adds a nudge of the product's sign and divides
    truncating toward zero: 1 - 2^30 below zero, so that both are the floor of product / 2^31 + 1/2.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    # Only INT32_MIN * INT32_MIN exceeds 32 bits.
    return wrap_int32(np.minimum((product + (1 << 30)) >> 31, INT32_MAX))


def rounding_shift_right(x: ArrayLike, bits: ArrayLike) -> Int32Array:
    """x / 2^bits of int32, to nearest, ties away from zero; bits: [0, 31]. Shapes broadcast.

    Equal to gemmlowp's RoundingDivideByPOT.
    """
    x, bits = np.asarray(x, np.int64), np.asarray(bits, np.int64)
    half = (np.int64(1) << bits) >> 1
    away = (x >> 63) & np.minimum(bits, 1)  # a tie below zero goes down
    return wrap_int32((x + half - away) >> bits)


def requantize_single(acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike) -> Int64Array:
    """acc * multiplier * 2^(shift - 31), rounded once to nearest, ties upward.

    acc, multiplier: int32. shift: [-31, 30]. Shapes broadcast. The result is int64: with a large
        multiplier and a left shift it does not fit 32 bits, and the device clamps it as it is,
        without wrapping it first.

    Equal to TFLite's MultiplyByQuantizedMultiplier with TFLITE_SINGLE_ROUNDING.
    """
    shift = np.asarray(shift, np.int64)
    product = np.asarray(acc, np.int64) * np.asarray(multiplier, np.int64)
    return np.asarray((product + (np.int64(1) << (30 - shift))) >> (31 - shift), np.int64)


def requantize_float32(acc: ArrayLike, scale: ArrayLike) -> Int32Array:
    """acc * scale in float32, rounded half to even, saturated to int32; not a number gives 0.

    acc: int32, first rounded to float32 (half to even; sums below 2^24 are exact). scale: float32,
        subnormals count. Shapes broadcast.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.asarray(acc, np.int32).astype(np.float32) * np.asarray(scale, np.float32)
    rounded = np.rint(product).astype(np.float64)
    return np.where(np.isnan(rounded), 0, np.clip(rounded, INT32_MIN, INT32_MAX)).astype(np.int32)


def requantize_float64(acc: ArrayLike, scale: ArrayLike) -> Int32Array:
    """acc * scale in float64, rounded to nearest, ties away from zero, saturated to int32. No
    device mode. Shapes broadcast.

    Equal to FULLY_CONNECTED in LiteRT 2.3's reference kernels (within int32; those overflow to
    INT32_MIN).
    """
    product = np.asarray(acc, np.int32).astype(np.float64) * np.asarray(scale, np.float64)
    return np.clip(round_half_away(product), INT32_MIN, INT32_MAX).astype(np.int32)


def round_half_away(value: ArrayLike) -> Float64Array:
    """To the nearest integer, ties away from zero: C's round(), TFLite's rounding of floats.

    value: of any shape; the result has the same shape. float32 arguments are exact.
    """
    value = np.asarray(value, np.float64)
    magnitude = np.abs(value)
    whole = np.floor(magnitude)
    with np.errstate(invalid="ignore"):  # infinity stays infinity
        return np.asarray(np.copysign(whole + (magnitude - whole >= 0.5), value), np.float64)


# --------------------------------------------------------------------------------------------------
# The device's RQ instruction
# --------------------------------------------------------------------------------------------------


def requantize(
    acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, rounding: Rounding | int
) -> Int64Array:
    """The requantization inside RQ: one of the three roundings, its operands as they stand in the
    operand tiles.

    acc: int32, the bias already added. multiplier: int32 lanes, which FLOAT32 reads as float32
        (`scale_lane`). Shapes broadcast.
    shift: int32 lanes made by `shift_lane`; FLOAT32 ignores them. DOUBLE and SINGLE first shift acc
        left by the lane's pre-shift, wrapping to int32. The result is int64, neither clamped nor
        wrapped.
    """
    rounding = Rounding(rounding)
    if rounding is Rounding.FLOAT32:
        return requantize_float32(acc, _as_float32(multiplier)).astype(np.int64)
    signed_shift, pre_shift = unpack_shift_lane(shift)
    x = wrap_int32(np.asarray(acc, np.int64) << pre_shift.astype(np.int64))
    if rounding is Rounding.SINGLE:
        return requantize_single(x, multiplier, signed_shift)
    return requantize_double(x, multiplier, signed_shift).astype(np.int64)


def rq(  # noqa: PLR0913 (the operands of RQ)
    acc: ArrayLike,
    bias: ArrayLike,
    multiplier: ArrayLike,
    shift: ArrayLike,
    *,
    zero_point: int,
    low: int,
    high: int,
    rounding: Rounding | int,
) -> Int32Array:
    """The whole RQ instruction on lanes: clamp(requantize(acc + bias) + zero_point, low, high),
    int32.

    Shapes broadcast. acc + bias wraps to int32; zero_point is added in int64. With low > high the
    result is high.
    """
    total = wrap_int32(np.asarray(acc, np.int64) + np.asarray(bias, np.int64))
    shifted = requantize(total, multiplier, shift, rounding) + np.int64(zero_point)
    return np.asarray(np.minimum(np.maximum(shifted, low), high), np.int64).astype(np.int32)


def shift_lane(shift: ArrayLike, pre_shift: ArrayLike = 0) -> Int32Array:
    """Packs RQ's shift operand: the signed shift [-31, 30] in bits 0..7, the pre-shift [0, 31] in
    bits 8..12.

    Shapes broadcast. A plain negative int32 is no lane: its upper bits would read as a pre-shift of
    31.
    """
    shift, pre_shift = np.asarray(shift, np.int64), np.asarray(pre_shift, np.int64)
    if np.any((shift < SHIFT_MIN) | (shift > SHIFT_MAX)):
        raise AssertionError(f"shift outside [{SHIFT_MIN}, {SHIFT_MAX}]")
    if np.any((pre_shift < 0) | (pre_shift > MAX_PRE_SHIFT)):
        raise AssertionError(f"pre-shift outside [0, {MAX_PRE_SHIFT}]")
    return np.asarray((shift & 0xFF) | (pre_shift << 8), np.int64).astype(np.int32)


def unpack_shift_lane(lane: ArrayLike) -> tuple[Int32Array, Int32Array]:
    """(shift, pre_shift) of any int32 lane: bits 0..7 sign-extended and clamped to [-31, 30], bits
    8..12; others ignored. Both have the shape of lane."""
    lane = np.asarray(lane, np.int64)
    shift = np.clip(((lane & 0xFF) ^ 0x80) - 0x80, SHIFT_MIN, SHIFT_MAX)
    return shift.astype(np.int32), np.asarray((lane >> 8) & 0x1F, np.int64).astype(np.int32)


def scale_lane(scale: ArrayLike) -> Int32Array:
    """Packs a float32 scale into RQ's multiplier operand: the same 32 bits.

    Of any shape; the result has the same shape.
    """
    return np.ascontiguousarray(scale, np.float32).view(np.int32).reshape(np.shape(scale))


def _as_float32(lane: ArrayLike) -> Float32Array:
    return np.ascontiguousarray(lane, np.int32).view(np.float32).reshape(np.shape(lane))


# --------------------------------------------------------------------------------------------------
# From scales to multipliers
# --------------------------------------------------------------------------------------------------


def tflite_scale(
    input_scale: ArrayLike,
    weight_scale: ArrayLike,
    output_scale: ArrayLike,
    *,
    float32_product: bool = False,
) -> Float64Array:
    """input_scale * weight_scale / output_scale as TFLite's kernels compute it: float32 scales,
    float64 operations. Shapes broadcast.

    float32_product: the product is rounded to float32 before it is divided, as uint8 convolutions
        have it (GetQuantizedConvolutionMultipler multiplies two floats and converts what comes
        out).
    """
    s_in, s_w, s_out = (
        np.asarray(s, np.float32).astype(np.float64)
        for s in (input_scale, weight_scale, output_scale)
    )
    with np.errstate(over="ignore"):  # what overflows is infinite, and no multiplier
        product = (
            (s_in * s_w).astype(np.float32).astype(np.float64) if float32_product else s_in * s_w
        )
    return np.asarray(product / s_out, np.float64)


def onnx_scale(
    input_scale: ArrayLike, weight_scale: ArrayLike, output_scale: ArrayLike
) -> Float32Array:
    """(input_scale * weight_scale) / output_scale as ONNX Runtime computes it: every operation in
    float32. Shapes broadcast."""
    s_in, s_w, s_out = (
        np.asarray(s, np.float32) for s in (input_scale, weight_scale, output_scale)
    )
    return np.asarray(s_in * s_w / s_out, np.float32)


def quantize_multiplier(real: ArrayLike) -> tuple[Int32Array, Int32Array]:
    """(multiplier, shift) with real = multiplier * 2^(shift - 31), |multiplier| in [2^30, 2^31):
    TFLite's QuantizeMultiplier.

    real: finite float64; both results have the shape of real. The 31 bits are rounded to nearest,
        ties away from zero. Below 2^-32 (shift < -31) both become 0, at 2^30 and above (shift > 30)
        the largest multiplier stands.
    """
    real = np.asarray(real, np.float64)
    if not np.all(np.isfinite(real)):
        raise AssertionError("a scale that is not finite reached quantize_multiplier")
    fraction, exponent = np.frexp(real)
    magnitude = np.floor(np.abs(fraction) * 2.0**31 + 0.5).astype(np.int64)
    carry = magnitude == 1 << 31
    magnitude, shift = np.where(carry, 1 << 30, magnitude), exponent + carry

    too_small, too_large = shift < SHIFT_MIN, shift > SHIFT_MAX
    magnitude = np.where(too_small, 0, np.where(too_large, INT32_MAX, magnitude))
    shift = np.where(too_small, 0, np.minimum(shift, SHIFT_MAX))
    return (np.sign(real) * magnitude).astype(np.int32), shift.astype(np.int32)


def single_multiplier(
    scale: ArrayLike, zero_point: int = 0, low: int = -128, high: int = 127
) -> tuple[Int32Array, Int32Array, NDArray[np.bool_]]:
    """(multiplier, shift, exact): rounding SINGLE with these is `requantize_float64`, proven per
    channel where `exact`.

    SINGLE takes ties upward, float64 away from zero, and negative ties are common when scales are
    powers of two. A multiplier one larger takes both away from zero. The proof: both rules grow
    with acc, so they are the same function when they agree around every acc at which the clamped
    output changes. scale: float64, > 0.
    """
    scale = np.atleast_1d(np.asarray(scale, np.float64))
    nearest, shift = quantize_multiplier(scale)
    multiplier, exact = nearest.copy(), np.zeros(scale.shape, np.bool_)
    for step in (0, 1, -1, 2):
        candidate = np.minimum(nearest.astype(np.int64) + step, INT32_MAX).astype(np.int32)
        better = ~exact & _single_is_float64(
            candidate, shift, scale, low - zero_point, high - zero_point
        )
        multiplier, exact = np.where(better, candidate, multiplier).astype(np.int32), exact | better
    return multiplier, shift, exact


def _single_is_float64(
    multiplier: Int32Array, shift: Int32Array, scale: Float64Array, low: int, high: int
) -> NDArray[np.bool_]:
    """Whether both roundings, clamped to [low, high], agree on every int32, per channel."""
    levels = np.arange(low + 1, high + 1)[
        :, None
    ]  # the output reaches a level where acc * scale passes level - 1/2
    around = (
        np.ceil((levels - 0.5) / scale)[:, None] + np.arange(-2, 3)[:, None]
    )  # (level, 5 accumulators, channel)
    acc = np.clip(around, INT32_MIN, INT32_MAX).astype(np.int64)
    single = np.clip(requantize_single(acc, multiplier, shift), low, high)
    wanted = np.clip(requantize_float64(acc, scale), low, high)
    within = (wanted[:, 0] < levels) & (wanted[:, -1] >= levels)
    outside = (around[:, 0] < INT32_MIN) | (around[:, -1] > INT32_MAX)
    return np.asarray(np.all(single == wanted, (0, 1)) & np.all(within | outside, 0), np.bool_)
