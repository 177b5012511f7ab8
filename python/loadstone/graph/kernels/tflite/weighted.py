# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that multiply by weights and accumulate.

In:   int8 activations with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

import numpy as np

from loadstone.graph import Quantization
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.graph.kernels.windows import (
    EVERY_POSITION,
    INT8_LIMITS,
    Geometry,
    Weights,
    convolve,
    matmul,
)
from loadstone.numerics import (
    quantize_multiplier,
    requantize_double,
    requantize_float64,
    tflite_scale,
    wrap_int32,
)

__all__ = ["batch_matmul", "conv_2d", "fully_connected"]


def conv_2d(
    x: Int8Array,
    weights: Weights,
    q_in: Quantization,
    q_out: Quantization,
    geometry: Geometry = EVERY_POSITION,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """CONV_2D, and DEPTHWISE_CONV_2D with groups = C: x (N, H, W, C), weights (O, KH, KW, C /
    groups) -> (N, OH, OW, O).

    Padded taps read the zero point.
    """
    sums = convolve(
        centred(x, q_in),
        weights.centred(),
        strides=geometry.strides,
        padding=geometry.padding,
        dilation=geometry.dilation,
        groups=geometry.groups,
    )
    acc = wrap_int32(sums.astype(np.int64) + np.asarray(weights.bias, np.int64))
    scale = tflite_scale(
        q_in.scale, weights.scales, q_out.scale, float32_product=weights.float32_product
    )
    multiplier, shift = quantize_multiplier(scale)
    return finish(requantize_double(acc, multiplier, shift), q_out.zero_point, limits)


def fully_connected(
    x: Int8Array,
    weights: Weights,
    q_in: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """FULLY_CONNECTED: x (..., I), weights (O, I) -> (..., O).

    LiteRT 2.3 multiplies in float64 here and has no fixed point at all:
    `numerics.single_multiplier` finds the device's constants that do the same. Other versions
    differ: TFLite Micro rounds DOUBLE.
    Exact while |acc * scale| < 2^31.
    """
    acc = wrap_int32(
        matmul(centred(x, q_in), weights.centred().T).astype(np.int64)
        + np.asarray(weights.bias, np.int64)
    )
    scale = tflite_scale(q_in.scale, weights.scales, q_out.scale)
    return finish(requantize_float64(acc, scale), q_out.zero_point, limits)


def batch_matmul(
    a: Int8Array, b: Int8Array, q_a: Quantization, q_b: Quantization, q_out: Quantization
) -> Int8Array:
    """BATCH_MATMUL: a (..., M, K) times b (..., K, N) -> (..., M, N), all of them activations.

    The product of the scales is float32, the rounding DOUBLE. Leading axes broadcast.
    """
    sums = wrap_int32(np.matmul(centred(a, q_a), centred(b, q_b)))
    product = np.float64(np.float32(q_a.scale) * np.float32(q_b.scale))
    multiplier, shift = quantize_multiplier(product / np.float64(q_out.scale))
    return finish(requantize_double(sums, multiplier, shift), q_out.zero_point)
