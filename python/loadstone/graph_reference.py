"""What the operators of graph.py compute, in NumPy: their living definition.

In:   a Graph and arrays for its inputs.
Out:  every tensor of the network, to the last bit what the model's framework gives (for ONNX: what NUMERICS.md means).
Next: tests compare the simulator, and the simulator's layers, with it; host.py fills tables from it.

The arithmetic lives in loadstone.operators; here stands which rule an operator of the graph means. Slow: MobileNetV2 at
224x224 takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding, requantize_float32, wrap_int32
from loadstone.operators import tflite
from loadstone.operators.windows import convolve, matmul, windows

__all__ = ["run", "run_all", "run_operator"]

Array = NDArray[Any]


def run(graph: g.Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of the network, in order, for inputs in order."""
    values = run_all(graph, inputs)
    return [values[tensor.name] for tensor in graph.outputs]


def run_all(graph: g.Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor of the network by name, inputs and constants included."""
    values: dict[str, Array] = dict(graph.constants)
    for tensor, array in zip(graph.inputs, inputs, strict=True):
        assert (array.shape, array.dtype) == (tensor.shape, np.dtype(tensor.dtype)), f"input {tensor.name}: {array.shape} {array.dtype}"
        values[tensor.name] = array
    for operator in graph.operators:
        results = run_operator(operator, [values[tensor.name] for tensor in operator.inputs])
        values.update((tensor.name, array) for tensor, array in zip(operator.outputs, results, strict=True))
    return values


def run_operator(operator: g.Operator, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of one operator."""
    if isinstance(operator, g.Host):
        from loadstone._tvm import run_module  # TVM only for what only TVM knows

        return run_module(operator.function, inputs)
    if type(operator) not in _RULES:
        raise LoweringError(f"graph_reference: no rule for {operator.kind} ({operator.name})")
    result = _RULES[type(operator)](operator, *inputs)
    assert result.shape == operator.output.shape, f"{operator.name}: {result.shape} is not {operator.output.shape}"
    assert result.dtype == operator.output.dtype, f"{operator.name}: {result.dtype} is not {operator.output.dtype}"
    return [result]


# ---------------------------------------------------------------------------------------------------------------
# Multiply and accumulate
# ---------------------------------------------------------------------------------------------------------------


def _conv2d(o: g.Conv2D, x: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        kernels = o.weights.astype(np.int64) - o.weight_zero_points.reshape(-1, 1, 1, 1)
        sums = convolve(_centred(x, o.input), kernels, strides=o.strides, padding=o.padding, dilation=o.dilation, groups=o.groups)
        return _float32(o, sums)
    return tflite.conv_2d(
        x,
        o.weights,
        o.bias,
        _grid(o.input),
        o.weight_scales,
        _grid(o.output),
        strides=o.strides,
        padding=o.padding,
        dilation=o.dilation,
        groups=o.groups,
        weight_zero_points=o.weight_zero_points,
        low=o.low,
        high=o.high,
    )


def _dense(o: g.Dense, x: Array) -> Array:
    kernels = o.weights.astype(np.int64) - o.weight_zero_points.reshape(-1, 1)
    if o.rounding is Rounding.FLOAT32:
        return _float32(o, matmul(_centred(x, o.input), kernels.T))
    if o.rounding is Rounding.DOUBLE:  # TFLite Micro: a 1x1 convolution
        return tflite.conv_2d(
            x[:, None, None],
            o.weights[:, None, None],
            o.bias,
            _grid(o.input),
            o.weight_scales,
            _grid(o.output),
            weight_zero_points=o.weight_zero_points,
            low=o.low,
            high=o.high,
        )[:, 0, 0]
    return tflite.fully_connected(
        x,
        o.weights,
        o.bias,
        _grid(o.input),
        o.weight_scales,
        _grid(o.output),
        weight_zero_points=o.weight_zero_points,
        low=o.low,
        high=o.high,
    )


def _float32(o: g.Weighted, sums: Array) -> Array:
    """acc * float32(input scale * weight scale / output scale), half to even."""
    scale = np.float32(o.input.scale) * o.weight_scales / np.float32(o.output.scale)
    acc = wrap_int32(sums.astype(np.int64) + o.bias)
    return _clamped(requantize_float32(acc, scale), o)


# ---------------------------------------------------------------------------------------------------------------
# Elements
# ---------------------------------------------------------------------------------------------------------------


def _add(o: g.Add, a: Array, b: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        return _quantized(_real(a, o.inputs[0]) + _real(b, o.inputs[1]), o)
    return tflite.add(a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), low=o.low, high=o.high)


def _sub(o: g.Sub, a: Array, b: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        return _quantized(_real(a, o.inputs[0]) - _real(b, o.inputs[1]), o)
    return tflite.sub(a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), low=o.low, high=o.high)


def _mul(o: g.Mul, a: Array, b: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        return _quantized(_real(a, o.inputs[0]) * _real(b, o.inputs[1]), o)
    return tflite.mul(a, b, _grid(o.inputs[0]), _grid(o.inputs[1]), _grid(o.output), low=o.low, high=o.high)


def _requantize(o: g.Requantize, x: Array) -> Array:
    if o.input.dtype != "int8" or o.output.dtype != "int8":
        return _edge(o, x)
    if o.is_clamp:
        return np.clip(x, o.low, o.high).astype(np.int8)
    if o.rounding is Rounding.FLOAT32:
        return _quantized(_real(x, o.input), o)
    return tflite.requantize(x, _grid(o.input), _grid(o.output), low=o.low, high=o.high)


def _edge(o: g.Requantize, x: Array) -> Array:
    """uint8 to int8 or back: x - 128, then as above."""
    signs = [128 if tensor.dtype == "uint8" else 0 for tensor in (o.input, o.output)]
    source, target = (g.Quantization(t.scale, t.zero_point - sign) for t, sign in zip((o.input, o.output), signs, strict=True))
    shifted = (x.astype(np.int16) - signs[0]).astype(np.int8)
    low, high = o.low - signs[1], o.high - signs[1]
    if source == target:
        result = np.clip(shifted, low, high)
    elif o.rounding is Rounding.FLOAT32:
        real = np.float32(source.scale) * (shifted.astype(np.int64) - source.zero_point).astype(np.float32)
        result = np.clip(np.rint(real / np.float32(target.scale)) + target.zero_point, low, high)
    else:
        result = tflite.requantize(shifted, source, target, low=low, high=high)
    return (result.astype(np.int16) + signs[1]).astype(o.output.dtype)


def _quantize(o: g.Quantize, x: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        return _quantized(x.astype(np.float32), o)
    sign = 128 if o.output.dtype == "uint8" else 0
    quantized = tflite.quantize(x, g.Quantization(o.output.scale, o.output.zero_point - sign))
    return np.clip(quantized.astype(np.int16) + sign, o.low, o.high).astype(o.output.dtype)


def _dequantize(o: g.Dequantize, x: Array) -> Array:
    return _real(x, o.input)


def _softmax(o: g.Softmax, x: Array) -> Array:
    if o.rounding is not Rounding.FLOAT32:
        return tflite.softmax(x, _grid(o.input))
    real = _real(x, o.input)
    powers = np.exp(real - real.max(-1, keepdims=True))
    return _quantized((powers / powers.sum(-1, keepdims=True, dtype=np.float32)).astype(np.float32), o)


def _argmax(o: g.ArgMax, x: Array) -> Array:
    index: Array = np.argmax(x, o.axis).reshape(o.output.shape)
    return index.astype(o.output.dtype)


# ---------------------------------------------------------------------------------------------------------------
# Pools and means
# ---------------------------------------------------------------------------------------------------------------


def _average_pool2d(o: g.AveragePool2D, x: Array) -> Array:
    if o.rounding is not Rounding.FLOAT32:
        assert not o.count_include_pad
        return tflite.average_pool_2d(x, o.kernel, strides=o.strides, padding=o.padding, low=o.low, high=o.high, unsigned=o.unsigned)
    sums = windows(_centred(x, o.input), o.kernel, o.strides, o.padding).sum((-2, -1))
    counts = np.full(sums.shape, o.kernel[0] * o.kernel[1])
    if not o.count_include_pad:
        counts = windows(np.ones_like(x), o.kernel, o.strides, o.padding).sum((-2, -1), dtype=np.int64)
    return _quantized(np.float32(o.input.scale) * sums.astype(np.float32) / counts.astype(np.float32), o)


def _max_pool2d(o: g.MaxPool2D, x: Array) -> Array:
    assert o.input.quantization == o.output.quantization
    return tflite.max_pool_2d(x, o.kernel, strides=o.strides, padding=o.padding, low=o.low, high=o.high)


def _mean(o: g.Mean, x: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        count = np.prod([x.shape[axis] for axis in o.axes])
        total = _centred(x, o.input).sum(o.axes).astype(np.float32)
        return _quantized((np.float32(o.input.scale) * total / np.float32(count)).reshape(o.output.shape), o)
    means = tflite.mean(x, o.axes, _grid(o.input), _grid(o.output))
    return np.clip(means, o.low, o.high).reshape(o.output.shape)


# ---------------------------------------------------------------------------------------------------------------
# Movement
# ---------------------------------------------------------------------------------------------------------------


def _concatenate(o: g.Concatenate, *inputs: Array) -> Array:
    joined: Array
    if o.is_copy:
        joined = np.concatenate(inputs, o.axis)
    elif o.rounding is Rounding.FLOAT32:
        return _quantized(np.concatenate([_real(x, tensor) for x, tensor in zip(inputs, o.inputs, strict=True)], o.axis), o)
    else:
        joined = tflite.concatenate(inputs, [_grid(tensor) for tensor in o.inputs], _grid(o.output), axis=o.axis)
    return np.clip(joined, o.low, o.high).astype(np.int8)


def _slice(o: g.Slice, x: Array) -> Array:
    ranges = zip(o.begin, o.strides, o.output.shape, strict=True)
    return x[tuple(slice(begin, begin + step * (extent - 1) + 1, step) for begin, step, extent in ranges)]


def _pad(o: g.Pad, x: Array) -> Array:
    return tflite.pad(x, o.before, o.after, o.value)


def _reshape(o: g.Reshape, x: Array) -> Array:
    return x.reshape(o.output.shape)


def _transpose(o: g.Transpose, x: Array) -> Array:
    return x.transpose(o.permutation)


def _resize_nearest(o: g.ResizeNearest, x: Array) -> Array:
    if o.rounding is Rounding.FLOAT32:
        return x[:, o.nearest(1)][:, :, o.nearest(2)]
    size = o.output.shape[1], o.output.shape[2]
    return tflite.resize_nearest_neighbor(x, size, align_corners=o.align_corners, half_pixel_centers=o.half_pixel_centers)


def _resize_bilinear(o: g.ResizeBilinear, x: Array) -> Array:
    size = o.output.shape[1], o.output.shape[2]
    if o.rounding is not Rounding.FLOAT32:
        return tflite.resize_bilinear(x, size, align_corners=o.align_corners, half_pixel_centers=o.half_pixel_centers, unsigned=o.unsigned)
    real = _real(x, o.input)
    for axis in (1, 2):
        position = np.clip(o.positions(axis), 0, x.shape[axis] - 1)
        lower = np.floor(position).astype(np.int64)
        upper = np.minimum(lower + 1, x.shape[axis] - 1)
        weight = (position - lower).astype(np.float32).reshape((-1, 1, 1) if axis == 1 else (-1, 1))
        real = np.take(real, lower, axis) * (1 - weight) + np.take(real, upper, axis) * weight
    return _quantized(real, o)


# ---------------------------------------------------------------------------------------------------------------
# Between integers and real numbers
# ---------------------------------------------------------------------------------------------------------------


def _grid(tensor: g.Tensor) -> g.Quantization:
    assert tensor.quantization is not None, tensor.name
    return tensor.quantization


def _centred(x: Array, tensor: g.Tensor) -> NDArray[np.int64]:
    return x.astype(np.int64) - tensor.zero_point


def _real(x: Array, tensor: g.Tensor) -> NDArray[np.float32]:
    return np.asarray(np.float32(tensor.scale) * _centred(x, tensor).astype(np.float32), np.float32)


def _quantized(real: Array, o: Any) -> Array:
    """float32 division, half to even: ONNX's QuantizeLinear, then the clamp."""
    steps = np.rint(real.astype(np.float32) / np.float32(o.output.scale))
    return _clamped(np.clip(steps, -(2.0**31), 2.0**31).astype(np.int64), o)


def _clamped(steps: Array, o: Any) -> Array:
    limits = np.iinfo(o.output.dtype)
    low, high = getattr(o, "low", limits.min), getattr(o, "high", limits.max)
    clamped: Array = np.clip(steps.astype(np.int64) + o.output.zero_point, low, high)
    return clamped.astype(o.output.dtype)


_RULES: Mapping[type[g.Operator], Callable[..., Array]] = {
    g.Conv2D: _conv2d,
    g.Dense: _dense,
    g.Add: _add,
    g.Sub: _sub,
    g.Mul: _mul,
    g.Requantize: _requantize,
    g.Quantize: _quantize,
    g.Dequantize: _dequantize,
    g.Softmax: _softmax,
    g.ArgMax: _argmax,
    g.AveragePool2D: _average_pool2d,
    g.MaxPool2D: _max_pool2d,
    g.Mean: _mean,
    g.Concatenate: _concatenate,
    g.Slice: _slice,
    g.Pad: _pad,
    g.Reshape: _reshape,
    g.Transpose: _transpose,
    g.ResizeNearest: _resize_nearest,
    g.ResizeBilinear: _resize_bilinear,
}
