# SPDX-License-Identifier: Apache-2.0
"""Operators of a QDQ model that move data: Concat, Resize.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization; Resize to the nearest keeps the input's.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import Int8Array, dequantize, quantize, requantize
from loadstone.numerics import Array, Float32Array

__all__ = ["between", "concatenate", "resize_bilinear", "resize_nearest_neighbor"]


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
        between(n, out, align_corners, half_pixel_centers)
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


def between(
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
