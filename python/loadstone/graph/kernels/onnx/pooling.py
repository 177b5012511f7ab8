# SPDX-License-Identifier: Apache-2.0
"""Pools and means of a QDQ model, summed in ONNX Runtime's order.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; vta/operators/pool.py takes its constants from here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import (
    Int8Array,
    dequantize,
    quantize,
    requantize,
    requantized,
)
from loadstone.graph.kernels.windows import EVERY_POSITION, INT8_LIMITS, Geometry, windows
from loadstone.numerics import Float32Array, wrap_int32

__all__ = ["average_pool_2d", "global_average_pool", "max_pool_2d", "mean", "mean_scale"]


def average_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    geometry: Geometry = EVERY_POSITION,
    *,
    count_include_pad: bool = False,
) -> Int8Array:
    """AveragePool of x (N, H, W, C).

    With a horizontal stride of 1 or 2 each column of the window is summed from top to bottom, then
    the columns; beyond that, row after row. The order decides the last bit of a float32 sum, and
    with it ties, which are common where input and output have one scale. The integers' sum with
    rounding FLOAT32 and `mean_scale` differs by one there.
    """
    taps = windows(dequantize(x, q_in), kernel, geometry.strides, geometry.padding)
    inside = np.ones((1, *x.shape[1:3], 1), np.float32)
    count = windows(
        inside, kernel, geometry.strides, geometry.padding, fill=float(count_include_pad)
    ).sum((-2, -1))
    by_columns = geometry.strides[1] <= 2
    total = (
        _sum_in_order(_sum_in_order(taps, -2), -1)
        if by_columns
        else _sum_in_order(taps.reshape(*taps.shape[:4], -1), -1)
    )
    return quantize(total / count, q_out)


def global_average_pool(
    x: Int8Array, q_in: Quantization, q_out: Quantization, *, limits: tuple[int, int] = INT8_LIMITS
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
        (total / np.float32(height * width)).reshape(n, 1, 1, channels), q_out, limits=limits
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
    geometry: Geometry = EVERY_POSITION,
) -> Int8Array:
    """MaxPool of x (N, H, W, C): padded taps never win."""
    return requantize(
        windows(x, kernel, geometry.strides, geometry.padding, fill=-128).max((-2, -1)),
        q_in,
        q_out,
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
    return requantized(total, 0, mean_scale(count, q_in, q_out), q_out, INT8_LIMITS)
