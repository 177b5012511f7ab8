# SPDX-License-Identifier: Apache-2.0
"""The results of the operators of graph/, in NumPy: the definition that is executed.

In:   a Graph and arrays for its inputs.
Out:  every tensor of the network, equal to the model's framework to the last bit (for ONNX: by the
      definition in docs/numerics.md).
Next: tests compare the simulator, and the simulator's layers, with it; artifact/host.py fills
      tables from it.

The arithmetic is in loadstone.graph.kernels; this file selects the rule of each operator. It is
slow: MobileNetV2 at 224x224 takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.graph.kernels import onnx, planes, real, tflite
from loadstone.graph.kernels.windows import Geometry, Weights, convolve, windows
from loadstone.numerics import (
    Array,
    Rounding,
    quantize_multiplier,
    requantize_float32,
    requantize_single,
    wrap_int32,
)

__all__ = ["run", "run_all", "run_operator"]

#: An array, as the module that `_rules` picked returns it: mypy does not see through the choice.
_Computed: TypeAlias = Any
_Rules: TypeAlias = Any


class _Rounded(Protocol):
    @property
    def rounding(self) -> Rounding: ...


def run(graph: g.Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of the network, in order, for inputs in order.

    Each array has the shape of its Tensor: batch first, channels last.
    """
    values = run_all(graph, inputs)
    return [values[tensor.name] for tensor in graph.outputs]


def run_all(graph: g.Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor of the network by name, inputs and constants included.

    Each array has the shape of its Tensor: batch first, channels last.
    """
    values: dict[str, Array] = dict(graph.constants)
    for tensor, array in zip(graph.inputs, inputs, strict=True):
        _is_of(tensor, array, f"input {tensor.name}")
        values[tensor.name] = array
    for operator in graph.operators:
        results = run_operator(operator, [values[tensor.name] for tensor in operator.inputs])
        values.update(
            (tensor.name, array) for tensor, array in zip(operator.outputs, results, strict=True)
        )
    return values


def run_operator(operator: g.Operator, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of one operator.

    inputs: the tensors it reads, each of its own shape; arrays that are fields of the operator are
        not among them.
    """
    if isinstance(operator, g.Host):
        from loadstone.relax.saved import run_module  # TVM only for what only TVM knows

        return run_module(operator.function, inputs)
    if type(operator) not in _RULES:
        raise LoweringError(f"graph_reference: no rule for {operator.kind} ({operator.name})")
    result: Array = _RULES[type(operator)](operator, *inputs)
    _is_of(operator.output, result, operator.name)
    return [result]


def _is_of(tensor: g.Tensor, array: Array, name: str) -> None:
    if (array.shape, array.dtype) != (tensor.shape, np.dtype(tensor.dtype)):
        raise AssertionError(
            f"{name}: {array.dtype}{list(array.shape)} is not {tensor.dtype}{list(tensor.shape)}"
        )


# --------------------------------------------------------------------------------------------------
# Multiply and accumulate
# --------------------------------------------------------------------------------------------------


def _conv2d(o: g.Conv2D, x: Array) -> _Computed:
    if o.rounding is Rounding.SINGLE:
        return _conv2d_single(o, x)
    weights = Weights(o.weights, o.bias, o.weight_scales, o.weight_zero_points, o.float32_product)
    geometry = Geometry(o.strides, o.padding, o.dilation, o.groups)
    return _rules(o).conv_2d(
        x, weights, _grid(o.input), _grid(o.output), geometry, limits=(o.low, o.high)
    )


def _conv2d_single(o: g.Conv2D, x: Array) -> Array:
    """Rounded once, ties upward: what an ONNX file says whose scales are powers of two and whose
    biases have half a step of the accumulator more; no sum is a tie then. No other file's rule."""
    kernels = o.weights.astype(np.int64) - o.weight_zero_points.reshape(-1, 1, 1, 1)
    centred = x.astype(np.int64) - o.input.zero_point
    sums = convolve(
        centred, kernels, strides=o.strides, padding=o.padding, dilation=o.dilation, groups=o.groups
    )
    acc = wrap_int32(sums.astype(np.int64) + o.bias)
    multiplier, shift = quantize_multiplier(o.real_scales())
    levels: Array = np.clip(
        requantize_single(acc, multiplier, shift) + o.output.zero_point, o.low, o.high
    ).astype(np.int8)
    return levels


def _dense(o: g.Dense, x: Array) -> _Computed:
    levels, limits = (_grid(o.input), _grid(o.output)), (o.low, o.high)
    constants = o.bias, o.weight_scales, o.weight_zero_points
    if o.rounding is Rounding.DOUBLE:  # TFLite Micro: a 1x1 convolution
        kernels = Weights(o.weights[:, None, None], *constants)
        return tflite.conv_2d(x[:, None, None], kernels, *levels, limits=limits)[:, 0, 0]
    return _rules(o).fully_connected(x, Weights(o.weights, *constants), *levels, limits=limits)


# --------------------------------------------------------------------------------------------------
# Elements
# --------------------------------------------------------------------------------------------------


def _add(o: g.Add, a: Array, b: Array) -> _Computed:
    return _rules(o).add(
        a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), limits=(o.low, o.high)
    )


def _sub(o: g.Sub, a: Array, b: Array) -> _Computed:
    return _rules(o).sub(
        a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), limits=(o.low, o.high)
    )


def _mul(o: g.Mul, a: Array, b: Array) -> _Computed:
    return _rules(o).mul(
        a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), limits=(o.low, o.high)
    )


def _div(o: g.Div, a: Array, b: Array) -> _Computed:
    levels = _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output)
    return tflite.div(a, b, *levels, limits=(o.low, o.high))


def _squared_difference(o: g.SquaredDifference, a: Array, b: Array) -> _Computed:
    levels = _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output)
    return tflite.squared_difference(a, b, *levels)


def _requantize(o: g.Requantize, x: Array) -> _Computed:
    """uint8, at the edge of a uint8 model, is int8 + 128 with a zero point 128 higher."""
    source, target = _signed(o.input), _signed(o.output)
    offset = 128 if o.output.dtype == "uint8" else 0
    signed = (x.astype(np.int16) - (128 if o.input.dtype == "uint8" else 0)).astype(np.int8)
    limits = o.low - offset, o.high - offset
    if source == target:
        result = np.clip(signed, *limits)
    else:
        result = _rules(o).requantize(signed, source, target, limits=limits)
    return (result.astype(np.int16) + offset).astype(o.output.dtype)


def _quantize(o: g.Quantize, x: Array) -> _Computed:
    offset = 128 if o.output.dtype == "uint8" else 0
    signed = _rules(o).quantize(x.astype(np.float32), _signed(o.output))
    return np.clip(signed.astype(np.int16) + offset, o.low, o.high).astype(o.output.dtype)


def _dequantize(o: g.Dequantize, x: Array) -> _Computed:
    return tflite.dequantize(x, _grid(o.input))


def _softmax(o: g.Softmax, x: Array) -> _Computed:
    if o.rounding is Rounding.FLOAT32:
        if o.beta != 1:
            raise AssertionError(f"{o.name}: ONNX's softmax has no beta, and this one {o.beta}")
        return onnx.softmax(x, _grid(o.input), _grid(o.output))
    return tflite.softmax(x, _grid(o.input), o.beta)


def _layer_norm(o: g.LayerNorm, x: Array) -> _Computed:
    return onnx.layer_norm(x, _grid(o.input), _grid(o.output), o.gamma, o.beta, o.epsilon)


def _lookup(o: g.Lookup, x: Array) -> _Computed:
    return o.table[x.astype(np.int16) + 128]


def _argmax(o: g.ArgMax, x: Array) -> _Computed:
    index: Array = np.argmax(x, o.axis).reshape(o.output.shape)
    return index.astype(o.output.dtype)


# --------------------------------------------------------------------------------------------------
# Pools and means
# --------------------------------------------------------------------------------------------------


def _average_pool2d(o: g.AveragePool2D, x: Array) -> _Computed:
    """FLOAT32: the sum of integers, rounded once, as for a convolution and a mean. ONNX's own sum
    of float32 differs at ties."""
    if o.rounding is not Rounding.FLOAT32:
        if o.count_include_pad:
            raise AssertionError(f"{o.name}: TFLite's average counts no pads")
        return tflite.average_pool_2d(
            x,
            o.kernel,
            Geometry(o.strides, o.padding),
            limits=(o.low, o.high),
            unsigned=o.unsigned,
        )
    sums = windows(x.astype(np.int64) - o.input.zero_point, o.kernel, o.strides, o.padding).sum(
        (-2, -1)
    )
    counts = windows(
        np.ones_like(x, np.int64), o.kernel, o.strides, o.padding, fill=float(o.count_include_pad)
    ).sum((-2, -1))
    scales = np.float32(o.input.scale) / (counts.astype(np.float32) * np.float32(o.output.scale))
    steps = requantize_float32(sums.astype(np.int32), scales).astype(np.int64) + o.output.zero_point
    return np.clip(steps, o.low, o.high).astype(np.int8)


def _max_pool2d(o: g.MaxPool2D, x: Array) -> _Computed:
    if o.input.quantization != o.output.quantization:
        raise AssertionError(f"{o.name}: a maximum keeps the scale of its input")
    return tflite.max_pool_2d(x, o.kernel, Geometry(o.strides, o.padding), limits=(o.low, o.high))


def _mean(o: g.Mean, x: Array) -> _Computed:
    means = _rules(o).mean(x, o.axes, _grid(o.input), _grid(o.output))
    return np.clip(means, o.low, o.high).astype(np.int8).reshape(o.output.shape)


def _reduce_sum(o: g.ReduceSum, x: Array) -> _Computed:
    total = tflite.reduce_sum(x, o.axes, _grid(o.input), _grid(o.output))
    return total.reshape(o.output.shape)


def _reduce_product(o: g.ReduceProduct, x: Array) -> _Computed:
    product = tflite.reduce_product(x, o.axes, _grid(o.input), _grid(o.output))
    return product.reshape(o.output.shape)


def _l2_normalize(o: g.L2Normalize, x: Array) -> _Computed:
    return tflite.l2_normalize(x, _grid(o.input), unsigned=o.unsigned)


def _batch_matmul(o: g.BatchMatMul, a: Array, b: Array) -> _Computed:
    b = b.swapaxes(-1, -2) if o.turned else b
    product = _rules(o).batch_matmul(a, b, *(_grid(t) for t in (*o.inputs, o.output)))
    return np.clip(product, o.low, o.high)


# --------------------------------------------------------------------------------------------------
# Movement
# --------------------------------------------------------------------------------------------------


def _concatenate(o: g.Concatenate, *inputs: Array) -> _Computed:
    if o.output.quantization is None:
        return np.concatenate(inputs, o.axis)
    joined = _rules(o).concatenate(
        inputs, [_grid(tensor) for tensor in o.inputs], _grid(o.output), axis=o.axis
    )
    return np.clip(joined, o.low, o.high).astype(np.int8)


def _slice(o: g.Slice, x: Array) -> _Computed:
    ranges = zip(o.begin, o.strides, o.output.shape, strict=True)
    return x[
        tuple(slice(begin, begin + step * (extent - 1) + 1, step) for begin, step, extent in ranges)
    ]


def _pad(o: g.Pad, x: Array) -> _Computed:
    return tflite.pad(x, o.before, o.after, o.value)


def _reshape(o: g.Reshape, x: Array) -> _Computed:
    return x.reshape(o.output.shape)


def _transpose(o: g.Transpose, x: Array) -> _Computed:
    return x.transpose(o.permutation)


def _resize_nearest(o: g.ResizeNearest, x: Array) -> _Computed:
    size = o.output.shape[1], o.output.shape[2]
    return _rules(o).resize_nearest_neighbor(
        x, size, align_corners=o.align_corners, half_pixel_centers=o.half_pixel_centers
    )


def _resize_bilinear(o: g.ResizeBilinear, x: Array) -> _Computed:
    size = o.output.shape[1], o.output.shape[2]
    positions = {"align_corners": o.align_corners, "half_pixel_centers": o.half_pixel_centers}
    if o.rounding is Rounding.FLOAT32:
        return onnx.resize_bilinear(x, size, _grid(o.input), _grid(o.output), **positions)
    return tflite.resize_bilinear(x, size, **positions, unsigned=o.unsigned)


# --------------------------------------------------------------------------------------------------
# Whose rules, and which integers
# --------------------------------------------------------------------------------------------------


def _rules(operator: _Rounded) -> _Rules:
    """graph/kernels/onnx/ or graph/kernels/tflite/: functions of the same names and
    arguments."""
    return onnx if operator.rounding is Rounding.FLOAT32 else tflite


def _grid(tensor: g.Tensor) -> g.Quantization:
    assert tensor.quantization is not None, tensor.name
    return tensor.quantization


def _signed(tensor: g.Tensor) -> g.Quantization:
    """The quantization of a tensor's int8 version."""
    return g.Quantization(tensor.scale, tensor.zero_point - (128 if tensor.dtype == "uint8" else 0))


_RULES: Mapping[type[g.Operator], Callable[..., Array]] = {
    g.RealConv2D: lambda o, x: real.conv2d(o, x, x.shape[3]),
    g.RealDense: real.dense,
    g.PlaneConv2D: planes.conv2d,
    g.PlaneDense: planes.dense,
    g.RealMatMul: real.matmul,
    g.RealBinary: real.binary,
    g.RealClamp: real.clamp,
    g.RealPool2D: real.pool2d,
    g.RealMean: real.mean,
    g.Conv2D: _conv2d,
    g.Dense: _dense,
    g.Add: _add,
    g.Sub: _sub,
    g.Mul: _mul,
    g.Div: _div,
    g.SquaredDifference: _squared_difference,
    g.Requantize: _requantize,
    g.Quantize: _quantize,
    g.Dequantize: _dequantize,
    g.Softmax: _softmax,
    g.LayerNorm: _layer_norm,
    g.Lookup: _lookup,
    g.ArgMax: _argmax,
    g.AveragePool2D: _average_pool2d,
    g.MaxPool2D: _max_pool2d,
    g.Mean: _mean,
    g.ReduceSum: _reduce_sum,
    g.ReduceProduct: _reduce_product,
    g.L2Normalize: _l2_normalize,
    g.BatchMatMul: _batch_matmul,
    g.Concatenate: _concatenate,
    g.Slice: _slice,
    g.Pad: _pad,
    g.Reshape: _reshape,
    g.Transpose: _transpose,
    g.ResizeNearest: _resize_nearest,
    g.ResizeBilinear: _resize_bilinear,
}
