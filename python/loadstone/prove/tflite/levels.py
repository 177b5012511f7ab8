# SPDX-License-Identifier: Apache-2.0
"""LiteRT's operators on single levels as tables, and the constants that its kernels derive.

In:   scales, zero points and options of a .tflite file.
Out:  tables of levels: (256,) of one operand, (256, 256) of two; clamps; multipliers.
Next: read_tflite.py makes them attributes of operators.

Stated anew from the arithmetic of LiteRT's reference kernels; float32 where they have float.
A table is indexed by a level minus the least of its type, and holds levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.prove.network import ModelTensor
from loadstone.prove.requantize import (
    Double,
    Levels,
    Requantizer,
    double,
    quantize_multiplier,
)

__all__ = [
    "activation_limits",
    "addition",
    "concatenated",
    "function",
    "leaky_relu",
    "levels_of",
    "limits",
    "mean_scaling",
    "product",
    "product_scale",
    "rescaled",
    "round_away",
]

#: ADD and SUB shift their operands left by so many bits before they scale them.
_HEADROOM_BITS = 20


def limits(dtype: str) -> tuple[int, int]:
    """The least and the greatest level of an 8-bit type."""
    return {"int8": (-128, 127), "uint8": (0, 255)}[dtype]


def levels_of(tensor: ModelTensor) -> Levels:
    """Every level of the tensor's type, from the least, less its zero point: shape (256,)."""
    low, high = limits(tensor.dtype)
    return np.arange(low, high + 1, dtype=np.int64) - tensor.zero_point


def round_away(values: NDArray[np.float32]) -> Levels:
    """Rounds to the nearest integers, ties away from zero, as C's round() does; elementwise."""
    whole = np.trunc(values)
    return np.asarray(whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0), np.int64)


def activation_limits(activation: int, output: ModelTensor) -> tuple[int, int] | None:
    """The clamp of a fused activation as levels of the output; None for one that has no levels."""
    kinds = tflite.ActivationFunctionType
    bounds = {
        kinds.NONE: (-math.inf, math.inf),
        kinds.RELU: (0.0, math.inf),
        kinds.RELU6: (0.0, 6.0),
        kinds.RELU_N1_TO_1: (-1.0, 1.0),
    }.get(activation)
    if bounds is None:
        return None
    low, high = limits(output.dtype)
    least, greatest = (_level(bound, output) for bound in bounds)
    return max(low, min(high, least)), min(high, max(low, greatest))


def _level(real: float, tensor: ModelTensor) -> int:
    """The level of a real number, half away from zero of a float32 quotient; unbounded."""
    if math.isinf(real):
        return int(math.copysign(1 << 30, real))
    quotient = np.float32(real) / np.float32(tensor.scale)
    return tensor.zero_point + int(round_away(np.array([quotient]))[0])


def _moved(values: Levels, output: ModelTensor, clamp: tuple[int, int] | None = None) -> Levels:
    low, high = limits(output.dtype) if clamp is None else clamp
    return np.asarray(np.clip(values + output.zero_point, low, high))


def addition(
    a: ModelTensor, b: ModelTensor, output: ModelTensor, sign: int, clamp: tuple[int, int]
) -> Levels:
    """ADD (sign 1) and SUB (-1), (256, 256): both operands are brought to twice the larger scale
    with 20 bits of headroom; scales in float64."""
    common = 2.0 * max(a.scale, b.scale)
    first, second = (
        double(levels_of(t) << _HEADROOM_BITS, *quantize_multiplier(t.scale / common))
        for t in (a, b)
    )
    total = first[:, None] + sign * second[None, :]
    last = quantize_multiplier(common / (2.0**_HEADROOM_BITS * output.scale))
    return _moved(double(total, *last), output, clamp)


def product_scale(a: ModelTensor, b: ModelTensor, output: ModelTensor) -> float:
    """The scale of a product of two activations, in float32 throughout."""
    return float(np.float32(a.scale) * np.float32(b.scale) / np.float32(output.scale))


def product(a: ModelTensor, b: ModelTensor, output: ModelTensor, clamp: tuple[int, int]) -> Levels:
    """MUL: (256, 256), by the levels of a and b."""
    values = levels_of(a)[:, None] * levels_of(b)[None, :]
    scale = quantize_multiplier(product_scale(a, b, output))
    return _moved(double(values, *scale), output, clamp)


def rescaled(x: ModelTensor, output: ModelTensor, clamp: tuple[int, int] | None = None) -> Levels:
    """QUANTIZE of levels, and the RELUs, from one scale to another: (256,)."""
    return _moved(double(levels_of(x), *quantize_multiplier(x.scale / output.scale)), output, clamp)


def leaky_relu(x: ModelTensor, output: ModelTensor, alpha: float) -> Levels:
    """LEAKY_RELU, (256,): levels below the zero point times alpha; scales in float32."""
    ratio, slope = np.float32(x.scale), np.float32(x.scale) * np.float32(alpha)
    reals = [float(real / np.float32(output.scale)) for real in (ratio, slope)]
    distance = levels_of(x)
    sides = [np.sign(real) * double(distance, *quantize_multiplier(abs(real))) for real in reals]
    return _moved(np.where(distance >= 0, *sides).astype(np.int64), output)


def function(
    x: ModelTensor, output: ModelTensor, of: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Levels:
    """A table (256,) that LiteRT fills with a function of real numbers, in float32, rounded half
    away from zero."""
    real = np.float32(x.scale) * levels_of(x).astype(np.float32)
    value = of(real.astype(np.float64)).astype(np.float32)
    return _moved(round_away(value * (np.float32(1) / np.float32(output.scale))), output)


def concatenated(x: ModelTensor, output: ModelTensor) -> Levels | None:
    """CONCATENATION of uint8, (256,): float32 of the level and of its distance; None where bytes
    are copied."""
    if (x.scale, x.zero_point) == (output.scale, output.zero_point):
        return None
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(output.scale))
    offset = np.float32(-x.zero_point) * scale
    level = np.arange(256, dtype=np.float32)
    return _moved(round_away(level * scale + offset), output)


def mean_scaling(x: ModelTensor, output: ModelTensor, count: int) -> Requantizer:
    """MEAN of `count` elements: the multiplier of the scales' ratio is divided by the count, as
    far up as 64 bits allow."""
    multiplier, shift = quantize_multiplier(x.scale / output.scale)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    scaling = Double(
        np.array([(multiplier << bits) // count], np.int64), np.array([shift - bits], np.int64)
    )
    return Requantizer(scaling, output.zero_point, *limits(output.dtype))
