# SPDX-License-Identifier: Apache-2.0
"""From real values to int8 and back, as TFLite does it: what all its operators share.

In:   float32, or int8 activations with their `Quantization`.
Out:  int8 in the output's quantization; float32.
Next: the other files of this folder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.windows import INT8_LIMITS
from loadstone.numerics import (
    INT32_MAX,
    INT32_MIN,
    Array,
    quantize_multiplier,
    requantize_double,
    round_half_away,
)

__all__ = [
    "Int8Array",
    "activation_range",
    "centred",
    "dequantize",
    "finish",
    "quantize",
    "requantize",
]

Int8Array = NDArray[np.int8]


def finish(value: ArrayLike, zero_point: int, limits: tuple[int, int] = INT8_LIMITS) -> Int8Array:
    """Adds the zero point and clamps to the activation's range. value: any shape, kept."""
    return np.clip(np.asarray(value, np.int64) + zero_point, *limits).astype(np.int8)


def centred(x: ArrayLike, quantization: Quantization) -> NDArray[np.int64]:
    """x - zero point, in the shape of x."""
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


def quantize(x: ArrayLike, q_out: Quantization) -> Int8Array:
    """QUANTIZE of float32: round(x / scale) + zero point. Domain: |x / scale| < 2^31, beyond LiteRT
    gives -128 for large x.

    x: of any shape; the result has the same shape. Ties go away from zero.
    """
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, np.float32) / np.float32(q_out.scale)
    return finish(np.clip(round_half_away(ratio), INT32_MIN, INT32_MAX), q_out.zero_point)


def dequantize(x: Array, q_in: Quantization) -> NDArray[np.float32]:
    """DEQUANTIZE: scale * (x - zero point) in float32, rounded once, in the shape of x."""
    return np.asarray(np.float32(q_in.scale) * centred(x, q_in).astype(np.float32), np.float32)


def requantize(
    x: Array, q_in: Quantization, q_out: Quantization, *, limits: tuple[int, int] = INT8_LIMITS
) -> Int8Array:
    """QUANTIZE of integers, RELU and its kin with their `activation_range`: the same real values in
    other integers.

    Elementwise: the result has the shape of x. Rounding DOUBLE, clamped to `limits`.
    """
    scale = np.float64(q_in.scale) / np.float64(q_out.scale)
    return finish(
        requantize_double(centred(x, q_in), *quantize_multiplier(scale)),
        q_out.zero_point,
        limits,
    )
