# SPDX-License-Identifier: Apache-2.0
"""Operators of a QDQ model on elements, and Softmax: in float32.

In:   int8 activations of any shape, with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers; partition/patterns/elementwise.py fills tables with them.
"""

from __future__ import annotations

import numpy as np

from loadstone.graph import Quantization
from loadstone.graph.kernels.onnx.levels import Int8Array, dequantize, quantize
from loadstone.graph.kernels.windows import INT8_LIMITS

__all__ = ["add", "leaky_relu", "logistic", "mul", "softmax", "sub"]


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
