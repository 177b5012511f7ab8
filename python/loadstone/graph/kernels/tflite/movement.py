# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that move data: CONCATENATION, PAD, RESIZE.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization; RESIZE keeps the input's.
Next: __init__.py gives them to callers; vta/operators/bilinear.py takes its weights from here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.tflite.levels import Int8Array, finish
from loadstone.numerics import Array, round_half_away

__all__ = [
    "bilinear_taps",
    "bilinear_taps_uint8",
    "concatenate",
    "pad",
    "resize_bilinear",
    "resize_nearest_neighbor",
]


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
    return finish(round_half_away(value), q_out.zero_point)


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
    return finish(np.sign(total) * ((np.abs(total) + (1 << 19)) >> 20), 0)


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
    return finish(np.trunc(total + np.float32(0.5)), -128)


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
