# SPDX-License-Identifier: Apache-2.0
"""TFLite's pools and means.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; vta/operators/pool.py takes its constants from here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.graph import Quantization
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.graph.kernels.windows import EVERY_POSITION, INT8_LIMITS, Geometry, windows
from loadstone.numerics import quantize_multiplier, requantize_double

__all__ = ["average_pool_2d", "max_pool_2d", "mean", "mean_multiplier"]


def average_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    geometry: Geometry = EVERY_POSITION,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
    unsigned: bool = False,
) -> Int8Array:
    """AVERAGE_POOL_2D of x (N, H, W, C), in its own quantization: padded taps are left out of sum
    and count.

    The integers are averaged, zero point and all: half away from zero of the integer, not of the
    real value.
    unsigned: a uint8 model, where that integer is x + 128: half up.
    """
    offset = 128 if unsigned else 0
    count = windows(
        np.ones((1, *x.shape[1:3], 1), np.int64), kernel, geometry.strides, geometry.padding
    ).sum((-2, -1))
    total = (
        windows(x.astype(np.int64), kernel, geometry.strides, geometry.padding).sum((-2, -1))
        + offset * count
    )
    magnitude = (np.abs(total) + count // 2) // count
    return finish(np.sign(total) * magnitude, -offset, limits)


def max_pool_2d(
    x: Int8Array,
    kernel: tuple[int, int],
    geometry: Geometry = EVERY_POSITION,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """MAX_POOL_2D of x (N, H, W, C), in its own quantization: padded taps never win."""
    return finish(
        windows(x, kernel, geometry.strides, geometry.padding, fill=-128).max((-2, -1)), 0, limits
    )


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
    total = centred(x, q_in).sum(tuple(axes), keepdims=keep_dims)
    return finish(requantize_double(total, *mean_multiplier(count, q_in, q_out)), q_out.zero_point)
