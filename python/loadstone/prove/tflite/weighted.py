# SPDX-License-Identifier: Apache-2.0
"""LiteRT's sums of products: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL.

In:   operators of a .tflite file; the TfliteGraph that they add to.
Out:  operators of the network, with the requantization of their sums.
Next: operators.py names them in its table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelTensor
from loadstone.prove.requantize import Away, Double, Requantizer
from loadstone.prove.tflite.file import TfliteOperator
from loadstone.prove.tflite.geometry import window
from loadstone.prove.tflite.graph import EIGHT_BITS, TfliteGraph
from loadstone.prove.tflite.levels import limits, product_scale

__all__ = ["batch_matmul", "convolution", "dense"]


def _weights(
    g: TfliteGraph, o: TfliteOperator, order: tuple[int, ...], axis: int
) -> tuple[ModelTensor, int, NDArray[np.float64]]:
    """Weights with the output's channels first, the index of them, and a scale for each channel."""
    stored = g.tensors[o.inputs[1]]
    data = g.constant(o, 1)
    if data.ndim != len(order):
        raise g.refusal(
            o, f"has weights of shape {list(data.shape)}", f"{len(order)} axes are understood"
        )
    if stored.dtype not in EIGHT_BITS or not stored.scales:
        raise g.refusal(
            o, f"has weights of {stored.dtype}", "quantized int8 and uint8 are understood"
        )
    if stored.axis not in (None, axis):
        raise g.refusal(
            o, f"has scales along axis {stored.axis} of its weights", f"axis {axis} is read"
        )
    if stored.dtype == "int8" and any(stored.zero_points):
        raise g.refusal(
            o, "has int8 weights with a zero point", "LiteRT takes 0 for granted: make it 0"
        )
    moved = np.ascontiguousarray(data.transpose(order))
    channels = moved.shape[0]
    made = replace(stored, shape=moved.shape, data=moved, axis=None if stored.axis is None else 0)
    return made, g.add(made), np.broadcast_to(np.array(stored.scales, np.float64), (channels,))


def _bias(g: TfliteGraph, o: TfliteOperator, channels: int) -> int:
    if len(o.inputs) < 3 or o.inputs[2] < 0:
        return -1
    data = g.constant(o, 2)
    if data.dtype != np.int32 or data.size != channels:
        raise g.refusal(
            o,
            f"has a bias of {data.dtype} and shape {list(data.shape)}",
            f"int32 and [{channels}] are understood",
        )
    return o.inputs[2]


def convolution(g: TfliteGraph, o: TfliteOperator) -> None:
    """CONV_2D and DEPTHWISE_CONV_2D: a scale for each channel, rounded twice."""
    x, y = g.levels(o, 0)
    deep = o.code == "DEPTHWISE_CONV_2D"
    order, axis = ((3, 1, 2, 0), 3) if deep else ((0, 1, 2, 3), 0)
    weights, index, scales = _weights(g, o, order, axis)
    if len(x.shape) != 4:
        raise g.refusal(o, f"has an input of shape {list(x.shape)}", "4 axes are understood")
    channels, kernel, per = weights.shape[0], weights.shape[1:3], weights.shape[3]
    groups = x.shape[3] if deep else x.shape[3] // max(per, 1)
    if per == 0 or per * groups != x.shape[3] or channels % max(groups, 1):
        raise g.refusal(
            o,
            f"has weights of shape {list(weights.shape)} (output, y, x, input) for "
            f"{x.shape[3]} channels",
            "whole groups of channels are understood",
        )
    bias = _bias(g, o, channels)
    geometry = window(o, x.shape[1:3], kernel, dilated=True)
    if geometry is None:
        raise g.refusal(
            o, "has a stride, a dilation or a padding that means nothing", "convert it anew"
        )
    g.expect(o, (x.shape[0], *geometry.size, channels))
    if x.dtype == "uint8":  # the kernel of one scale multiplies two float32
        if len(weights.scales) != 1:
            raise g.refusal(
                o, "has uint8 activations and a scale for each channel", "int8 is understood"
            )
        shared = np.float32(x.scale) * np.float32(weights.scales[0])
        reals = np.broadcast_to(np.float64(shared) / y.scale, (channels,))
    else:
        reals = x.scale * scales / y.scale
    g.emit(
        "depthwise_conv2d" if deep else "conv2d",
        o,
        (o.inputs[0], index, bias),
        layout="NHWC",
        strides=geometry.strides,
        dilations=geometry.dilations,
        pads=geometry.pads,
        groups=groups,
        requantization=Requantizer(Double.of(reals), y.zero_point, *g.clamp(o)),
    )


def dense(g: TfliteGraph, o: TfliteOperator) -> None:
    """FULLY_CONNECTED: scales in float64, half away from zero."""
    x, y = g.levels(o, 0)
    weights, index, scales = _weights(g, o, (0, 1), 0)
    channels, inputs = weights.shape
    if inputs == 0 or int(np.prod(x.shape)) % inputs:
        raise g.refusal(
            o, f"has {inputs} weights a channel for {list(x.shape)}", "rows must be whole"
        )
    rows = int(np.prod(x.shape)) // inputs
    keeps = bool(o.option("KeepNumDims"))
    g.expect(o, (*x.shape[:-1], channels) if keeps else (rows, channels))
    reals = x.scale * scales / y.scale
    g.emit(
        "dense",
        o,
        (o.inputs[0], index, _bias(g, o, channels)),
        requantization=Requantizer(Away(reals), y.zero_point, *g.clamp(o)),
    )


def batch_matmul(g: TfliteGraph, o: TfliteOperator) -> None:
    """BATCH_MATMUL of two tensors of levels: one scale, rounded twice."""
    a, b, y = g.levels(o, 0, 1)
    flips = bool(o.option("AdjX")), bool(o.option("AdjY"))
    shapes = [
        (*t.shape[:-2], *(t.shape[:-3:-1] if flip else t.shape[-2:]))
        for t, flip in zip((a, b), flips, strict=True)
    ]
    if min(len(shape) for shape in shapes) < 2 or shapes[0][-1] != shapes[1][-2]:
        raise g.refusal(
            o, f"multiplies {list(a.shape)} and {list(b.shape)}", "matrices are understood"
        )
    batch = g.broadcast(o, shapes[0][:-2], shapes[1][:-2])
    g.expect(o, (*batch, shapes[0][-2], shapes[1][-1]))
    scaling = Double.of(np.array([product_scale(a, b, y)]))
    g.emit(
        "batch_matmul",
        o,
        o.inputs,
        transpose_a=flips[0],
        transpose_b=flips[1],
        requantization=Requantizer(scaling, y.zero_point, *limits(y.dtype)),
    )
