# SPDX-License-Identifier: Apache-2.0
"""What operators on real numbers compute, bit for bit as a device of bfloat16 does.

In:   an operator of graph/real.py; its inputs as float32; the lanes of the device's blocks.
Out:  its output: float32 that are numbers of bfloat16.
Next: graph/reference.py; tests hold devices against it.

All arithmetic is float32, each operation rounded by itself. Inputs are rounded to bfloat16 first,
the result last. A weighted sum goes

    from +0 over blocks of `block` input channels, rows of the kernel, columns, channels in a block

however the device tiles it; then the bias is added, then come the clamps. A mean is the sum of the
taps in the order of rows and columns, times the float32 nearest to 1 / count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.bfloat16 import rounded
from loadstone.graph.real import (
    RealBinary,
    RealClamp,
    RealConv2D,
    RealDense,
    RealMatMul,
    RealMean,
    RealPool2D,
    RealWeighted,
)

__all__ = ["binary", "clamp", "conv2d", "dense", "matmul", "mean", "pool2d", "tap_counts"]

Floats: TypeAlias = NDArray[np.float32]

_FUNCTIONS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x + y * np.float32(-1),
    "mul": lambda x, y: x * y,
}


def conv2d(o: RealConv2D, x: Floats, block: int) -> Floats:
    """x (N, H, W, C). Returns (N, H', W', O)."""
    n, height, width, _ = o.output.shape
    channels, per_group = x.shape[3], o.weights.shape[3]
    outputs = o.weights.shape[0] // o.groups
    padded = _padded(rounded(x), o.padding, 0.0)
    acc = np.zeros((n, height, width, o.weights.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for first in range(0, channels, block):
            for ky, kx in np.ndindex(*o.weights.shape[1:3]):
                rows = slice(ky * o.dilation[0], None, o.strides[0])
                columns = slice(kx * o.dilation[1], None, o.strides[1])
                pixels = padded[:, rows, columns][:, :height, :width]
                for channel in range(first, min(first + block, channels)):
                    group, within = divmod(channel, per_group)
                    own = slice(group * outputs, (group + 1) * outputs)
                    product = pixels[..., channel, None] * o.weights[own, ky, kx, within]
                    acc[..., own] = acc[..., own] + product
    return _finished(o, acc)


def dense(o: RealDense, x: Floats) -> Floats:
    """x (M, I). Returns (M, O)."""
    near = rounded(x)
    acc = np.zeros(o.output.shape, np.float32)
    with np.errstate(all="ignore"):
        for k in range(x.shape[1]):
            acc = acc + near[:, k, None] * o.weights[:, k]
    return _finished(o, acc)


def matmul(o: RealMatMul, x: Floats, y: Floats) -> Floats:
    """x (..., M, K), y (..., N, K). Returns (..., M, N)."""
    first, second = rounded(x), rounded(y)
    acc = np.zeros(o.output.shape, np.float32)
    with np.errstate(all="ignore"):
        for k in range(x.shape[-1]):
            acc = acc + first[..., :, k, None] * second[..., None, :, k]
        return rounded(_clamped(acc, o.low, o.high))


def binary(o: RealBinary, x: Floats, y: Floats) -> Floats:
    """Inputs of shapes that broadcast."""
    with np.errstate(all="ignore"):
        joined = _FUNCTIONS[o.function](rounded(x), rounded(y))
    return rounded(_clamped(joined, o.low, o.high))


def clamp(o: RealClamp, x: Floats) -> Floats:
    """Of any shape."""
    return rounded(_clamped(rounded(x), o.low, o.high))


def pool2d(o: RealPool2D, x: Floats) -> Floats:
    """x (N, H, W, C). Returns (N, H', W', C)."""
    height, width = o.output.shape[1:3]
    largest = o.function == "max"
    padded = _padded(rounded(x), o.padding, -np.inf if largest else 0.0)
    acc = np.full(o.output.shape, -np.inf if largest else 0.0, np.float32)
    with np.errstate(all="ignore"):
        for ky, kx in np.ndindex(*o.kernel):
            pixels = padded[:, ky :: o.strides[0], kx :: o.strides[1]][:, :height, :width]
            acc = np.maximum(acc, pixels) if largest else acc + pixels
        if not largest:
            acc = acc * (np.float32(1) / tap_counts(o)[None, :, :, None].astype(np.float32))
    return rounded(acc)


def mean(o: RealMean, x: Floats) -> Floats:
    """x of any shape; over axes that follow each other. Returns the shape of the output."""
    before, behind = x.shape[: o.axes[0]], x.shape[o.axes[-1] + 1 :]
    count = prod(x.shape[axis] for axis in o.axes)
    parts = rounded(x).reshape(*before, count, *behind)
    acc = np.zeros((*before, *behind), np.float32)
    with np.errstate(all="ignore"):
        for part in np.moveaxis(parts, len(before), 0):
            acc = acc + part
        acc = acc * (np.float32(1) / np.float32(count))
    return rounded(acc).reshape(o.output.shape)


def tap_counts(o: RealPool2D) -> NDArray[np.int64]:
    """Taps that a mean divides by, of shape (height, width) of the output."""
    if o.count_include_pad:
        return np.full(o.output.shape[1:3], prod(o.kernel), np.int64)
    inside = []
    for axis in (0, 1):
        begin = np.arange(o.output.shape[1 + axis]) * o.strides[axis] - o.padding[axis]
        end = np.minimum(begin + o.kernel[axis], o.input.shape[1 + axis])
        inside.append(end - np.maximum(begin, 0))
    return np.asarray(inside[0][:, None] * inside[1], np.int64)


def _padded(x: Floats, padding: tuple[int, int, int, int], value: float) -> Floats:
    top, left, bottom, right = padding
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _finished(o: RealWeighted, acc: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return rounded(_clamped(acc + o.bias if o.bias.any() else acc, o.low, o.high))


def _clamped(x: Floats, low: float, high: float) -> Floats:
    """By the nearest bfloat16 of each bound, which gives what the bound itself would once the
    result is rounded."""
    lowest, highest = rounded(np.float32(low)), rounded(np.float32(high))
    if low > -np.inf:
        x = np.where((x > lowest) | np.isnan(x), x, lowest)
    if high < np.inf:
        x = np.where((x < highest) | np.isnan(x), x, highest)
    return x
