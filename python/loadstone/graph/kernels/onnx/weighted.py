# SPDX-License-Identifier: Apache-2.0
"""Conv, MatMul and Gemm of a QDQ model, as ONNX Runtime's integer kernels compute them.

In:   int8 activations with their `Quantization`; int8 weights OHWI; int32 bias.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import Int8Array, requantized
from loadstone.graph.kernels.windows import (
    EVERY_POSITION,
    INT8_LIMITS,
    Geometry,
    Weights,
    convolve,
    matmul,
)
from loadstone.numerics import onnx_scale

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
    """Conv: x (N, H, W, C), weights (O, KH, KW, C / groups), bias (O,) int32 -> (N, OH, OW, O).

    Padded taps read the zero point.
    """
    centred = x.astype(np.int64) - q_in.zero_point
    sums = convolve(
        centred,
        weights.centred(),
        strides=geometry.strides,
        padding=geometry.padding,
        dilation=geometry.dilation,
        groups=geometry.groups,
    )
    return requantized(
        sums, weights.bias, onnx_scale(q_in.scale, weights.scales, q_out.scale), q_out, limits
    )


def fully_connected(
    x: Int8Array,
    weights: Weights,
    q_in: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """MatMul and Gemm by constant weights, given as (O, I): x (..., I), bias (O,) int32 -> (...,
    O)."""
    sums = matmul(x.astype(np.int64) - q_in.zero_point, weights.centred().T)
    return requantized(
        sums, weights.bias, onnx_scale(q_in.scale, weights.scales, q_out.scale), q_out, limits
    )


def batch_matmul(
    a: Int8Array, b: Int8Array, q_a: Quantization, q_b: Quantization, q_out: Quantization
) -> Int8Array:
    """MatMul of two activations: a (..., M, K) times b (..., K, N) -> (..., M, N). Leading axes
    broadcast."""
    sums = np.matmul(a.astype(np.int64) - q_a.zero_point, b.astype(np.int64) - q_b.zero_point)
    scales = onnx_scale(q_a.scale, np.array([q_b.scale], np.float32), q_out.scale)
    bias: NDArray[np.int32] = np.zeros(1, np.int32)
    return requantized(sums, bias, scales, q_out, INT8_LIMITS)
