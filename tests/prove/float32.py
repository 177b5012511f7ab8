# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX Runtime computes in float32 between DequantizeLinear and QuantizeLinear.

In:   levels, their tensors, and attributes of a proof's operators; NCHW.
Out:  levels.
Next: definition.py.

A float32 sum depends on its order; these are ONNX Runtime's, unoptimised: AveragePool adds
column after column for a horizontal stride of at most 2, else row after row; GlobalAveragePool adds
four interleaved sums of the flat plane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelTensor
from loadstone.prove.requantize import Float32, Requantizer

__all__ = [
    "average_pool",
    "dequantized",
    "global_average_pool",
    "near_tie",
    "quantized",
    "real_or_near",
    "softmax_onnx",
]

Array = NDArray[Any]
Reals = NDArray[np.float32]


def dequantized(x: Array, tensor: ModelTensor) -> Reals:
    """The real numbers of levels."""
    return (x.astype(np.int64) - tensor.zero_point).astype(np.float32) * np.float32(tensor.scale)


def quantized(
    reals: Array, tensor: ModelTensor, low: int | None = None, high: int | None = None
) -> Array:
    """Levels, half to even, between `low` and `high`."""
    limits = np.iinfo(tensor.dtype)
    levels = np.rint(reals.astype(np.float32) / np.float32(tensor.scale)) + tensor.zero_point
    least = limits.min if low is None else low
    return np.clip(levels, least, limits.max if high is None else high)


def _added(terms: Iterable[Reals]) -> Reals:
    """One after the other."""
    total: Any = np.float32(0)
    for term in terms:
        total = total + term
    return np.asarray(total, np.float32)


def near_tie(rule: Requantizer, sums: Array) -> Array:
    """Where a quotient is so near to a tie that float32 sums may round to either side."""
    assert isinstance(rule.scaling, Float32)
    exact = sums * rule.scaling.reals[0]
    return np.asarray(np.abs(exact - np.floor(exact) - 0.5) < 1e-3)


def real_or_near(real: Array, stated: Array, near: Array) -> Array:
    """What float32 sums give, which is what is stated but for a level at ties."""
    assert (np.abs(real - stated) <= near).all()
    return real


def average_pool(a: Mapping[str, Any], x: Array, tensor: ModelTensor, output: ModelTensor) -> Array:
    """AveragePool; x (N, C, H, W)."""
    top, left, bottom, right = a["pads"]
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    real = np.pad(dequantized(x, tensor), around)
    inside = np.pad(np.ones(x.shape, np.float32), around, constant_values=a["count_include_pad"])
    (kh, kw), (sy, sx), (_, _, oh, ow) = a["kernel"], a["strides"], output.shape

    def tap(of: Reals, y: int, x: int) -> Reals:
        return of[:, :, y : y + (oh - 1) * sy + 1 : sy, x : x + (ow - 1) * sx + 1 : sx]

    if sx <= 2:
        total = _added(_added(tap(real, y, x) for y in range(kh)) for x in range(kw))
    else:
        total = _added(tap(real, y, x) for y in range(kh) for x in range(kw))
    count = _added(tap(inside, y, x) for y in range(kh) for x in range(kw))
    rule = next(iter(a["averages"].values()))
    return quantized(total / count, output, rule.low, rule.high)


def global_average_pool(
    a: Mapping[str, Any], x: Array, tensor: ModelTensor, output: ModelTensor
) -> Array:
    """GlobalAveragePool; x (N, C, H, W)."""
    n, channels, height, width = x.shape
    flat = dequantized(x, tensor).reshape(n, channels, -1)
    whole = height * width // 4 * 4
    lanes = _added(np.moveaxis(flat[..., :whole].reshape(n, channels, -1, 4), 2, 0))
    total = (lanes[..., 0] + lanes[..., 2]) + (lanes[..., 1] + lanes[..., 3]) if whole else 0.0
    total = _added([np.asarray(total, np.float32), *np.moveaxis(flat[..., whole:], 2, 0)])
    mean = (total / np.float32(height * width)).reshape(output.shape)
    rule = a["requantization"]
    return quantized(mean, output, rule.low, rule.high)


def softmax_onnx(x: Array, tensor: ModelTensor, output: ModelTensor) -> Array:
    """Softmax over the last axis; exp in float64, which ONNX Runtime's own follows but for ties."""
    real = dequantized(x, tensor).astype(np.float64)
    power = np.exp(real - real.max(-1, keepdims=True))
    return quantized((power / power.sum(-1, keepdims=True)).astype(np.float32), output)
