"""Operators and small networks to try a back end with: shapes, pads, strides, scales, zero points, roundings, clamps.

In:   a random generator.
Out:  CASES: by kind, a function that makes a Graph of one sample.
Next: conform.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding

__all__ = ["CASES"]

Rng = np.random.Generator
_FRAMEWORKS = (Rounding.DOUBLE, Rounding.FLOAT32)


def _pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _grid(rng: Rng) -> g.Quantization:
    """A scale from 2^-8 to 2^-2, a power of two in every third; a zero point of any value, often 0 or an edge."""
    exponent = rng.uniform(-8, -2)
    scale = 2.0 ** (round(exponent) if rng.integers(3) == 0 else exponent)
    return g.Quantization(float(np.float32(scale)), int(_pick(rng, (0, -128, 127, int(rng.integers(-128, 128))))))


def _image(rng: Rng, name: str = "x", channels: int = 0) -> g.Tensor:
    h, w = (int(n) for n in rng.integers(3, 13, 2))
    return g.Tensor(name, (1, h, w, channels or int(_pick(rng, (1, 3, 8, 16, 17, 33)))), "int8", _grid(rng))


def _clamp(rng: Rng, zero_point: int) -> dict[str, int]:
    """None, or ReLU."""
    return {"low": int(_pick(rng, (-128, zero_point))), "high": 127}


def _one(operator: g.Operator, inputs: tuple[g.Tensor, ...] = ()) -> g.Graph:
    return g.Graph(name=operator.kind, inputs=inputs or operator.inputs, outputs=operator.outputs, operators=(operator,))


def _weighted(rng: Rng, x: g.Tensor, out: int, reach: int, rounding: Rounding) -> tuple[g.Quantization, dict[str, Any]]:
    """The output's grid so that sums of `reach` products fill it, and the fields that Conv2D and Dense share."""
    scales = rng.uniform(0.002, 0.02, out if rng.integers(2) else 1).astype(np.float32) * np.ones(out, np.float32)
    spread = float(scales.mean()) * x.scale * 50 * 74 * reach**0.5
    grid = g.Quantization(float(np.float32(spread / 64)), _grid(rng).zero_point)
    shared = {
        "weight_scales": scales,
        "weight_zero_points": np.zeros(out, np.int32),
        "bias": rng.integers(-2000, 2000, out).astype(np.int32),
        "rounding": rounding,
        **_clamp(rng, grid.zero_point),
    }
    return grid, shared


def _convolution(rng: Rng, x: g.Tensor, out: int, name: str, rounding: Rounding, **fixed: Any) -> g.Conv2D:
    """fixed: kernel, strides, padding, dilation, groups where they are not to be drawn."""
    kernel = fixed.get("kernel") or tuple(int(n) for n in rng.integers(1, 4, 2))
    strides = fixed.get("strides") or tuple(int(n) for n in rng.integers(1, 3, 2))
    dilation = fixed.get("dilation") or (1, 1)
    padding = fixed.get("padding") or tuple(int(n) for n in rng.integers(0, np.array([*kernel, *kernel])))
    groups = fixed.get("groups", 1)
    size = []
    for axis in (0, 1):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        size.append((x.shape[1 + axis] + padding[axis] + padding[axis + 2] - reach) // strides[axis] + 1)
    grid, shared = _weighted(rng, x, out, kernel[0] * kernel[1] * x.shape[3] // groups, rounding)
    weights = rng.integers(-127, 128, (out, *kernel, x.shape[3] // groups)).astype(np.int8)
    y = g.Tensor(name, (1, *size, out), "int8", grid)
    window: dict[str, Any] = {"strides": strides, "dilation": dilation, "padding": padding, "groups": groups}
    return g.Conv2D(name=name, inputs=(x,), outputs=(y,), weights=weights, **window, **shared)


def _conv2d(rng: Rng) -> g.Graph:
    x, out = _image(rng), int(_pick(rng, (1, 5, 16, 24)))
    dilation = _pick(rng, ((1, 1), (1, 1), (1, 1), (1, 2)))
    return _one(_convolution(rng, x, out, "y", _pick(rng, _FRAMEWORKS), dilation=dilation))


def _depthwise(rng: Rng) -> g.Graph:
    x = _image(rng, channels=int(_pick(rng, (3, 8, 16, 20))))
    return _one(_convolution(rng, x, x.shape[3], "y", _pick(rng, _FRAMEWORKS), groups=x.shape[3]))


def _dense(rng: Rng, x: g.Tensor | None = None) -> g.Graph:
    x = x or g.Tensor("x", (1, int(_pick(rng, (1, 10, 64, 130)))), "int8", _grid(rng))
    out = int(_pick(rng, (1, 2, 10, 33)))
    grid, shared = _weighted(rng, x, out, x.shape[1], _pick(rng, tuple(Rounding)))
    weights = rng.integers(-127, 128, (out, x.shape[1])).astype(np.int8)
    y = g.Tensor("y", (1, out), "int8", grid)
    return _one(g.Dense(name="y", inputs=(x,), outputs=(y,), weights=weights, **shared))


def _binary(kind: type[g.Elementwise]) -> Callable[[Rng], g.Graph]:
    def make(rng: Rng) -> g.Graph:
        a = _image(rng, "a")
        b = g.Tensor("b", a.shape, "int8", _grid(rng))
        scale = a.scale * b.scale * 128 if kind is g.Mul else 1.5 * max(a.scale, b.scale)
        grid = g.Quantization(float(np.float32(scale)), _grid(rng).zero_point)
        y = g.Tensor("y", a.shape, "int8", grid)
        return _one(kind(name="y", inputs=(a, b), outputs=(y,), rounding=_pick(rng, _FRAMEWORKS), **_clamp(rng, grid.zero_point)))

    return make


def _pool(kind: type[g.Pool2D]) -> Callable[[Rng], g.Graph]:
    def make(rng: Rng) -> g.Graph:
        x = _image(rng)
        kernel: tuple[int, int] = _pick(rng, ((2, 2), (3, 3), (1, 3), (x.shape[1], x.shape[2])))
        strides: tuple[int, int] = _pick(rng, ((1, 1), (2, 2)))
        pads: tuple[int, int, int, int] = _pick(rng, ((0, 0, 0, 0), tuple(np.minimum(1, np.array([*kernel, *kernel]) - 1).tolist())))
        size = [(x.shape[1 + k] + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1 for k in (0, 1)]
        y = g.Tensor("y", (1, *size, x.shape[3]), "int8", x.quantization)
        extra: dict[str, Any] = {"count_include_pad": False} if kind is g.AveragePool2D else {}
        window: dict[str, Any] = {"kernel": kernel, "strides": strides, "padding": pads, "rounding": _pick(rng, _FRAMEWORKS)}
        levels: dict[str, Any] = _clamp(rng, x.zero_point)
        return _one(kind(name="y", inputs=(x,), outputs=(y,), **window, **levels, **extra))

    return make


def _mean(rng: Rng) -> g.Graph:
    x = _image(rng)
    y = g.Tensor("y", (1, x.shape[3]), "int8", _pick(rng, (x.quantization, _grid(rng))))
    return _one(g.Mean(name="y", inputs=(x,), outputs=(y,), axes=(1, 2), low=-128, high=127, rounding=_pick(rng, _FRAMEWORKS)))


def _requantize(rng: Rng) -> g.Graph:
    x = _image(rng)
    y = g.Tensor("y", x.shape, "int8", _grid(rng))
    return _one(g.Requantize(name="y", inputs=(x,), outputs=(y,), low=-128, high=127, rounding=_pick(rng, _FRAMEWORKS)))


def _concatenate(rng: Rng) -> g.Graph:
    a = _image(rng, "a")
    b = g.Tensor("b", (*a.shape[:3], int(_pick(rng, (1, 16, 20)))), "int8", a.quantization)
    y = g.Tensor("y", (*a.shape[:3], a.shape[3] + b.shape[3]), "int8", a.quantization)
    return _one(g.Concatenate(name="y", inputs=(a, b), outputs=(y,), axis=3, low=-128, high=127, rounding=_pick(rng, _FRAMEWORKS)))


def _pad(rng: Rng) -> g.Graph:
    x = _image(rng)
    before, after = ((0, *(int(n) for n in rng.integers(0, 3, 2)), 0) for _ in range(2))
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    y = g.Tensor("y", shape, "int8", x.quantization)
    return _one(g.Pad(name="y", inputs=(x,), outputs=(y,), before=before, after=after, value=x.zero_point))


def _resize(rng: Rng) -> g.Graph:
    x, factor = _image(rng), int(_pick(rng, (2, 3)))
    y = g.Tensor("y", (1, x.shape[1] * factor, x.shape[2] * factor, x.shape[3]), "int8", x.quantization)
    positions: dict[str, Any] = {"align_corners": False, "half_pixel_centers": False}
    return _one(g.ResizeNearest(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE, **positions))


def _softmax(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, 10), "int8", _grid(rng))
    y = g.Tensor("y", (1, 10), "int8", g.Quantization(1 / 256, -128))
    return _one(g.Softmax(name="y", inputs=(x,), outputs=(y,), rounding=Rounding.DOUBLE))


def _residual(rng: Rng) -> g.Graph:
    """Two convolutions in a row, one beside them, their sum, its convolution: what a block of ResNet is."""
    rounding, channels = _pick(rng, _FRAMEWORKS), int(_pick(rng, (8, 16, 20)))
    same: dict[str, Any] = {"kernel": (3, 3), "strides": (1, 1), "padding": (1, 1, 1, 1)}
    x = _image(rng)
    first = _convolution(rng, x, channels, "first", rounding, **same)
    second = _convolution(rng, first.output, channels, "second", rounding, **same)
    beside = _convolution(rng, x, channels, "beside", rounding, kernel=(1, 1), strides=(1, 1), padding=(0, 0, 0, 0))
    grid = g.Quantization(float(np.float32(1.5 * max(second.output.scale, beside.output.scale))), -3)
    total = g.Tensor("sum", second.output.shape, "int8", grid)
    add = g.Add(name="sum", inputs=(second.output, beside.output), outputs=(total,), rounding=rounding, low=-3, high=127)
    last = _convolution(rng, total, 5, "last", rounding, kernel=(1, 1), strides=(2, 2), padding=(0, 0, 0, 0))
    return g.Graph(name="residual", inputs=(x,), outputs=(total, last.output), operators=(first, second, beside, add, last))


#: Kind -> what makes a case of it.
CASES: Mapping[str, Callable[[Rng], g.Graph]] = {
    "conv2d": _conv2d,
    "depthwise": _depthwise,
    "dense": _dense,
    "add": _binary(g.Add),
    "sub": _binary(g.Sub),
    "mul": _binary(g.Mul),
    "average_pool2d": _pool(g.AveragePool2D),
    "max_pool2d": _pool(g.MaxPool2D),
    "mean": _mean,
    "requantize": _requantize,
    "concatenate": _concatenate,
    "pad": _pad,
    "resize_nearest": _resize,
    "softmax": _softmax,
    "residual": _residual,
}
