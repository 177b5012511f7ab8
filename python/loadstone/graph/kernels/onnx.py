"""ONNX operators between DequantizeLinear and QuantizeLinear: what a QDQ model means, in float32.

In:   int8 activations, NHWC or any shape, with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: the compiler takes its constants from here, and its tests compare networks with these
      functions.

The functions have the names and arguments of tflite.py, so that a caller chooses the module by the
model's rounding. Measured against ONNX Runtime 1.31 (tests/graph/kernels/test_onnx.py), graph
optimisations off:

    operator                          equal to                           how it is computed
    conv_2d, fully_connected          QLinearConv, QLinearMatMul, QGemm  integers, FLOAT32
    add, sub, mul, requantize, clip,  DequantizeLinear, operator,        float32, in the
      leaky_relu, concatenate,          QuantizeLinear                   order written
      pools, resize
    mean                              QLinearGlobalAveragePool           integers, FLOAT32
    logistic, softmax                 the same trio, but 1 in a million  float64: MLAS has an
                                                                         exp of its own

A float Conv or MatMul between Dequantize and Quantize sums in an order that the processor decides:
no definition could be equal to it. Its integer kernel, which ONNX Runtime puts in its place when it
optimises, is the meaning.
QLinearAdd, QLinearMul and QLinearAveragePool add the zero point before they round: they differ from
the trio at ties, where the zero point is odd.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.windows import convolve, matmul, windows
from loadstone.numerics import Array, Float32Array, onnx_scale, requantize_float32, wrap_int32

__all__ = [
    "activation_range",
    "add",
    "average_pool_2d",
    "concatenate",
    "conv_2d",
    "dequantize",
    "fully_connected",
    "global_average_pool",
    "leaky_relu",
    "logistic",
    "max_pool_2d",
    "mean",
    "mean_scale",
    "mul",
    "quantize",
    "requantize",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "softmax",
    "sub",
]

Int8Array = NDArray[np.int8]


def quantize(x: ArrayLike, q_out: Quantization, *, low: int = -128, high: int = 127) -> Int8Array:
    """QuantizeLinear: round_half_to_even(x / scale) + zero point, saturated; float32. Domain: no
    NaN.

    x: float32 of any shape. The result has the same shape.
    """
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, np.float32) / np.float32(q_out.scale)
    levels: Int8Array = np.clip(
        np.rint(ratio).astype(np.float64) + q_out.zero_point, low, high
    ).astype(np.int8)
    return levels


def dequantize(x: Array, q_in: Quantization) -> Float32Array:
    """DequantizeLinear: (x - zero point) * scale in float32, rounded once, in the shape of x."""
    centred = np.asarray(x, np.int64) - q_in.zero_point
    return np.asarray(centred.astype(np.float32) * np.float32(q_in.scale), np.float32)


def activation_range(
    q_out: Quantization, low: float | None = None, high: float | None = None
) -> tuple[int, int]:
    """The integers that Relu (low=0) or Clip before QuantizeLinear clamps to: rounding keeps the
    order of numbers."""

    def quantized(real: float) -> int:
        return int(quantize(np.float32(real), q_out))

    return -128 if low is None else quantized(low), 127 if high is None else quantized(high)


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
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """Conv: x (N, H, W, C), weights (O, KH, KW, C / groups), bias (O,) int32 -> (N, OH, OW, O).

    weight_scales: (O,), or one for all. padding: (top, left, bottom, right); padded taps read the
        zero point.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1, 1, 1))
    centred = x.astype(np.int64) - q_in.zero_point
    sums = convolve(
        centred, kernels, strides=strides, padding=padding, dilation=dilation, groups=groups
    )
    return _requantized(
        sums, bias, onnx_scale(q_in.scale, weight_scales, q_out.scale), q_out, low, high
    )


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
    """MatMul and Gemm by constant weights, given as (O, I): x (..., I), bias (O,) int32 -> (...,
    O)."""
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1))
    sums = matmul(x.astype(np.int64) - q_in.zero_point, kernels.T)
    return _requantized(
        sums, bias, onnx_scale(q_in.scale, weight_scales, q_out.scale), q_out, low, high
    )


def _requantized(
    sums: NDArray[np.int32],
    bias: ArrayLike,
    scale: ArrayLike,
    q_out: Quantization,
    low: int,
    high: int,
) -> Int8Array:
    acc = wrap_int32(sums.astype(np.int64) + np.asarray(bias, np.int64))
    return np.clip(
        requantize_float32(acc, scale).astype(np.int64) + q_out.zero_point, low, high
    ).astype(np.int8)


# --------------------------------------------------------------------------------------------------
# Operators on elements
# --------------------------------------------------------------------------------------------------


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
    """Add: shapes broadcast."""
    return quantize(dequantize(a, q_a) + dequantize(b, q_b), q_out, low=low, high=high)


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
    """Sub: shapes broadcast."""
    return quantize(dequantize(a, q_a) - dequantize(b, q_b), q_out, low=low, high=high)


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
    """Mul: shapes broadcast."""
    return quantize(dequantize(a, q_a) * dequantize(b, q_b), q_out, low=low, high=high)


def requantize(
    x: Array, q_in: Quantization, q_out: Quantization, *, low: int = -128, high: int = 127
) -> Int8Array:
    """DequantizeLinear, QuantizeLinear: also around Relu and Clip, with their
    `activation_range`.

    Elementwise: the result has the shape of x. Rounded half to even in float32, clamped to [low,
    high].
    """
    return quantize(dequantize(x, q_in), q_out, low=low, high=high)


def leaky_relu(x: Int8Array, q_in: Quantization, q_out: Quantization, alpha: float) -> Int8Array:
    """LeakyRelu: negative values times alpha.

    Elementwise: the result has the shape of x.
    """
    real = dequantize(x, q_in)
    return quantize(np.where(real >= 0, real, real * np.float32(alpha)), q_out)


def logistic(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """Sigmoid: 1 / (1 + exp(-x)).

    Elementwise: the result has the shape of x.
    """
    with np.errstate(over="ignore"):
        return quantize(
            (1 / (1 + np.exp(-dequantize(x, q_in).astype(np.float64)))).astype(np.float32), q_out
        )


def softmax(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """Softmax over the last axis.

    x: (..., classes); the result has the same shape.
    """
    real = dequantize(x, q_in).astype(np.float64)
    power = np.exp(real - real.max(-1, keepdims=True))
    return quantize((power / power.sum(-1, keepdims=True)).astype(np.float32), q_out)


# --------------------------------------------------------------------------------------------------
# Pooling and reduction
# --------------------------------------------------------------------------------------------------


def average_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    count_include_pad: bool = False,
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """AveragePool of x (N, H, W, C).

    With a horizontal stride of 1 or 2 each column of the window is summed from top to bottom, then
    the columns; beyond that, row after row. The order decides the last bit of a float32 sum, and
    with it ties, which are common where input and output have one scale. The integers' sum with
    rounding FLOAT32 and `mean_scale` differs by one there.
    """
    taps = windows(dequantize(x, q_in), kernel, strides, padding)
    inside = np.ones((1, *x.shape[1:3], 1), np.float32)
    count = windows(inside, kernel, strides, padding, fill=float(count_include_pad)).sum((-2, -1))
    by_columns = strides[1] <= 2
    total = (
        _sum_in_order(_sum_in_order(taps, -2), -1)
        if by_columns
        else _sum_in_order(taps.reshape(*taps.shape[:4], -1), -1)
    )
    return quantize(total / count, q_out, low=low, high=high)


def global_average_pool(
    x: Int8Array, q_in: Quantization, q_out: Quantization, *, low: int = -128, high: int = 127
) -> Int8Array:
    """GlobalAveragePool of x (N, H, W, C) -> (N, 1, 1, C): four interleaved sums over the flat
    plane, then the rest."""
    n, height, width, channels = x.shape
    flat = dequantize(x, q_in).reshape(n, height * width, channels)
    whole = height * width // 4 * 4
    lanes = _sum_in_order(flat[:, :whole].reshape(n, -1, 4, channels), 1)
    total = (lanes[:, 0] + lanes[:, 2]) + (lanes[:, 1] + lanes[:, 3])
    total = _sum_in_order(np.concatenate([total[:, None], flat[:, whole:]], 1), 1)
    return quantize(
        (total / np.float32(height * width)).reshape(n, 1, 1, channels), q_out, low=low, high=high
    )


def _sum_in_order(values: Float32Array, axis: int) -> Float32Array:
    """One addition after the other; NumPy's own sum pairs the terms."""
    total = np.zeros_like(values.take(0, axis) if values.shape[axis] else values.sum(axis))
    for term in np.moveaxis(values, axis, 0):
        total = total + term
    return total


def max_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """MaxPool of x (N, H, W, C): padded taps never win."""
    return requantize(
        windows(x, kernel, strides, padding, fill=-128).max((-2, -1)),
        q_in,
        q_out,
        low=low,
        high=high,
    )


def mean_scale(count: int, q_in: Quantization, q_out: Quantization) -> float:
    """The scale with which a sum of `count` integers becomes their mean: s_in / (count * s_out), in
    float32."""
    return float(np.float32(q_in.scale) / (np.float32(count) * np.float32(q_out.scale)))


def mean(
    x: Int8Array,
    axes: Sequence[int],
    q_in: Quantization,
    q_out: Quantization,
    *,
    keep_dims: bool = False,
) -> Int8Array:
    """The mean as integer kernels compute it, for any axes: the sum of x - zero point, rounded
    FLOAT32.

    x: of any shape; the axes go, or stay with length 1 with keep_dims.

    QLinearGlobalAveragePool exactly. GlobalAveragePool and ReduceMean between Dequantize and
    Quantize sum in float32: at ties they differ by one.
    """
    count = int(np.prod([x.shape[axis] for axis in axes]))
    total = wrap_int32((x.astype(np.int64) - q_in.zero_point).sum(tuple(axes), keepdims=keep_dims))
    return _requantized(total, 0, mean_scale(count, q_in, q_out), q_out, -128, 127)


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
    """Concat: each input requantized to the output's quantization.

    inputs: of any shape, equal but for `axis`, along which their lengths add up.
    """
    return np.concatenate(
        [requantize(x, q, q_out) for x, q in zip(inputs, q_inputs, strict=True)], axis
    )


def resize_nearest_neighbor(
    x: Int8Array,
    size: tuple[int, int],
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Int8Array:
    """Resize, mode nearest, of x (N, H, W, C) to `size` (height, width), in its own quantization.

    Neither flag is `asymmetric` with nearest_mode floor; half_pixel and align_corners go with
    round_prefer_ceil.
    TFLite's operator multiplies where this one divides: at a few sizes (14 -> 4) they take
    different samples.
    """
    rows, columns = (
        _nearest(n, out, align_corners, half_pixel_centers)
        for n, out in zip(x.shape[1:3], size, strict=True)
    )
    return x[:, rows][:, :, columns]


def resize_bilinear(
    x: Int8Array,
    size: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Int8Array:
    """Resize, mode linear, of x (N, H, W, C) to `size` (height, width); neither flag is
    `asymmetric`."""
    (top, bottom, up, down), (left, right, before, after) = (
        _between(n, out, align_corners, half_pixel_centers)
        for n, out in zip(x.shape[1:3], size, strict=True)
    )
    real = dequantize(x, q_in)
    up, down, before, after = (
        up[:, None, None],
        down[:, None, None],
        before[:, None],
        after[:, None],
    )
    total = before * up * real[:, top][:, :, left] + after * up * real[:, top][:, :, right]
    total = total + before * down * real[:, bottom][:, :, left]
    return quantize(total + after * down * real[:, bottom][:, :, right], q_out)


def _position(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Float32Array:
    """Where each output index lies among the input's, in float32."""
    index, ratio = np.arange(out, dtype=np.float32), np.float32(out) / np.float32(size)
    if out == size:
        return index
    if align_corners:
        return index * np.float32(size - 1) / np.float32(max(out - 1, 1))
    offset = np.float32(0.5 if half_pixel_centers else 0)
    return (index + offset) / ratio - offset


def _nearest(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> NDArray[np.int64]:
    """Input index of each output index: floor, or half up with the tolerance of 1e-6 that ONNX
    Runtime gives a half."""
    half = 0.5 + 1e-6 if align_corners or half_pixel_centers else 0.0
    position = _position(size, out, align_corners, half_pixel_centers).astype(np.float64)
    return np.clip(np.floor(position + half), 0, size - 1).astype(np.int64)


def _between(
    size: int, out: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Array, ...]:
    """(lower index, upper index, weight of the lower, weight of the upper) of each output index;
    two halves at the edge."""
    position = np.clip(
        _position(size, out, align_corners, half_pixel_centers), np.float32(0), np.float32(size - 1)
    )
    lower = position.astype(np.int64)
    upper = np.minimum(lower + 1, size - 1)
    half = np.float32(0.5)
    to_lower = np.where(lower == upper, half, np.abs(position - lower.astype(np.float32)))
    to_upper = np.where(lower == upper, half, np.abs(position - upper.astype(np.float32)))
    return lower, upper, to_upper, to_lower
