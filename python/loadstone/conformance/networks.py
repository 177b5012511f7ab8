# SPDX-License-Identifier: Apache-2.0
"""Small networks with which a back end is tested: a tensor between two operators stays with the
back end, in a layout that it chooses, or goes to the host and back.

In:   a random generator; the operators of conformance/draw.py.
Out:  NETWORKS: for each kind, a function that makes a Graph for one sample.
Next: conformance/check.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from loadstone import graph as g
from loadstone.conformance.draw import FRAMEWORKS, Rng, convolution, dense, grid, image, pick
from loadstone.numerics import Rounding

__all__ = ["NETWORKS"]

SAME: g.Fields = {"kernel": (3, 3), "strides": (1, 1), "padding": (1, 1, 1, 1)}
POINT: g.Fields = {"kernel": (1, 1), "strides": (1, 1), "padding": (0, 0, 0, 0)}


def _network(name: str, x: g.Tensor, operators: list[g.Operator], *outputs: g.Tensor) -> g.Graph:
    return g.Graph(name=name, inputs=(x,), outputs=outputs, operators=tuple(operators))


def _sum(a: g.Tensor, b: g.Tensor, name: str, rounding: Rounding) -> g.Add:
    levels = g.Quantization(float(np.float32(1.5 * max(a.scale, b.scale))), -3)
    total = g.Tensor(name, a.shape, "int8", levels)
    return g.Add(name=name, inputs=(a, b), outputs=(total,), rounding=rounding, low=-3, high=127)


def _joined(parts: list[g.Tensor], name: str, rounding: Rounding) -> g.Concatenate:
    shape = (*parts[0].shape[:3], sum(part.shape[3] for part in parts))
    y = g.Tensor(name, shape, "int8", parts[0].quantization)
    return g.Concatenate(
        name=name, inputs=tuple(parts), outputs=(y,), axis=3, low=-128, high=127, rounding=rounding
    )


def _global_mean(x: g.Tensor, name: str, rounding: Rounding, *, keep: bool = False) -> g.Mean:
    shape = (1, 1, 1, x.shape[3]) if keep else (1, x.shape[3])
    y = g.Tensor(name, shape, "int8", x.quantization)
    return g.Mean(
        name=name, inputs=(x,), outputs=(y,), axes=(1, 2), low=-128, high=127, rounding=rounding
    )


def _residual(rng: Rng) -> g.Graph:
    """Two convolutions in a row, one beside them, their sum, its convolution: a block of ResNet.
    The sum is an output, too."""
    rounding, channels, x = pick(rng, FRAMEWORKS), int(pick(rng, (8, 16, 20))), image(rng)
    first = convolution(rng, x, channels, "first", rounding, **SAME)
    second = convolution(rng, first.output, channels, "second", rounding, **SAME)
    beside = convolution(rng, x, channels, "beside", rounding, **POINT)
    total = _sum(second.output, beside.output, "sum", rounding)
    last = convolution(
        rng, total.output, 5, "last", rounding, kernel=(1, 1), strides=(2, 2), padding=(0, 0, 0, 0)
    )
    return _network("residual", x, [first, second, beside, total, last], total.output, last.output)


def _separable(rng: Rng) -> g.Graph:
    """Depthwise and pointwise in turns, as in MobileNet; explicit pads before a stride."""
    rounding, x = pick(rng, FRAMEWORKS), image(rng, channels=int(pick(rng, (8, 16, 24))))
    shape = (1, x.shape[1] + 1, x.shape[2] + 1, x.shape[3])
    padded = g.Tensor("padded", shape, "int8", x.quantization)
    pad = g.Pad(
        name="padded",
        inputs=(x,),
        outputs=(padded,),
        before=(0, 0, 0, 0),
        after=(0, 1, 1, 0),
        value=x.zero_point,
    )
    stride: g.Fields = {"kernel": (3, 3), "strides": (2, 2), "padding": (0, 0, 0, 0)}
    deep = convolution(rng, padded, x.shape[3], "deep", rounding, groups=x.shape[3], **stride)
    point = convolution(rng, deep.output, 20, "point", rounding, **POINT)
    deeper = convolution(rng, point.output, 20, "deeper", rounding, groups=20, **SAME)
    last = convolution(rng, deeper.output, 7, "last", rounding, **POINT)
    return _network("separable", x, [pad, deep, point, deeper, last], last.output)


def _branches(rng: Rng) -> g.Graph:
    """A pool and two convolutions beside each other, concatenated: a block of Inception or
    SqueezeNet."""
    rounding, x = pick(rng, FRAMEWORKS), image(rng)
    squeezed = convolution(rng, x, 16, "squeezed", rounding, **POINT)
    y = g.Tensor("pooled", squeezed.output.shape, "int8", squeezed.output.quantization)
    pool = g.MaxPool2D(
        name="pooled",
        inputs=(squeezed.output,),
        outputs=(y,),
        **SAME,
        low=-128,
        high=127,
        rounding=rounding,
    )
    wide = convolution(rng, squeezed.output, int(pick(rng, (16, 20))), "wide", rounding, **SAME)
    tensor = g.Tensor("rescaled", wide.output.shape, "int8", y.quantization)
    rescale = g.Requantize(
        name="rescaled",
        inputs=(wide.output,),
        outputs=(tensor,),
        low=-128,
        high=127,
        rounding=rounding,
    )
    joined = _joined([y, tensor], "joined", rounding)
    last = convolution(rng, joined.output, 6, "last", rounding, **POINT)
    return _network("branches", x, [squeezed, pool, wide, rescale, joined, last], last.output)


def _classifier(rng: Rng) -> g.Graph:
    """Convolution, global mean, dense layer, softmax: the end of most networks."""
    rounding, x = pick(rng, FRAMEWORKS), image(rng)
    features = convolution(rng, x, int(pick(rng, (8, 16, 40))), "features", rounding, **SAME)
    mean = _global_mean(features.output, "mean", rounding)
    logits = dense(rng, mean.output, 10, "logits", pick(rng, tuple(Rounding)))
    y = g.Tensor("classes", (1, 10), "int8", g.Quantization(1 / 256, -128))
    softmax = g.Softmax(
        name="classes", inputs=(logits.output,), outputs=(y,), rounding=Rounding.DOUBLE
    )
    return _network("classifier", x, [features, mean, logits, softmax], y, logits.output)


def _autoencoder(rng: Rng) -> g.Graph:
    """Dense layers in a row, narrow in the middle."""
    rounding = pick(rng, tuple(Rounding))
    x = g.Tensor("x", (1, 64), "int8", grid(rng))
    operators: list[g.Operator] = []
    for name, width in (("wide", 48), ("narrow", 8), ("wider", 40), ("y", 64)):
        operators.append(
            dense(rng, operators[-1].output if operators else x, width, name, rounding)
        )
    return _network("autoencoder", x, operators, operators[-1].output)


def _upsampling(rng: Rng) -> g.Graph:
    """Down, up, and the image of before beside it: a step of U-Net or of a feature pyramid."""
    rounding, x = (
        pick(rng, FRAMEWORKS),
        g.Tensor("x", (1, 2 * int(rng.integers(2, 6)), 8, 16), "int8", grid(rng)),
    )
    down = convolution(
        rng, x, 16, "down", rounding, kernel=(2, 2), strides=(2, 2), padding=(0, 0, 0, 0)
    )
    up = g.Tensor("up", x.shape, "int8", down.output.quantization)
    positions: g.Fields = {
        "align_corners": False,
        "half_pixel_centers": False,
        "rounding": rounding,
    }
    resize = g.ResizeNearest(name="up", inputs=(down.output,), outputs=(up,), **positions)
    tensor = g.Tensor("beside", x.shape, "int8", up.quantization)
    beside = g.Requantize(
        name="beside", inputs=(x,), outputs=(tensor,), low=-128, high=127, rounding=rounding
    )
    joined = _joined([up, tensor], "joined", rounding)
    last = convolution(rng, joined.output, 8, "last", rounding, **SAME)
    return _network("upsampling", x, [down, resize, beside, joined, last], last.output)


def _excitation(rng: Rng) -> g.Graph:
    """A channel's weight from its mean, through a table: squeeze and excitation."""
    rounding, x = pick(rng, FRAMEWORKS), image(rng, channels=16)
    mean = _global_mean(x, "mean", rounding, keep=True)
    narrow = convolution(rng, mean.output, 4, "narrow", rounding, **POINT)
    wide = convolution(rng, narrow.output, 16, "wide", rounding, **POINT)
    real = 1 / (1 + np.exp(-wide.output.scale * (np.arange(-128.0, 128) - wide.output.zero_point)))
    gate = g.Tensor("gate", wide.output.shape, "int8", g.Quantization(1 / 256, -128))
    table = np.rint(real * 256 - 128).clip(-128, 127).astype(np.int8)
    lookup = g.Lookup(name="gate", inputs=(wide.output,), outputs=(gate,), table=table)
    y = g.Tensor("y", x.shape, "int8", g.Quantization(float(np.float32(x.scale)), x.zero_point))
    product = g.Mul(name="y", inputs=(x, gate), outputs=(y,), rounding=rounding, low=-128, high=127)
    return _network("excitation", x, [mean, narrow, wide, lookup, product], y)


#: Kind -> what makes a case of it.
NETWORKS: Mapping[str, Callable[[Rng], g.Graph]] = {
    "residual": _residual,
    "separable": _separable,
    "branches": _branches,
    "classifier": _classifier,
    "autoencoder": _autoencoder,
    "upsampling": _upsampling,
    "excitation": _excitation,
}
