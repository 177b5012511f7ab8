# SPDX-License-Identifier: Apache-2.0
"""Random parts of which all conformance cases are made: scales, images, layers with weights.

In:   a random generator.
Out:  quantizations, tensors and operators; Graphs of one operator.
Next: conformance/cases.py and conformance/movement_cases.py draw cases, conformance/networks.py
      networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding

__all__ = [
    "FRAMEWORKS",
    "Rng",
    "clamp",
    "convolution",
    "dense",
    "grid",
    "image",
    "one",
    "pick",
]

T = TypeVar("T")
Rng = np.random.Generator
FRAMEWORKS = (Rounding.DOUBLE, Rounding.FLOAT32)


def pick(rng: Rng, options: Sequence[T]) -> T:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def grid(rng: Rng) -> g.Quantization:
    """A scale from 2^-8 to 2^-2, a power of two in every third; a zero point of any value, often 0
    or an edge."""
    exponent = rng.uniform(-8, -2)
    scale = 2.0 ** (round(exponent) if rng.integers(3) == 0 else exponent)
    return g.Quantization(
        float(np.float32(scale)), int(pick(rng, (0, -128, 127, int(rng.integers(-128, 128)))))
    )


def image(rng: Rng, name: str = "x", channels: int = 0) -> g.Tensor:
    """An activation; channels: 0 for any."""
    h, w = (int(n) for n in rng.integers(3, 13, 2))
    return g.Tensor(
        name, (1, h, w, channels or int(pick(rng, (1, 3, 8, 16, 17, 33)))), "int8", grid(rng)
    )


def clamp(rng: Rng, zero_point: int) -> dict[str, int]:
    """None, or ReLU."""
    return {"low": int(pick(rng, (-128, zero_point))), "high": 127}


def one(operator: g.Operator, inputs: tuple[g.Tensor, ...] = ()) -> g.Graph:
    """The network of one operator. inputs: those that are no constants."""
    return g.Graph(
        name=operator.kind,
        inputs=inputs or operator.inputs,
        outputs=operator.outputs,
        operators=(operator,),
    )


def _weighted(
    rng: Rng, x: g.Tensor, out: int, reach: int, rounding: Rounding
) -> tuple[g.Quantization, g.Fields]:
    """The output's levels so that sums of `reach` products fill it, and the fields that Conv2D and
    Dense share."""
    scales = rng.uniform(0.002, 0.02, out if rng.integers(2) else 1).astype(np.float32) * np.ones(
        out, np.float32
    )
    spread = float(scales.mean()) * x.scale * 50 * 74 * reach**0.5
    levels = g.Quantization(float(np.float32(spread / 64)), grid(rng).zero_point)
    shared = {
        "weight_scales": scales,
        "weight_zero_points": np.zeros(out, np.int32),
        "bias": rng.integers(-2000, 2000, out).astype(np.int32),
        "rounding": rounding,
        **clamp(rng, levels.zero_point),
    }
    return levels, shared


def convolution(
    rng: Rng, x: g.Tensor, out: int, name: str, rounding: Rounding, **fixed: Any
) -> g.Conv2D:
    """fixed: kernel, strides, padding, dilation, groups where they are not to be drawn."""
    kernel = fixed.get("kernel") or tuple(int(n) for n in rng.integers(1, 4, 2))
    strides = fixed.get("strides") or tuple(int(n) for n in rng.integers(1, 3, 2))
    dilation = fixed.get("dilation") or (1, 1)
    padding = fixed.get("padding") or tuple(
        int(n) for n in rng.integers(0, np.array([*kernel, *kernel]))
    )
    groups = fixed.get("groups", 1)
    size = []
    for axis in (0, 1):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        size.append(
            (x.shape[1 + axis] + padding[axis] + padding[axis + 2] - reach) // strides[axis] + 1
        )
    levels, shared = _weighted(rng, x, out, kernel[0] * kernel[1] * x.shape[3] // groups, rounding)
    weights = rng.integers(-127, 128, (out, *kernel, x.shape[3] // groups)).astype(np.int8)
    y = g.Tensor(name, (1, *size, out), "int8", levels)
    window: g.Fields = {
        "strides": strides,
        "dilation": dilation,
        "padding": padding,
        "groups": groups,
    }
    return g.Conv2D(name=name, inputs=(x,), outputs=(y,), weights=weights, **window, **shared)


def dense(rng: Rng, x: g.Tensor, out: int, name: str, rounding: Rounding) -> g.Dense:
    """A dense layer behind x."""
    levels, shared = _weighted(rng, x, out, x.shape[1], rounding)
    weights = rng.integers(-127, 128, (out, x.shape[1])).astype(np.int8)
    y = g.Tensor(name, (1, out), "int8", levels)
    return g.Dense(name=name, inputs=(x,), outputs=(y,), weights=weights, **shared)
