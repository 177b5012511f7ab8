"""Conv, MatMul and Gemm of a QDQ model, as ONNX Runtime's integer kernels compute them.

In:   int8 activations with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import Int8Array, requantized
from loadstone.graph.kernels.windows import convolve, matmul
from loadstone.numerics import onnx_scale

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
    low: int = -128,
    high: int = 127,
) -> Int8Array:
    """Conv: x (N, H, W, C), weights (O, KH, KW, C / groups), bias (O,) int32 -> (N, OH, OW, O).

    weight_scales: (O,), or one for all. padding: (top, left, bottom, right); padded taps read the
        zero point.
    """
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1, 1, 1))
    centred = x.astype(np.int64) - q_in.zero_point
    sums = convolve(
        centred, kernels, strides=strides, padding=padding, dilation=dilation, groups=groups
    )
    return requantized(
        sums, bias, onnx_scale(q_in.scale, weight_scales, q_out.scale), q_out, low, high
    )


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
    """MatMul and Gemm by constant weights, given as (O, I): x (..., I), bias (O,) int32 -> (...,
    O)."""
    kernels = weights.astype(np.int64) - np.reshape(weight_zero_points, (-1, 1))
    sums = matmul(x.astype(np.int64) - q_in.zero_point, kernels.T)
    return requantized(
        sums, bias, onnx_scale(q_in.scale, weight_scales, q_out.scale), q_out, low, high
    )
