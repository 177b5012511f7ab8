# SPDX-License-Identifier: Apache-2.0
"""Operators with which a back end is tested: shapes, pads, strides, scales, zero points, roundings,
clamps, edge cases.

In:   a random generator.
Out:  OPERATORS: for each kind, a function that makes a Graph of one operator, for one sample.
Next: conformance/networks.py makes small networks of them; conformance/check.py runs both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.conformance import movement_cases
from loadstone.conformance.draw import (
    FRAMEWORKS,
    Rng,
    clamp,
    convolution,
    dense,
    grid,
    image,
    one,
    pick,
)
from loadstone.conformance.movement_cases import Parts
from loadstone.conformance.reduction_cases import REDUCTION_CASES
from loadstone.numerics import Rounding

__all__ = ["OPERATORS"]


def _conv2d(rng: Rng) -> g.Graph:
    x, out = image(rng), int(pick(rng, (1, 5, 16, 24)))
    dilation = pick(rng, ((1, 1), (1, 1), (1, 1), (1, 2)))
    return one(convolution(rng, x, out, "y", pick(rng, FRAMEWORKS), dilation=dilation))


def _depthwise(rng: Rng) -> g.Graph:
    x = image(rng, channels=int(pick(rng, (3, 8, 16, 20))))
    return one(convolution(rng, x, x.shape[3], "y", pick(rng, FRAMEWORKS), groups=x.shape[3]))


def _dense(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, int(pick(rng, (1, 10, 64, 130)))), "int8", grid(rng))
    return one(dense(rng, x, int(pick(rng, (1, 2, 10, 33))), "y", pick(rng, tuple(Rounding))))


def _binary(kind: type[g.Elementwise]) -> Callable[[Rng], g.Graph]:
    def make(rng: Rng) -> g.Graph:
        a = image(rng, "a")
        b = g.Tensor("b", a.shape, "int8", grid(rng))
        scale = a.scale * b.scale * 128 if kind is g.Mul else 1.5 * max(a.scale, b.scale)
        levels = g.Quantization(float(np.float32(scale)), grid(rng).zero_point)
        y = g.Tensor("y", a.shape, "int8", levels)
        return one(
            kind(
                name="y",
                inputs=(a, b),
                outputs=(y,),
                rounding=pick(rng, FRAMEWORKS),
                **clamp(rng, levels.zero_point),
            )
        )

    return make


def _pool(kind: type[g.Pool2D]) -> Callable[[Rng], g.Graph]:
    def make(rng: Rng) -> g.Graph:
        x = image(rng)
        kernel: tuple[int, int] = pick(rng, ((2, 2), (3, 3), (1, 3), (x.shape[1], x.shape[2])))
        strides: tuple[int, int] = pick(rng, ((1, 1), (2, 2)))
        pads: tuple[int, int, int, int] = pick(
            rng, ((0, 0, 0, 0), tuple(np.minimum(1, np.array([*kernel, *kernel]) - 1).tolist()))
        )
        size = [
            (x.shape[1 + k] + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1 for k in (0, 1)
        ]
        y = g.Tensor("y", (1, *size, x.shape[3]), "int8", x.quantization)
        extra: g.Fields = {"count_include_pad": False} if kind is g.AveragePool2D else {}
        window: g.Fields = {
            "kernel": kernel,
            "strides": strides,
            "padding": pads,
            "rounding": pick(rng, FRAMEWORKS),
        }
        levels: g.Fields = clamp(rng, x.zero_point)
        return one(kind(name="y", inputs=(x,), outputs=(y,), **window, **levels, **extra))

    return make


def _mean(rng: Rng) -> g.Graph:
    x = image(rng)
    y = g.Tensor("y", (1, x.shape[3]), "int8", pick(rng, (x.quantization, grid(rng))))
    return one(
        g.Mean(
            name="y",
            inputs=(x,),
            outputs=(y,),
            axes=(1, 2),
            low=-128,
            high=127,
            rounding=pick(rng, FRAMEWORKS),
        )
    )


def _requantize(rng: Rng) -> g.Graph:
    x = image(rng)
    y = g.Tensor("y", x.shape, "int8", grid(rng))
    return one(
        g.Requantize(
            name="y", inputs=(x,), outputs=(y,), low=-128, high=127, rounding=pick(rng, FRAMEWORKS)
        )
    )


def _softmax(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, 10), "int8", grid(rng))
    y = g.Tensor("y", (1, 10), "int8", g.Quantization(1 / 256, -128))
    return one(g.Softmax(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE))


def _one_to_one(
    make: Callable[[Rng], Parts],
) -> Callable[[Rng], g.Graph]:
    """A case of an operator with one input: its class, input, output, fields."""

    def case(rng: Rng) -> g.Graph:
        kind, x, y, fields = make(rng)
        return one(kind(name=y.name, inputs=(x,), outputs=(y,), **fields))

    return case


def _grouped(rng: Rng) -> g.Graph:
    groups = int(pick(rng, (2, 4)))
    x = image(rng, channels=groups * int(pick(rng, (2, 8, 16))))
    return one(
        convolution(
            rng, x, groups * int(pick(rng, (1, 4, 16))), "y", pick(rng, FRAMEWORKS), groups=groups
        )
    )


def _conv2d_edges(rng: Rng) -> g.Graph:
    """One pixel, a kernel as large as the image, strides beyond the kernel, pads on one side only,
    empty kernels, large bias."""
    h, w = (int(n) for n in pick(rng, ((1, 1), (1, 9), (7, 1), (5, 5), (3, 20), (12, 12))))
    x = g.Tensor("x", (1, h, w, int(pick(rng, (1, 2, 16, 40)))), "int8", grid(rng))
    kernel: tuple[int, int] = pick(rng, ((1, 1), (h, w), (min(h, 5), 1), (1, min(w, 5))))
    pads = [0 if rng.integers(2) else extent // 2 for extent in (*kernel, *kernel)]
    window: g.Fields = {
        "kernel": kernel,
        "strides": pick(rng, ((1, 1), (3, 2), (4, 4))),
        "padding": tuple(pads),
    }
    operator = convolution(rng, x, int(pick(rng, (1, 3, 17))), "y", pick(rng, FRAMEWORKS), **window)
    weights = np.where(rng.integers(6) == 0, 0, operator.weights).astype(np.int8)
    return one(
        replace(
            operator, weights=weights, bias=operator.bias * np.int32(pick(rng, (1, 1, 1, 1000)))
        )
    )


def _affine(rng: Rng) -> g.Graph:
    """A factor and an offset for each channel: what batch normalization, x + c and x * c are read
    as."""
    x = image(rng)
    channels = x.shape[3]
    fixed: g.Fields = {
        "kernel": (1, 1),
        "strides": (1, 1),
        "padding": (0, 0, 0, 0),
        "groups": channels,
    }
    return one(convolution(rng, x, channels, "y", Rounding.FLOAT32, **fixed))


def _broadcast(kind: type[g.Elementwise]) -> Callable[[Rng], g.Graph]:
    """With a constant, or with one value for each channel that another layer computes."""

    def make(rng: Rng) -> g.Graph:
        a = image(rng, "a")
        b = g.Tensor("b", (1, 1, 1, a.shape[3]), "int8", grid(rng))
        scale = a.scale * b.scale * 128 if kind is g.Mul else 1.5 * max(a.scale, b.scale)
        y = g.Tensor(
            "y", a.shape, "int8", g.Quantization(float(np.float32(scale)), grid(rng).zero_point)
        )
        operator = kind(
            name="y",
            inputs=(a, b),
            outputs=(y,),
            rounding=pick(rng, FRAMEWORKS),
            low=-128,
            high=127,
        )
        if rng.integers(2):
            return one(operator)
        constants = {"b": rng.integers(-128, 128, b.shape).astype(np.int8)}
        return g.Graph(
            name="y", inputs=(a,), outputs=(y,), operators=(operator,), constants=constants
        )

    return make


def _lookup(rng: Rng) -> Parts:
    """A sigmoid, or any table."""
    x = image(rng)
    real = 1 / (1 + np.exp(-x.scale * (np.arange(-128.0, 128) - x.zero_point)))
    table = (
        np.rint(real * 256 - 128).clip(-128, 127)
        if rng.integers(2)
        else rng.integers(-128, 128, 256)
    )
    return (
        g.Lookup,
        x,
        g.Tensor("y", x.shape, "int8", g.Quantization(1 / 256, -128)),
        {"table": table.astype(np.int8)},
    )


def _argmax(rng: Rng) -> Parts:
    x = g.Tensor("x", (1, int(pick(rng, (2, 10, 100)))), "int8", grid(rng))
    return g.ArgMax, x, g.Tensor("y", (1, 1), "int32"), {"axis": 1}


def _quantize(rng: Rng) -> Parts:
    x = g.Tensor("x", image(rng).shape, "float32")
    return (
        g.Quantize,
        x,
        g.Tensor("y", x.shape, "int8", grid(rng)),
        {"low": -128, "high": 127, "rounding": pick(rng, FRAMEWORKS)},
    )


def _dequantize(rng: Rng) -> Parts:
    x = image(rng)
    return g.Dequantize, x, g.Tensor("y", x.shape, "float32"), {}


#: Kind -> what makes a case of it. In the order of composite.FORMS, as far as they are there.
OPERATORS: Mapping[str, Callable[[Rng], g.Graph]] = {
    "conv2d": _conv2d,
    "conv2d_edges": _conv2d_edges,
    "depthwise": _depthwise,
    "grouped": _grouped,
    "affine": _affine,
    "dense": _dense,
    "add": _binary(g.Add),
    "add_broadcast": _broadcast(g.Add),
    "sub": _binary(g.Sub),
    "mul": _binary(g.Mul),
    "mul_broadcast": _broadcast(g.Mul),
    "average_pool2d": _pool(g.AveragePool2D),
    "max_pool2d": _pool(g.MaxPool2D),
    "mean": _mean,
    "concatenate": movement_cases.concatenate,
    "slice": _one_to_one(movement_cases.slices),
    "pad": movement_cases.pad,
    "reshape": _one_to_one(movement_cases.reshape),
    "transpose": _one_to_one(movement_cases.transpose),
    "resize_nearest": movement_cases.resize,
    "resize_bilinear": _one_to_one(movement_cases.resize_bilinear),
    "softmax": _softmax,
    "lookup": _one_to_one(_lookup),
    "argmax": _one_to_one(_argmax),
    "requantize": _requantize,
    "quantize": _one_to_one(_quantize),
    "dequantize": _one_to_one(_dequantize),
    **REDUCTION_CASES,
}
