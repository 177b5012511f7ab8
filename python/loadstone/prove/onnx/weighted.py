# SPDX-License-Identifier: Apache-2.0
"""Conv, MatMul and Gemm of levels: integer sums, scaled in float32.

In:   nodes; the OnnxGraph that they add to.
Out:  Pending values, which QuantizeLinear requantizes.
Next: operators.py names them in its table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelTensor
from loadstone.prove.onnx.file import NodeRecord
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.values import ConstantValue, Pending, QuantizedConstant, Value

__all__ = ["conv", "gemm", "geometry", "matmul"]


def _stored_weights(g: OnnxGraph, node: NodeRecord, place: int) -> QuantizedConstant:
    value = g.value(node, place)
    if not isinstance(value, QuantizedConstant) or value.data.dtype.itemsize != 1:
        raise g.refusal(
            node, f"has weights at input {place} that are no constant levels", "make them so"
        )
    return value


def _weights(
    g: OnnxGraph,
    node: NodeRecord,
    stored: QuantizedConstant,
    order: tuple[int, ...],
    channel_axis: int,
) -> tuple[int, NDArray[np.float32]]:
    """The tensor of weights with the output's channels first, and a scale for each channel."""
    if stored.scales.size > 1 and stored.axis != channel_axis:
        raise g.refusal(
            node, f"has scales along axis {stored.axis} of its weights", "quantize by output"
        )
    moved = np.ascontiguousarray(stored.data.transpose(order))
    many = stored.scales.size > 1
    tensor = ModelTensor(
        f"{node.outputs[0]} weights",
        moved.shape,
        moved.dtype.name,
        tuple(float(scale) for scale in stored.scales),
        tuple(int(zero) for zero in stored.zero_points),
        0 if many else None,
        moved,
    )
    scales = np.broadcast_to(stored.scales, (moved.shape[0],))
    return g.tensor(tensor), scales


def _bias_of(
    g: OnnxGraph, node: NodeRecord, place: int
) -> ConstantValue | QuantizedConstant | None:
    value = g.value(node, place)
    if value is None or isinstance(value, ConstantValue | QuantizedConstant):
        return value
    raise g.refusal(node, "has a bias that is no constant", "make it one")


def conv(g: OnnxGraph, node: NodeRecord) -> Value:
    """Conv: integer sums of each output channel."""
    x, scale = g.dequantized(node, 0)
    stored = _stored_weights(g, node, 1)
    if len(x.shape) != 4 or stored.data.ndim != 4:
        raise g.refusal(
            node, f"convolves {list(x.shape)}", "rows and columns of 4 axes are understood"
        )
    channels, per, *kernel = stored.data.shape
    groups = node.integer("group", 1)
    stated = node.integers("kernel_shape", tuple(kernel))
    if per * groups != x.shape[1] or channels % groups or stated != tuple(kernel):
        raise g.refusal(
            node,
            f"has weights of shape {list(stored.data.shape)} for {x.shape[1]} channels",
            "whole groups of channels are understood",
        )
    window, size = geometry(g, node, x.shape[2:], kernel)
    index, scales = _weights(g, node, stored, (0, 2, 3, 1), 0)
    deep = groups == x.shape[1] and per == 1
    return Pending(
        "depthwise_conv2d" if deep else "conv2d",
        (x.sources[0], index),
        (x.shape[0], channels, *size),
        {**window, "groups": groups},
        np.float32(scale.scale) * scales,
        _bias_of(g, node, 2),
    )


def geometry(
    g: OnnxGraph, node: NodeRecord, inside: Sequence[int], kernel: Sequence[int]
) -> tuple[dict[str, object], tuple[int, ...]]:
    """Attributes of a window over NCHW, and the output's rows and columns."""
    strides, dilations = node.integers("strides", (1, 1)), node.integers("dilations", (1, 1))
    pads = node.integers("pads", (0, 0, 0, 0))
    if len(kernel) != 2 or len(strides) != 2 or len(dilations) != 2 or len(pads) != 4:
        raise g.refusal(node, f"has a window of {len(kernel)} axes", "two are understood")
    if min(*strides, *dilations, *kernel) < 1 or min(pads) < 0:
        raise g.refusal(
            node, f"has strides {strides}, dilations {dilations}, pads {pads}", "export anew"
        )
    around = pads[0] + pads[2], pads[1] + pads[3]
    size = tuple(
        (n + p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(inside, around, dilations, kernel, strides, strict=True)
    )
    if min(size) < 1:
        raise g.refusal(node, f"has a window of {list(kernel)} on {list(inside)}", "export it anew")
    common: dict[str, object] = {"layout": "NCHW", "strides": strides, "pads": pads}
    return {**common, "dilations": dilations}, size


def matmul(g: OnnxGraph, node: NodeRecord) -> Value:
    """MatMul by constant weights, or of two tensors of levels."""
    x, scale = g.dequantized(node, 0)
    right = g.value(node, 1)
    if isinstance(right, QuantizedConstant) and right.data.ndim == 2:
        return _dense(g, node, right, None, transposed=False)
    y, other = g.dequantized(node, 1)
    if min(len(x.shape), len(y.shape)) < 2 or x.shape[-1] != y.shape[-2]:
        raise g.refusal(
            node, f"multiplies {list(x.shape)} and {list(y.shape)}", "matrices are understood"
        )
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return Pending(
        "batch_matmul",
        (x.sources[0], y.sources[0]),
        (*batch, x.shape[-2], y.shape[-1]),
        {"transpose_a": False, "transpose_b": False},
        np.array([np.float32(scale.scale) * np.float32(other.scale)], np.float32),
    )


def _dense(
    g: OnnxGraph,
    node: NodeRecord,
    stored: QuantizedConstant,
    bias: ConstantValue | QuantizedConstant | None,
    *,
    transposed: bool,
) -> Pending:
    x, scale = g.dequantized(node, 0)
    index, scales = _weights(
        g, node, stored, (0, 1) if transposed else (1, 0), 0 if transposed else 1
    )
    inputs = g.tensors[index].shape[1]
    if x.shape[-1:] != (inputs,):
        raise g.refusal(
            node, f"has {inputs} weights a channel for {list(x.shape)}", "they must fit"
        )
    shape = (*x.shape[:-1], scales.size)
    unit = np.float32(scale.scale) * scales
    return Pending("dense", (x.sources[0], index), shape, {}, unit, bias)


def gemm(g: OnnxGraph, node: NodeRecord) -> Value:
    """Gemm with alpha and beta 1, its first operand as it is."""
    for name, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
        if node.attributes.get(name, wanted) != wanted:
            raise g.refusal(
                node, f"has {name}={node.attributes[name]}", f"{wanted:g} is understood"
            )
    stored = _stored_weights(g, node, 1)
    if stored.data.ndim != 2:
        raise g.refusal(node, f"has weights of {stored.data.ndim} axes", "2 are understood")
    transposed = bool(node.integer("transB", 0))
    return _dense(g, node, stored, _bias_of(g, node, 2), transposed=transposed)
