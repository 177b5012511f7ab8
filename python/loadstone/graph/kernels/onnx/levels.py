# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: what all operators of a QDQ model share.

In:   float32, integer sums, or int8 activations with their `Quantization`.
Out:  int8 in the output's quantization; float32.
Next: the other files of this folder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.windows import INT8_LIMITS
from loadstone.numerics import Array, Float32Array, requantize_float32, wrap_int32

__all__ = [
    "Int8Array",
    "activation_range",
    "dequantize",
    "quantize",
    "requantize",
    "requantized",
]

Int8Array = NDArray[np.int8]


def quantize(
    x: ArrayLike, q_out: Quantization, *, limits: tuple[int, int] = INT8_LIMITS
) -> Int8Array:
    """QuantizeLinear: round_half_to_even(x / scale) + zero point, saturated; float32. Domain: no
    NaN.

    x: float32 of any shape. The result has the same shape.
    """
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, np.float32) / np.float32(q_out.scale)
    levels: Int8Array = np.clip(
        np.rint(ratio).astype(np.float64) + q_out.zero_point, *limits
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


def requantize(
    x: Array, q_in: Quantization, q_out: Quantization, *, limits: tuple[int, int] = INT8_LIMITS
) -> Int8Array:
    """DequantizeLinear, QuantizeLinear: also around Relu and Clip, with their
    `activation_range`.

    Elementwise: the result has the shape of x. Rounded half to even in float32, clamped to
    `limits`.
    """
    return quantize(dequantize(x, q_in), q_out, limits=limits)


def requantized(
    sums: NDArray[np.int32],
    bias: ArrayLike,
    scale: ArrayLike,
    q_out: Quantization,
    limits: tuple[int, int],
) -> Int8Array:
    """Integer sums and bias times `scale`, rounded FLOAT32, in the output's quantization.

    sums: any shape, which the result has; bias and scale: what broadcasts to that shape.
    """
    acc = wrap_int32(sums.astype(np.int64) + np.asarray(bias, np.int64))
    return np.clip(
        requantize_float32(acc, scale).astype(np.int64) + q_out.zero_point, *limits
    ).astype(np.int8)
