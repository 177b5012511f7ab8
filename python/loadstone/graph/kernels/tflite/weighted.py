"""TFLite's operators that multiply by weights and accumulate.

In:   int8 activations with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from loadstone.graph import Quantization
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.graph.kernels.windows import convolve, matmul
from loadstone.numerics import (
    quantize_multiplier,
    requantize_double,
    requantize_float64,
    tflite_scale,
    wrap_int32,
)

__all__ = ["conv_2d", "fully_connected"]


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
    float32_product: bool = False,
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """CONV_2D, and DEPTHWISE_CONV_2D with groups = C: x (N, H, W, C), weights (O, KH, KW, C /
    groups) -> (N, OH, OW, O).

    weight_scales: (O,), or one for all. padding: (top, left, bottom, right); padded taps read the
        zero point.
    weight_zero_points: not 0 only in uint8 models. float32_product: how those multiply input and
        weight scale.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1, 1, 1))
    sums = convolve(
        centred(x, q_in),
        kernels,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    acc = wrap_int32(sums.astype(np.int64) + np.asarray(bias, np.int64))
    scale = tflite_scale(q_in.scale, weight_scales, q_out.scale, float32_product=float32_product)
    multiplier, shift = quantize_multiplier(scale)
    return finish(requantize_double(acc, multiplier, shift), q_out.zero_point, low, high)


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
    """FULLY_CONNECTED: x (..., I), weights (O, I) -> (..., O). weight_scales: (O,), or one for all.

    LiteRT 2.3 multiplies in float64 here and has no fixed point at all:
    `numerics.single_multiplier` finds the device's constants that do the same. Other versions
    differ: TFLite Micro rounds DOUBLE.
    Exact while |acc * scale| < 2^31.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1))
    acc = wrap_int32(
        matmul(centred(x, q_in), kernels.T).astype(np.int64) + np.asarray(bias, np.int64)
    )
    scale = tflite_scale(q_in.scale, weight_scales, q_out.scale)
    return finish(requantize_float64(acc, scale), q_out.zero_point, low, high)
