# SPDX-License-Identifier: Apache-2.0
"""Exact sums over windows: what convolutions, pools and dense layers of every framework share.

In:   integer activations (N, H, W, C) from which the zero point is already taken, integer weights
      (O, KH, KW, C / groups).
Out:  int32 accumulators (N, OH, OW, O), or views of the windows.
Next: tflite/ and onnx/ requantize them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from loadstone.numerics import Array, Int32Array, wrap_int32

__all__ = [
    "EVERY_POSITION",
    "INT8_LIMITS",
    "Geometry",
    "Weights",
    "convolve",
    "matmul",
    "windows",
]

#: (low, high) of an operator without a fused activation.
INT8_LIMITS = (-128, 127)


@dataclass(frozen=True)
class Geometry:
    """Where the windows of a convolution or a pool lie; a pool has neither dilation nor groups.

    strides, dilation: (height, width). padding: (top, left, bottom, right) in elements.
    """

    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1


EVERY_POSITION = Geometry()


@dataclass(frozen=True)
class Weights:
    """The constants of a convolution or a dense layer.

    values: int8, (O, KH, KW, C / groups) or (O, I). bias: int32 (O,), or one for all.
    scales, zero_points: (O,), or one for all; zero points are not 0 only in uint8 models.
    float32_product: how TFLite multiplies input and weight scale in those models.
    """

    values: Array
    bias: ArrayLike
    scales: ArrayLike
    zero_points: ArrayLike = 0
    float32_product: bool = False

    def centred(self) -> Array:
        """The values less their zero points, int64 in their shape."""
        by_output = (-1, *(1,) * (self.values.ndim - 1))
        centred: Array = self.values.astype(np.int64) - np.reshape(self.zero_points, by_output)
        return centred


def windows(
    x: Array,
    kernel: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    fill: float = 0,
) -> Array:
    """The taps of every output position: (N, OH, OW, C, KH, KW), a view of x (N, H, W, C) padded
    with `fill`.

    kernel, strides, dilation: (height, width). padding: (top, left, bottom, right) in elements.
    """
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    every = sliding_window_view(padded, reach, (1, 2))
    view: Array = every[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]
    return view


def convolve(
    x: Array,
    weights: Array,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Int32Array:
    """acc[n, y, x, o] = sum over taps and the channels of o's group of x * weights, wrapped to
    int32.

    x: integers (N, H, W, C), less their zero point; weights: (O, KH, KW, C / groups). Gives (N, OH,
        OW, O).
    Output channel o belongs to group o // (O / groups). Depthwise is groups = C; taps in the
    padding read 0.
    """
    out_channels, height, width, group_channels = weights.shape
    taps = windows(x, (height, width), strides, padding, dilation)
    n, oh, ow = taps.shape[:3]
    # float64 is exact up to 2^53 and has a fast matrix product; an accumulator stays far below.
    rows = taps.reshape(n * oh * ow, groups, group_channels * height * width).astype(np.float64)
    kernels = (
        weights.transpose(0, 3, 1, 2).reshape(groups, out_channels // groups, -1).astype(np.float64)
    )
    sums = np.matmul(
        rows.transpose(1, 0, 2), kernels.transpose(0, 2, 1)
    )  # (groups, positions, O / groups)
    return wrap_int32(sums.transpose(1, 0, 2).reshape(n, oh, ow, out_channels).astype(np.int64))


def matmul(x: ArrayLike, weights: ArrayLike) -> Int32Array:
    """x (..., M, I) times weights (..., I, O), wrapped to int32."""
    product = np.matmul(np.asarray(x, np.float64), np.asarray(weights, np.float64))
    return wrap_int32(product.astype(np.int64))
