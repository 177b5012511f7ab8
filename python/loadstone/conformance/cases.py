"""Operators to try a back end with: shapes, pads, strides, scales, zero points, roundings, clamps,
edge cases.

In:   a random generator.
Out:  OPERATORS: by kind, a function that makes a Graph of one operator, for one sample.
Next: conformance/networks.py makes small networks of them; conformance/check.py runs both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding

__all__ = ["FRAMEWORKS", "OPERATORS", "Rng", "convolution", "dense", "grid", "image", "one", "pick"]

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


def _clamp(rng: Rng, zero_point: int) -> dict[str, int]:
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
        **_clamp(rng, levels.zero_point),
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


def _conv2d(rng: Rng) -> g.Graph:
    x, out = image(rng), int(pick(rng, (1, 5, 16, 24)))
    dilation = pick(rng, ((1, 1), (1, 1), (1, 1), (1, 2)))
    return one(convolution(rng, x, out, "y", pick(rng, FRAMEWORKS), dilation=dilation))


def _depthwise(rng: Rng) -> g.Graph:
    x = image(rng, channels=int(pick(rng, (3, 8, 16, 20))))
    return one(convolution(rng, x, x.shape[3], "y", pick(rng, FRAMEWORKS), groups=x.shape[3]))


def dense(rng: Rng, x: g.Tensor, out: int, name: str, rounding: Rounding) -> g.Dense:
    """A dense layer behind x."""
    levels, shared = _weighted(rng, x, out, x.shape[1], rounding)
    weights = rng.integers(-127, 128, (out, x.shape[1])).astype(np.int8)
    y = g.Tensor(name, (1, out), "int8", levels)
    return g.Dense(name=name, inputs=(x,), outputs=(y,), weights=weights, **shared)


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
                **_clamp(rng, levels.zero_point),
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
        levels: g.Fields = _clamp(rng, x.zero_point)
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


def _concatenate(rng: Rng) -> g.Graph:
    a = image(rng, "a")
    b = g.Tensor("b", (*a.shape[:3], int(pick(rng, (1, 16, 20)))), "int8", a.quantization)
    y = g.Tensor("y", (*a.shape[:3], a.shape[3] + b.shape[3]), "int8", a.quantization)
    return one(
        g.Concatenate(
            name="y",
            inputs=(a, b),
            outputs=(y,),
            axis=3,
            low=-128,
            high=127,
            rounding=pick(rng, FRAMEWORKS),
        )
    )


def _pad(rng: Rng) -> g.Graph:
    x = image(rng)
    before, after = ((0, *(int(n) for n in rng.integers(0, 3, 2)), 0) for _ in range(2))
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    y = g.Tensor("y", shape, "int8", x.quantization)
    return one(
        g.Pad(name="y", inputs=(x,), outputs=(y,), before=before, after=after, value=x.zero_point)
    )


def _resize(rng: Rng) -> g.Graph:
    x, factor = image(rng), int(pick(rng, (2, 3)))
    y = g.Tensor(
        "y", (1, x.shape[1] * factor, x.shape[2] * factor, x.shape[3]), "int8", x.quantization
    )
    positions: g.Fields = {"align_corners": False, "half_pixel_centers": False}
    return one(
        g.ResizeNearest(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE, **positions)
    )


def _softmax(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, 10), "int8", grid(rng))
    y = g.Tensor("y", (1, 10), "int8", g.Quantization(1 / 256, -128))
    return one(g.Softmax(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE))


def _one_to_one(
    make: Callable[[Rng], tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]],
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


def _slice(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x = image(rng, channels=int(pick(rng, (5, 16, 48))))
    begin = (
        0,
        *(int(rng.integers(0, n // 2)) for n in x.shape[1:3]),
        int(pick(rng, (0, x.shape[3] // 3))),
    )
    strides = (1, *(int(n) for n in rng.integers(1, 3, 2)), 1)
    shape = (-(-(n - b) // s) for n, b, s in zip(x.shape, begin, strides, strict=True))
    return (
        g.Slice,
        x,
        g.Tensor("y", tuple(shape), "int8", x.quantization),
        {"begin": begin, "strides": strides},
    )


def _reshape(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x = image(rng)
    shape = pick(
        rng,
        (
            (1, x.size),
            (1, x.shape[1] * x.shape[2], 1, x.shape[3]),
            (1, x.shape[2], x.shape[1], x.shape[3]),
        ),
    )
    return g.Reshape, x, g.Tensor("y", shape, "int8", x.quantization), {}


def _transpose(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x, order = image(rng), pick(rng, ((0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2)))
    return (
        g.Transpose,
        x,
        g.Tensor("y", tuple(x.shape[n] for n in order), "int8", x.quantization),
        {"permutation": order},
    )


def _resize_bilinear(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x, factor = image(rng), int(pick(rng, (2, 4)))
    y = g.Tensor(
        "y", (1, x.shape[1] * factor, x.shape[2] * factor, x.shape[3]), "int8", x.quantization
    )
    fields = {
        "align_corners": False,
        "half_pixel_centers": bool(rng.integers(2)),
        "rounding": Rounding.DOUBLE,
    }
    return g.ResizeBilinear, x, y, fields


def _lookup(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
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


def _argmax(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x = g.Tensor("x", (1, int(pick(rng, (2, 10, 100)))), "int8", grid(rng))
    return g.ArgMax, x, g.Tensor("y", (1, 1), "int32"), {"axis": 1}


def _quantize(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
    x = g.Tensor("x", image(rng).shape, "float32")
    return (
        g.Quantize,
        x,
        g.Tensor("y", x.shape, "int8", grid(rng)),
        {"low": -128, "high": 127, "rounding": pick(rng, FRAMEWORKS)},
    )


def _dequantize(rng: Rng) -> tuple[type[g.Operator], g.Tensor, g.Tensor, g.Fields]:
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
    "concatenate": _concatenate,
    "slice": _one_to_one(_slice),
    "pad": _pad,
    "reshape": _one_to_one(_reshape),
    "transpose": _one_to_one(_transpose),
    "resize_nearest": _resize,
    "resize_bilinear": _one_to_one(_resize_bilinear),
    "softmax": _softmax,
    "lookup": _one_to_one(_lookup),
    "argmax": _one_to_one(_argmax),
    "requantize": _requantize,
    "quantize": _one_to_one(_quantize),
    "dequantize": _one_to_one(_dequantize),
}
