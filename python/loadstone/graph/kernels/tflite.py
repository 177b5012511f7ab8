"""TFLite's integer operators, equal bit for bit to the reference kernels of LiteRT 2.3
(BUILTIN_REF).

In:   int8 activations, NHWC or any shape, with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: the compiler takes its constants from here, and its tests compare networks with these
      functions.

Every function was measured against LiteRT on single-operator models
(tests/graph/kernels/test_tflite.py).

    operator                              scale is computed in      rounding
    CONV_2D, DEPTHWISE_CONV_2D            float64 (uint8: float32   DOUBLE
                                          product of input, weight)
    FULLY_CONNECTED                       float64                   half away from zero on float64;
                                          nearly SINGLE
    ADD, SUB                              float64 of float32        DOUBLE, three times, inputs
                                          shifted left by 20
    MUL                                   float32                   DOUBLE
    LEAKY_RELU                            float32                   DOUBLE
    RELU*, QUANTIZE (integer to integer)  float64                   DOUBLE
    MEAN                                  float64, over the count   DOUBLE
    AVERAGE_POOL_2D                       none                      half away from zero
    RESIZE_BILINEAR                       10 fractional bits        half away from zero
    QUANTIZE (float32 to integer)         float32                   half away from zero
    SOFTMAX                               31 fractional bits        DOUBLE (fixed_point.py)
    LOGISTIC                              float32                   half away from zero
    HARD_SWISH                            float32, 15 bits          16-bit fixed point
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels import fixed_point
from loadstone.graph.kernels.windows import convolve, matmul, windows
from loadstone.numerics import (
    INT32_MAX,
    INT32_MIN,
    Array,
    high_multiply,
    quantize_multiplier,
    requantize_double,
    requantize_float64,
    round_half_away,
    rounding_shift_right,
    tflite_scale,
    wrap_int32,
)

__all__ = [
    "ADD_PRE_SHIFT",
    "AddConstants",
    "activation_range",
    "add",
    "add_constants",
    "average_pool_2d",
    "bilinear_taps",
    "bilinear_taps_uint8",
    "concatenate",
    "conv_2d",
    "dequantize",
    "fully_connected",
    "hard_swish",
    "leaky_relu",
    "logistic",
    "max_pool_2d",
    "mean",
    "mean_multiplier",
    "mul",
    "mul_scale",
    "pad",
    "quantize",
    "requantize",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "softmax",
    "sub",
]

Int8Array = NDArray[np.int8]

#: ADD and SUB shift their inputs left by so many bits before they requantize them.
ADD_PRE_SHIFT = 20


def _finish(value: ArrayLike, zero_point: int, low: int = -128, high: int = 127) -> Int8Array:
    """Adds the zero point and clamps to the activation's range."""
    return np.clip(np.asarray(value, np.int64) + zero_point, low, high).astype(np.int8)


def _centred(x: ArrayLike, quantization: Quantization) -> NDArray[np.int64]:
    """x - zero point."""
    return np.asarray(x, np.int64) - quantization.zero_point


def activation_range(
    q_out: Quantization, low: float | None = None, high: float | None = None
) -> tuple[int, int]:
    """The integers that a fused activation clamps to: RELU is low=0, RELU6 low=0 high=6,
    RELU_N1_TO_1 low=-1 high=1."""

    def quantized(real: float) -> int:
        return q_out.zero_point + int(round_half_away(np.float32(real) / np.float32(q_out.scale)))

    return max(-128, -128 if low is None else quantized(low)), min(
        127, 127 if high is None else quantized(high)
    )


# --------------------------------------------------------------------------------------------------
# Operators that multiply and accumulate
# --------------------------------------------------------------------------------------------------


def conv_2d(
    x: Int8Array,
    weights: Int8Array,
    bias: ArrayLike,
    q_in: Quantization,
    weight_scales: ArrayLike,
    q_out: Quantization,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    weight_zero_points: ArrayLike = 0,
    float32_product: bool = False,
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """CONV_2D, and DEPTHWISE_CONV_2D with groups = C: x (N, H, W, C), weights (O, KH, KW, C /
    groups) -> (N, OH, OW, O).

    weight_scales: (O,), or one for all. padding: (top, left, bottom, right); padded taps read the
        zero point.
    weight_zero_points: not 0 only in uint8 models. float32_product: how those multiply input and
        weight scale.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1, 1, 1))
    sums = convolve(
        _centred(x, q_in),
        kernels,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    acc = wrap_int32(sums.astype(np.int64) + np.asarray(bias, np.int64))
    scale = tflite_scale(q_in.scale, weight_scales, q_out.scale, float32_product=float32_product)
    multiplier, shift = quantize_multiplier(scale)
    return _finish(requantize_double(acc, multiplier, shift), q_out.zero_point, low, high)


def fully_connected(
    x: Int8Array,
    weights: Int8Array,
    bias: ArrayLike,
    q_in: Quantization,
    weight_scales: ArrayLike,
    q_out: Quantization,
    *,
    weight_zero_points: ArrayLike = 0,
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """FULLY_CONNECTED: x (..., I), weights (O, I) -> (..., O). weight_scales: (O,), or one for all.

    LiteRT 2.3 multiplies in float64 here and has no fixed point at all:
    `numerics.single_multiplier` finds the device's constants that do the same. Other versions
    differ: TFLite Micro rounds DOUBLE.
    Exact while |acc * scale| < 2^31.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1))
    acc = wrap_int32(
        matmul(_centred(x, q_in), kernels.T).astype(np.int64) + np.asarray(bias, np.int64)
    )
    scale = tflite_scale(q_in.scale, weight_scales, q_out.scale)
    return _finish(requantize_float64(acc, scale), q_out.zero_point, low, high)


# --------------------------------------------------------------------------------------------------
# Operators on elements
# --------------------------------------------------------------------------------------------------


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
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """ADD: shapes broadcast."""
    return _add(a, b, 1, q_a, q_b, q_out, low, high)


def sub(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """SUB: as ADD, with the second input's requantized value taken away.

    a, b: shapes broadcast.
    """
    return _add(a, b, -1, q_a, q_b, q_out, low, high)


def _add(
    a: Int8Array,
    b: Int8Array,
    sign: int,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    low: int,
    high: int,
) -> Int8Array:
    constants = add_constants(q_a, q_b, q_out)
    first = requantize_double(_centred(a, q_a) << ADD_PRE_SHIFT, *constants.first)
    second = requantize_double(_centred(b, q_b) << ADD_PRE_SHIFT, *constants.second)
    total = first.astype(np.int64) + sign * second.astype(np.int64)
    return _finish(requantize_double(total, *constants.output), q_out.zero_point, low, high)


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
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """MUL: shapes broadcast."""
    product = _centred(a, q_a) * _centred(b, q_b)
    return _finish(
        requantize_double(product, *quantize_multiplier(mul_scale(q_a, q_b, q_out))),
        q_out.zero_point,
        low,
        high,
    )


def requantize(
    x: Array, q_in: Quantization, q_out: Quantization, *, low: int = -128, high: int = 127
) -> Int8Array:
    """QUANTIZE of integers, RELU and its kin with their `activation_range`: the same real values in
    other integers.

    Elementwise: the result has the shape of x. Rounding DOUBLE, clamped to [low, high].
    """
    scale = np.float64(q_in.scale) / np.float64(q_out.scale)
    return _finish(
        requantize_double(_centred(x, q_in), *quantize_multiplier(scale)),
        q_out.zero_point,
        low,
        high,
    )


def leaky_relu(x: Int8Array, q_in: Quantization, q_out: Quantization, alpha: float) -> Int8Array:
    """LEAKY_RELU: negative values times alpha.

    Elementwise: the result has the shape of x. Rounding DOUBLE on both sides of zero.
    """
    centred = _centred(x, q_in)
    ratio = np.float32(q_in.scale) / np.float32(q_out.scale)
    slope = np.float32(q_in.scale) * np.float32(alpha) / np.float32(q_out.scale)
    positive = requantize_double(centred, *quantize_multiplier(ratio))
    negative = requantize_double(centred, *quantize_multiplier(slope))
    return _finish(np.where(centred >= 0, positive, negative), q_out.zero_point)


def quantize(x: ArrayLike, q_out: Quantization) -> Int8Array:
    """QUANTIZE of float32: round(x / scale) + zero point. Domain: |x / scale| < 2^31, beyond LiteRT
    gives -128 for large x.

    x: of any shape; the result has the same shape. Ties go away from zero.
    """
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, np.float32) / np.float32(q_out.scale)
    return _finish(np.clip(round_half_away(ratio), INT32_MIN, INT32_MAX), q_out.zero_point)


def dequantize(x: Array, q_in: Quantization) -> NDArray[np.float32]:
    """DEQUANTIZE: scale * (x - zero point) in float32, rounded once, in the shape of x."""
    return np.asarray(np.float32(q_in.scale) * _centred(x, q_in).astype(np.float32), np.float32)


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
    smallest = -_input_radius(integer_bits, int(shift))
    below = np.asarray(x, np.int64)
    below = below - below.max(-1, keepdims=True)
    seen = below >= smallest
    scaled = requantize_double(np.where(seen, below, 0), multiplier, shift)
    powers = fixed_point.exp_of_negative(scaled, integer_bits)
    total = np.where(seen, rounding_shift_right(powers, sum_bits), 0).sum(-1, keepdims=True)
    inverse, over_unit = fixed_point.reciprocal(total, sum_bits)
    probability = rounding_shift_right(high_multiply(inverse, powers), over_unit + 31 - 8)
    return _finish(np.where(seen, probability, 0), -128)


def logistic(x: Int8Array, q_in: Quantization) -> Int8Array:
    """LOGISTIC: 1 / (1 + exp(-x)); the output's scale is 1/256 and its zero point -128.

    Elementwise: the result has the shape of x. LiteRT fills a table in float32. Its expf rounds
    correctly, NumPy's does not: so exp is float64, rounded.
    """
    with np.errstate(over="ignore"):
        power = np.exp(-dequantize(x, q_in).astype(np.float64)).astype(np.float32)
    value = np.float32(1) / (np.float32(1) + power)
    return _finish(round_half_away(value * np.float32(256)), -128)


def hard_swish(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """HARD_SWISH: x * min(max(x + 3, 0), 6) / 6, in 16-bit fixed point.

    Domain: q_in.scale < 128 * q_out.scale (LiteRT refuses more).
    """
    fine = np.float32(1 / 128) * np.float32(q_in.scale)  # the scale of (x - zero point) * 2^7
    out_multiplier, out_shift = _multiplier16(fine / np.float32(q_out.scale))
    multiplier, shift = _multiplier16(fine / (np.float32(3) / np.float32(32768)))
    hires = _centred(x, q_in) << 7
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
    return _finish(rounding_shift_right(product, -out_shift), q_out.zero_point)


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


def _input_radius(integer_bits: int, shift: int) -> int:
    """The largest input that does not overflow Q<integer_bits> after a left shift: TFLite's
    CalculateInputRadius."""
    return int(((1 << integer_bits) - 1) * 2.0 ** (31 - integer_bits) / 2.0**shift)


# --------------------------------------------------------------------------------------------------
# Pooling and reduction
# --------------------------------------------------------------------------------------------------


def average_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    low: int = -128,
    high: int = 127,
    unsigned: bool = False,
) -> Int8Array:
    """AVERAGE_POOL_2D of x (N, H, W, C), in its own quantization: padded taps are left out of sum
    and count.

    The integers are averaged, zero point and all: half away from zero of the integer, not of the
    real value.
    unsigned: a uint8 model, where that integer is x + 128: half up.
    """
    offset = 128 if unsigned else 0
    count = windows(np.ones((1, *x.shape[1:3], 1), np.int64), kernel, strides, padding).sum(
        (-2, -1)
    )
    total = windows(x.astype(np.int64), kernel, strides, padding).sum((-2, -1)) + offset * count
    magnitude = (np.abs(total) + count // 2) // count
    return _finish(np.sign(total) * magnitude, -offset, low, high)


def max_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """MAX_POOL_2D of x (N, H, W, C), in its own quantization: padded taps never win."""
    return _finish(windows(x, kernel, strides, padding, fill=-128).max((-2, -1)), 0, low, high)


def mean_multiplier(count: int, q_in: Quantization, q_out: Quantization) -> tuple[int, int]:
    """(multiplier, shift) of MEAN: the ratio of the scales, divided by the count in integers,
    truncating."""
    multiplier, shift = (
        int(v) for v in quantize_multiplier(np.float64(q_in.scale) / np.float64(q_out.scale))
    )
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


def mean(
    x: Int8Array,
    axes: Sequence[int],
    q_in: Quantization,
    q_out: Quantization,
    *,
    keep_dims: bool = False,
) -> Int8Array:
    """MEAN over `axes`: the sum of x - zero point, requantized once.

    x: of any shape; the axes go, or stay with length 1 with keep_dims. Rounding DOUBLE.
    """
    count = int(np.prod([x.shape[axis] for axis in axes]))
    total = _centred(x, q_in).sum(tuple(axes), keepdims=keep_dims)
    return _finish(requantize_double(total, *mean_multiplier(count, q_in, q_out)), q_out.zero_point)


# --------------------------------------------------------------------------------------------------
# Operators that move data
# --------------------------------------------------------------------------------------------------


def concatenate(
    inputs: Sequence[Int8Array],
    q_inputs: Sequence[Quantization],
    q_out: Quantization,
    *,
    axis: int = -1,
) -> Int8Array:
    """CONCATENATION. int8 models have one quantization for all, and bytes move.

    uint8 models may differ: those inputs are rescaled in float32 on the uint8 values, and this
    function does the same after it has shifted its int8 arguments back by 128.

    inputs: of any shape, equal but for `axis`, along which their lengths add up.
    """
    return np.concatenate(
        [_rescale_uint8(x, q, q_out) for x, q in zip(inputs, q_inputs, strict=True)], axis
    )


def _rescale_uint8(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    if q_in == q_out:
        return x
    scale = np.float32(q_in.scale) * (np.float32(1) / np.float32(q_out.scale))
    bias = np.float32(-(q_in.zero_point + 128)) * scale
    value = (x.astype(np.int32) + 128).astype(np.float32) * scale + bias
    return _finish(round_half_away(value), q_out.zero_point)


def pad(x: Int8Array, before: Sequence[int], after: Sequence[int], value: int) -> Int8Array:
    """PAD with value = the zero point, PADV2 with any: integers around each axis.

    x: of any shape; before, after: elements, one number for each axis.
    """
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=value)


def resize_nearest_neighbor(
    x: Int8Array,
    size: tuple[int, int],
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Int8Array:
    """RESIZE_NEAREST_NEIGHBOR of x (N, H, W, C) to `size` (height, width)."""
    rows, columns = (
        _nearest(n, out, align_corners, half_pixel_centers)
        for n, out in zip(x.shape[1:3], size, strict=True)
    )
    return x[:, rows][:, :, columns]


def _nearest(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> NDArray[np.int64]:
    """Input index of each output index, in float32; align_corners rounds half away from zero, else
    floor."""
    stretched = align_corners and out > 1
    scale = (
        np.float32(size - 1) / np.float32(out - 1)
        if stretched
        else np.float32(size) / np.float32(out)
    )
    offset = np.float32(0.5 if half_pixel_centers else 0)
    position = (np.arange(out, dtype=np.float32) + offset) * scale
    index = round_half_away(position) if align_corners else np.floor(position)
    return np.clip(index, 0, size - 1).astype(np.int64)


def resize_bilinear(
    x: Int8Array,
    size: tuple[int, int],
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    unsigned: bool = False,
) -> Int8Array:
    """RESIZE_BILINEAR of x (N, H, W, C) to `size` (height, width): positions and weights with 10
    fractional bits.

    unsigned: a uint8 model, whose kernel works on x + 128 in float32 and rounds half up.
    """
    if unsigned:
        return _resize_bilinear_uint8(x, size, align_corners, half_pixel_centers)
    (top, bottom, y), (left, right, xs) = (
        bilinear_taps(n, out, align_corners, half_pixel_centers)
        for n, out in zip(x.shape[1:3], size, strict=True)
    )
    wide, one = x.astype(np.int64), 1 << 10
    down, across = y[None, :, None, None], xs[None, None, :, None]
    upper = wide[:, top][:, :, left] * (one - across) + wide[:, top][:, :, right] * across
    lower = wide[:, bottom][:, :, left] * (one - across) + wide[:, bottom][:, :, right] * across
    total = upper * (one - down) + lower * down
    return _finish(np.sign(total) * ((np.abs(total) + (1 << 19)) >> 20), 0)


def _resize_bilinear_uint8(
    x: Int8Array, size: tuple[int, int], align_corners: bool, half_pixel_centers: bool
) -> Int8Array:
    (top, bottom, y), (left, right, xs) = (
        bilinear_taps_uint8(n, out, align_corners, half_pixel_centers)
        for n, out in zip(x.shape[1:3], size, strict=True)
    )
    wide, one = (x.astype(np.int16) + 128).astype(np.float32), np.float32(1)
    down, across = y[None, :, None, None], xs[None, None, :, None]
    total = wide[:, top][:, :, left] * (one - down) * (one - across)
    total += wide[:, bottom][:, :, left] * down * (one - across)
    total += wide[:, top][:, :, right] * (one - down) * across
    total += wide[:, bottom][:, :, right] * down * across
    return _finish(np.trunc(total + np.float32(0.5)), -128)


def bilinear_taps_uint8(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, ...]:
    """(lower index, upper index, float32 weight of the upper) of each output index."""
    stretched = align_corners and out > 1
    scale = (
        np.float32(size - 1) / np.float32(out - 1)
        if stretched
        else np.float32(size) / np.float32(out)
    )
    offset = np.float32(0.5 if half_pixel_centers else 0)
    position = (np.arange(out, dtype=np.float32) + offset) * scale - offset
    lower = np.maximum(np.floor(position).astype(np.int64), 0)
    upper = np.minimum(np.ceil(position).astype(np.int64), size - 1)
    return lower, upper, position - lower.astype(np.float32)


def bilinear_taps(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[NDArray[np.int64], ...]:
    """(lower index, upper index, weight of the upper in 1/1024) of each output index."""
    ratio = ((size << 10) + out // 2) // out
    if align_corners and out > 1:
        ratio = (((size - 1) << 10) + (out - 1) // 2) // (out - 1)
    position = np.arange(out, dtype=np.int64) * ratio
    if half_pixel_centers:
        position += ratio // 2 - (1 << 9)
    lower = np.maximum(position >> 10, 0)
    upper = np.minimum((position + (1 << 10) - 1) >> 10, size - 1)
    return lower, upper, position - (lower << 10)
