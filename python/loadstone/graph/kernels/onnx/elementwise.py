# SPDX-License-Identifier: Apache-2.0
"""Operators of a QDQ model on elements, Softmax and LayerNormalization: in float32.

In:   int8 activations of any shape, with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; partition/patterns/elementwise.py fills tables with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import Int8Array, dequantize, quantize
from loadstone.graph.kernels.windows import INT8_LIMITS

__all__ = ["add", "layer_norm", "leaky_relu", "logistic", "mul", "softmax", "sub"]


def add(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """Add: shapes broadcast."""
    return quantize(dequantize(a, q_a) + dequantize(b, q_b), q_out, limits=limits)


def sub(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """Sub: shapes broadcast."""
    return quantize(dequantize(a, q_a) - dequantize(b, q_b), q_out, limits=limits)


def mul(
    a: Int8Array,
    b: Int8Array,
    q_a: Quantization,
    q_b: Quantization,
    q_out: Quantization,
    *,
    limits: tuple[int, int] = INT8_LIMITS,
) -> Int8Array:
    """Mul: shapes broadcast."""
    return quantize(dequantize(a, q_a) * dequantize(b, q_b), q_out, limits=limits)


def leaky_relu(x: Int8Array, q_in: Quantization, q_out: Quantization, alpha: float) -> Int8Array:
    """LeakyRelu: negative values times alpha.

    Elementwise: the result has the shape of x.
    """
    real = dequantize(x, q_in)
    return quantize(np.where(real >= 0, real, real * np.float32(alpha)), q_out)


def logistic(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """Sigmoid: 1 / (1 + exp(-x)).

    Elementwise: the result has the shape of x.
    """
    with np.errstate(over="ignore"):
        return quantize(
            (1 / (1 + np.exp(-dequantize(x, q_in).astype(np.float64)))).astype(np.float32), q_out
        )


def softmax(x: Int8Array, q_in: Quantization, q_out: Quantization) -> Int8Array:
    """Softmax over the last axis.

    x: (..., classes); the result has the same shape.
    """
    real = dequantize(x, q_in).astype(np.float64)
    power = np.exp(real - real.max(-1, keepdims=True))
    return quantize((power / power.sum(-1, keepdims=True)).astype(np.float32), q_out)


def layer_norm(
    x: Int8Array,
    q_in: Quantization,
    q_out: Quantization,
    gamma: NDArray[np.float32],
    beta: NDArray[np.float32],
    epsilon: float,
) -> Int8Array:
    """LayerNormalization over rows of gamma.size elements, the last axes of x.

    Sums of integers and of their squares are exact; what follows is float64, rounded to float32 in
    the end. The result has the shape of x.
    """
    count, scale = gamma.size, float(np.float32(q_in.scale))
    rows = x.reshape(-1, count).astype(np.int64) - q_in.zero_point
    total = rows.sum(1, keepdims=True)
    spread = count * (rows * rows).sum(1, keepdims=True) - total * total  # count^2 * variance
    unit = scale / count
    slope = unit / np.sqrt(spread * (unit * unit) + epsilon)
    normal = (count * rows - total) * slope
    real = normal * gamma.reshape(-1).astype(np.float64) + beta.reshape(-1)
    return quantize(real.astype(np.float32), q_out).reshape(x.shape)
