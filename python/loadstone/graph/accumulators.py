# SPDX-License-Identifier: Apache-2.0
"""A convolution or dense layer in two halves: its sums, and what the framework makes of a sum.

In:   a Weighted operator; its input, or any sums.
Out:  the sums; the least and the largest of each channel; the framework's integer of each sum.
Next: backend/rounding_bound.py compares a device's requantizer with the second half.

The whole operators are graph/reference.py's; tests hold the two halves against them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.graph.kernels.windows import Weights, convolve, matmul
from loadstone.numerics import (
    INT32_MAX,
    INT32_MIN,
    Array,
    Rounding,
    onnx_scale,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
    requantize_float64,
    requantize_single,
    wrap_int32,
)

__all__ = ["grows_with_sums", "integers_of", "limits_of_sums", "sums_of"]

_IntArray = NDArray[np.int64]


def sums_of(operator: g.Weighted, x: Array) -> _IntArray:
    """The sums with their bias, wrapped to int32, in the shape of the output. x: of the input."""
    weights = Weights(operator.weights, operator.bias, 1.0, operator.weight_zero_points).centred()
    centred = x.astype(np.int64) - operator.input.zero_point
    if isinstance(operator, g.Conv2D):
        o = operator
        window = {"strides": o.strides, "padding": o.padding, "dilation": o.dilation}
        sums = convolve(centred, weights, groups=o.groups, **window)  # type: ignore[arg-type]
    else:
        sums = matmul(centred, weights.T)
    return wrap_int32(sums.astype(np.int64) + operator.bias).astype(np.int64)


def limits_of_sums(operator: g.Weighted) -> tuple[_IntArray, _IntArray]:
    """The least and the largest sum of each channel, (O,) each, for inputs of int8: none lies
    outside, with padding or without. Where sums wrap, all of int32."""
    weights = Weights(operator.weights, 0, 1.0, operator.weight_zero_points).centred()
    weights = weights.reshape(len(weights), -1)
    ends = np.array([-128, 127]) - operator.input.zero_point
    products = weights[..., None] * ends  # a padded tap is 0, between the two
    least, most = (
        part.sum(axis=1) + operator.bias for part in (products.min(axis=2), products.max(axis=2))
    )
    wraps = (least < INT32_MIN) | (most > INT32_MAX)
    return np.where(wraps, INT32_MIN, least), np.where(wraps, INT32_MAX, most)


def integers_of(operator: g.Weighted, sums: ArrayLike) -> _IntArray:
    """What the framework makes of sums (..., O), bias included: its integers, zero point and clamp
    included."""
    acc = np.asarray(sums, np.int64)
    if operator.rounding is Rounding.FLOAT32:
        scale = onnx_scale(operator.input.scale, operator.weight_scales, operator.output.scale)
        rounded: Array = requantize_float32(acc, scale)
    elif operator.rounding is Rounding.SINGLE and isinstance(operator, g.Dense):
        rounded = requantize_float64(acc, operator.real_scales())
    else:
        single = operator.rounding is Rounding.SINGLE
        rule = requantize_single if single else requantize_double
        rounded = rule(acc, *quantize_multiplier(operator.real_scales()))
    levels = rounded.astype(np.int64) + operator.output.zero_point
    return np.asarray(np.clip(levels, operator.low, operator.high), np.int64)


def grows_with_sums(operator: g.Weighted) -> bool:
    """Whether its integers never decrease while a sum grows: not where DOUBLE shifts to the left,
    which wraps."""
    if operator.rounding is not Rounding.DOUBLE:
        return True
    return bool((quantize_multiplier(operator.real_scales())[1] <= 0).all())
