# SPDX-License-Identifier: Apache-2.0
"""What each node of a quantized ONNX graph means.

In:   nodes, in the file's order; the OnnxGraph that they add to.
Out:  values of their outputs, and operators of the network.
Next: read_onnx.py calls read_node for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from loadstone.prove.onnx import moves
from loadstone.prove.onnx.averages import average_pool, global_average_pool, reduce_mean
from loadstone.prove.onnx.file import NodeRecord
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.resize import resize
from loadstone.prove.onnx.values import (
    ConstantValue,
    Moved,
    Pending,
    QuantizedConstant,
    RealLevels,
    Reals,
    Value,
)
from loadstone.prove.onnx.weighted import conv, gemm, geometry, matmul

__all__ = ["read_node"]


def read_node(graph: OnnxGraph, node: NodeRecord) -> None:
    """Adds a node: its value, and what the network computes for it."""
    taken = _TAKEN.get(node.kind)
    if taken is None:
        raise graph.refusal(node, "is not known", f"a proof knows {', '.join(sorted(_TAKEN))}")
    for name, value in node.attributes.items():
        if name not in taken.attributes and _IGNORED.get(name) != value:
            raise graph.refusal(node, f"has {name}={value}", "leave it at its default")
    graph.values[node.outputs[0]] = taken.read(graph, node)


# -- quantizers ------------------------------------------------------------------------------------


def _quantize(g: OnnxGraph, node: NodeRecord) -> Value:
    return g.quantize(node, g.value(node, 0), g.scale(node, 1, "uint8"))


def _dequantize(g: OnnxGraph, node: NodeRecord) -> Value:
    return g.dequantize(node, 0, 1, node.integer("axis", 1))


def _on_integers(
    read: Callable[[OnnxGraph, NodeRecord], Value],
    inputs: Sequence[int],
    output: int,
    axis: int = 1,
) -> Callable[[OnnxGraph, NodeRecord], Value]:
    """An operator on integers as the float one between quantizers. inputs: places of levels, each
    with its scale and zero point behind it; output: the place of the output's scale."""

    def reader(g: OnnxGraph, node: NodeRecord) -> Value:
        names = []
        for place in inputs:
            name = f"{node.outputs[0]} input {place}"
            g.values[name] = g.dequantize(
                node, place, place + 1, 0 if node.kind == "QLinearConv" else axis
            )
            names.append(name)
        bias = {"QLinearConv": 8, "QGemm": 6}.get(node.kind)
        if bias is not None and g.value(node, bias) is not None:
            names.append(_integer_bias(g, node, bias))
        scale = g.scale(node, output, "uint8")
        attributes = {
            k: v for k, v in node.attributes.items() if k not in ("channels_last", "opset")
        }
        inner = replace(node, inputs=tuple(names), attributes=attributes)
        return g.quantize(node, read(g, inner), scale)

    return reader


def _integer_bias(g: OnnxGraph, node: NodeRecord, place: int) -> str:
    """The int32 bias of QLinearConv and QGemm, which has the scale of the sums."""
    x, w = (np.asarray(g.constant(node, of), np.float32).reshape(-1) for of in (1, 4))
    data = g.constant(node, place)
    name = f"{node.outputs[0]} bias"
    g.values[name] = QuantizedConstant(data, x * w, np.zeros(w.size, np.int64), 0)
    return name


def _qgemm(g: OnnxGraph, node: NodeRecord) -> Value:
    """The scales of its weights lie along the output's channels; without a scale of its own its
    result is real, which no proof knows."""
    if g.value(node, 7) is None:
        raise g.refusal(node, "gives real numbers", "give it the scale of its output")
    axis = 0 if node.integer("transB", 0) else 1
    return _on_integers(gemm, (0, 3), 7, axis)(g, node)


def _concat_on_integers(g: OnnxGraph, node: NodeRecord) -> Value:
    names = []
    for place in range(2, len(node.inputs), 3):
        names.append(f"{node.outputs[0]} input {place}")
        g.values[names[-1]] = g.dequantize(node, place, place + 1, 1)
    inner = replace(node, inputs=tuple(names))
    return g.quantize(node, moves.concat(g, inner), g.scale(node, 0, "uint8"))


# -- element by element ----------------------------------------------------------------------------

_Two: TypeAlias = Callable[[Reals, Reals], Reals]


def _binary(function: _Two, kind: str) -> Callable[[OnnxGraph, NodeRecord], Value]:
    def reader(g: OnnxGraph, node: NodeRecord) -> Value:
        first, second = g.value(node, 0), g.value(node, 1)
        for sums, bias in ((first, second), (second, first)):
            if isinstance(sums, Pending) and isinstance(bias, ConstantValue | QuantizedConstant):
                return _with_bias(g, node, sums, bias, kind)
        if isinstance(second, ConstantValue):
            return _by_constant(g, node, lambda x, c: function(x, c), 0, second, kind)
        if isinstance(first, ConstantValue):
            return _by_constant(g, node, lambda x, c: function(c, x), 1, first, kind)
        a, b = g.real(node, 0), g.real(node, 1)
        if len(a.sources) > 1 or len(b.sources) > 1 or a.axis is not None or b.axis is not None:
            raise g.refusal(node, "is a function of three tensors", "quantize between them")
        if a.sources == b.sources:
            return replace(a, reals=function(a.reals, b.reals), scale=None, kind="table")
        shape = np.broadcast_shapes(a.shape, b.shape)
        reals = function(a.reals[:, None], b.reals[None, :])
        return RealLevels((*a.sources, *b.sources), shape, reals, kind=kind)

    return reader


def _with_bias(
    g: OnnxGraph,
    node: NodeRecord,
    sums: Pending,
    bias: ConstantValue | QuantizedConstant,
    kind: str,
) -> Pending:
    """A product whose bias is added by a node of its own."""
    plain = math.isinf(sums.low) and math.isinf(sums.high) and sums.bias is None
    channels = sums.unit.size if sums.unit is not None else 0
    if kind != "add" or sums.kind != "dense" or not plain or bias.data.size not in (1, channels):
        raise g.refusal(node, f"follows {sums.kind} without QuantizeLinear", "put one between them")
    return replace(sums, bias=bias)


def _by_constant(
    g: OnnxGraph, node: NodeRecord, function: _Two, place: int, constant: ConstantValue, kind: str
) -> Value:
    """An operator whose other operand is real constants: one, or one for each place of an axis."""
    x, data = g.real(node, place), constant.data.astype(np.float32)
    if len(x.sources) > 1 or x.axis is not None:
        raise g.refusal(
            node, "is a function of two tensors and a constant", "quantize between them"
        )
    if data.size == 1:
        return x.then(lambda reals: function(reals, data.reshape(())))
    around = (1,) * (len(x.shape) - data.ndim) + data.shape
    axes = [k for k, n in enumerate(around) if n > 1]
    if len(axes) != 1 or x.shape[axes[0]] != data.size:
        raise g.refusal(
            node, f"has a constant of shape {list(data.shape)}", "one axis is understood"
        )
    reals = function(x.reals[None, :], data.reshape(-1, 1))
    return replace(x, reals=reals, scale=None, axis=axes[0], kind=kind)


def _unary(function: Callable[[Reals], Reals]) -> Callable[[OnnxGraph, NodeRecord], Value]:
    return lambda g, node: g.real(node, 0).then(function)


def _logistic(x: Reals) -> Reals:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))), np.float32)


def _tanh(x: Reals) -> Reals:
    return np.tanh(x.astype(np.float64)).astype(np.float32)


def _leaky_relu(g: OnnxGraph, node: NodeRecord) -> Value:
    alpha = np.float32(node.attributes.get("alpha", 0.01))  # type: ignore[arg-type]
    return g.real(node, 0).then(lambda x: np.where(x >= 0, x, x * alpha))


def _clamp(g: OnnxGraph, node: NodeRecord, low: float, high: float) -> Value:
    value = g.value(node, 0)
    if isinstance(value, Pending):
        return value.clamped(low, high)
    limits = np.float32(low), np.float32(high)
    return g.real(node, 0).then(lambda x: np.minimum(np.maximum(x, limits[0]), limits[1]))


def _relu(g: OnnxGraph, node: NodeRecord) -> Value:
    return _clamp(g, node, 0.0, math.inf)


def _clip(g: OnnxGraph, node: NodeRecord) -> Value:
    bounds = []
    for place, name, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        if g.value(node, place) is not None:
            data = g.constant(node, place)
            if data.size != 1:
                raise g.refusal(
                    node, f"has bounds of shape {list(data.shape)}", "one is understood"
                )
            bounds.append(float(np.float32(data.reshape(-1)[0])))
        else:
            bounds.append(float(np.float32(node.attributes.get(name, default))))  # type: ignore[arg-type]
    return _clamp(g, node, *bounds)


def _batch_normalization(g: OnnxGraph, node: NodeRecord) -> Value:
    """Inference: x times a scale and plus an offset of each channel, in float32."""
    x = g.real(node, 0)
    gamma, beta, mean, variance = (
        np.asarray(g.constant(node, place), np.float32).reshape(-1) for place in range(1, 5)
    )
    if len(x.sources) > 1 or x.axis is not None or x.shape[1] != gamma.size:
        raise g.refusal(node, "normalizes what is no tensor of levels", "quantize before it")
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))  # type: ignore[arg-type]
    scale = gamma / np.sqrt(variance + epsilon)
    offset = beta - mean * scale
    reals = x.reals[None, :] * scale[:, None] + offset[:, None]
    return replace(x, reals=reals, scale=None, axis=1, kind="channel_table")


# -- largest, softmax -------------------------------------------------------------------------


def _max_pool(g: OnnxGraph, node: NodeRecord) -> Value:
    """Levels keep the order of real numbers, so that it moves them; also between integers."""
    value = g.value(node, 0)
    index, shape, scale = moves.tensor_of(g, node)
    kernel = shape[2:] if node.kind == "GlobalMaxPool" else node.integers("kernel_shape", ())
    window, size = geometry(g, node, shape[2:], kernel)
    if window.pop("dilations") != (1, 1) or len(node.outputs) > 1:
        raise g.refusal(node, "is dilated or gives positions", "a plain window is understood")
    source = g.tensors[index]
    low, high = (int(v) for v in (np.iinfo(source.dtype).min, np.iinfo(source.dtype).max))
    output = replace(source, name=node.outputs[0], shape=(*shape[:2], *size), data=None)
    attributes = {**window, "kernel": kernel, "low": low, "high": high}
    made = g.emit(node, "max_pool", (index,), output, attributes)
    if isinstance(value, RealLevels):
        assert scale is not None
        return RealLevels((made,), output.shape, scale.reals(), scale)
    return Moved(made, output.shape)


def _softmax(g: OnnxGraph, node: NodeRecord) -> Value:
    x, _ = g.dequantized(node, 0)
    rank = len(x.shape)
    axis = node.integer("axis", -1 if g.model.opset >= 13 else 1) % rank
    if axis != rank - 1:
        raise g.refusal(node, f"is over axis {axis} of {rank}", "the last one is understood")
    return Pending("softmax", x.sources, x.shape, {"axis": axis, "beta": 1.0, "arithmetic": "onnx"})


class _Taken(NamedTuple):
    """read: its function. attributes: those that it reads."""

    read: Callable[[OnnxGraph, NodeRecord], Value]
    attributes: tuple[str, ...] = ()


#: Attributes that change nothing at these values, or nothing at all.
_IGNORED: dict[str, object] = {
    "auto_pad": "NOTSET",
    "ceil_mode": 0,
    "storage_order": 0,
    "training_mode": 0,
    "channels_last": 0,
    "allowzero": 0,
    "saturate": 1,
    "block_size": 0,
    "output_dtype": 0,
    "noop_with_empty_axes": 0,
}
_WINDOW = ("kernel_shape", "strides", "pads", "dilations")
_CONV = (*_WINDOW, "group")
_AVERAGE = (*_WINDOW, "count_include_pad")
_RESIZE = ("mode", "nearest_mode", "coordinate_transformation_mode", "cubic_coeff_a")
_CONSTANTS = ("value", "value_int", "value_ints", "value_float", "value_floats")
_TAKEN = {
    "Add": _Taken(_binary(np.add, "add")),
    "AveragePool": _Taken(average_pool, _AVERAGE),
    "BatchNormalization": _Taken(_batch_normalization, ("epsilon", "momentum")),
    "Cast": _Taken(moves.cast, ("to",)),
    "Clip": _Taken(_clip, ("min", "max")),
    "Concat": _Taken(moves.concat, ("axis",)),
    "Constant": _Taken(moves.constant, _CONSTANTS),
    "Conv": _Taken(conv, _CONV),
    "DequantizeLinear": _Taken(_dequantize, ("axis",)),
    "Dropout": _Taken(moves.identity, ("seed", "ratio")),
    "Flatten": _Taken(moves.folded(moves.flatten), ("axis",)),
    "Gather": _Taken(moves.gather, ("axis",)),
    "Gemm": _Taken(gemm, ("alpha", "beta", "transA", "transB")),
    "GlobalAveragePool": _Taken(global_average_pool),
    "GlobalMaxPool": _Taken(_max_pool),
    "Identity": _Taken(moves.identity),
    "LeakyRelu": _Taken(_leaky_relu, ("alpha",)),
    "MatMul": _Taken(matmul),
    "MaxPool": _Taken(_max_pool, _WINDOW),
    "Mul": _Taken(_binary(np.multiply, "mul")),
    "Pad": _Taken(moves.pad, ("mode",)),
    "QGemm": _Taken(_qgemm, ("alpha", "transA", "transB")),
    "QLinearAdd": _Taken(_on_integers(_binary(np.add, "add"), (0, 3), 6)),
    "QLinearAveragePool": _Taken(_on_integers(average_pool, (0,), 3), _AVERAGE),
    "QLinearConcat": _Taken(_concat_on_integers, ("axis",)),
    "QLinearConv": _Taken(_on_integers(conv, (0, 3), 6, axis=0), _CONV),
    "QLinearGlobalAveragePool": _Taken(_on_integers(global_average_pool, (0,), 3)),
    "QLinearLeakyRelu": _Taken(_on_integers(_leaky_relu, (0,), 3), ("alpha",)),
    "QLinearMatMul": _Taken(_on_integers(matmul, (0, 3), 6)),
    "QLinearMul": _Taken(_on_integers(_binary(np.multiply, "mul"), (0, 3), 6)),
    "QLinearSigmoid": _Taken(_on_integers(_unary(_logistic), (0,), 3)),
    "QLinearSoftmax": _Taken(_on_integers(_softmax, (0,), 3), ("axis", "opset")),
    "QuantizeLinear": _Taken(_quantize, ("axis",)),
    "ReduceMean": _Taken(reduce_mean, ("axes", "keepdims")),
    "Relu": _Taken(_relu),
    "Resize": _Taken(resize, _RESIZE),
    "Reshape": _Taken(moves.folded(moves.reshape)),
    "Shape": _Taken(moves.shape_of),
    "Sigmoid": _Taken(_unary(_logistic)),
    "Slice": _Taken(moves.strided),
    "Softmax": _Taken(_softmax, ("axis",)),
    "Squeeze": _Taken(moves.folded(moves.squeeze), ("axes",)),
    "Sub": _Taken(_binary(np.subtract, "sub")),
    "Tanh": _Taken(_unary(_tanh)),
    "Transpose": _Taken(moves.transpose, ("perm",)),
    "Unsqueeze": _Taken(moves.folded(moves.unsqueeze), ("axes",)),
}
