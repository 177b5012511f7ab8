# SPDX-License-Identifier: Apache-2.0
"""The meaning of a proof's ModelNetwork: every operator in integers, as plain NumPy.

In:   a ModelNetwork, and arrays for its inputs.
Out:  the elements of every tensor.
Next: test_read_*.py compare it with LiteRT and ONNX Runtime; the engine must agree with it.

Written from the frameworks' documented arithmetic, with loops where a loop says it best; nothing of
the compiler's numerics is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelNetwork, ModelTensor
from loadstone.prove.requantize import Float32
from tests.prove.float32 import (
    average_pool,
    global_average_pool,
    near_tie,
    quantized,
    real_or_near,
    softmax_onnx,
)
from tests.prove.softmax import softmax_litert

__all__ = ["evaluate"]

Array = NDArray[Any]
Attributes = Mapping[str, Any]


def evaluate(network: ModelNetwork, inputs: Sequence[Array]) -> list[Array | None]:
    """The elements of every tensor, in the network's order; None for what is never computed."""
    values: list[Array | None] = [tensor.data for tensor in network.tensors]
    for index, array in zip(network.inputs, inputs, strict=True):
        values[index] = array
    for operator in network.operators:
        arrays = [None if k < 0 else values[k] for k in operator.inputs]
        tensors = [None if k < 0 else network.tensors[k] for k in operator.inputs]
        output = network.tensors[operator.outputs[0]]
        result = _MEANINGS[operator.kind](operator.attributes, arrays, tensors, output)
        values[operator.outputs[0]] = result.reshape(output.shape).astype(output.dtype)
    return values


def outputs(network: ModelNetwork, inputs: Sequence[Array]) -> list[Array]:
    """The elements of the network's outputs."""
    values = evaluate(network, inputs)
    found = [values[k] for k in network.outputs]
    assert all(value is not None for value in found)
    return [value for value in found if value is not None]


def _centred(array: Array, tensor: ModelTensor) -> Array:
    """Levels less their zero points; a zero point for each channel stands along axis 0."""
    zero = np.array(tensor.zero_points or (0,), np.int64)
    return array.astype(np.int64) - (
        zero.reshape(-1, *[1] * (array.ndim - 1)) if zero.size > 1 else zero
    )


def _by_channel(a: Attributes, sums: Array) -> Array:
    """Levels of sums whose last axis is the output's channels."""
    assert np.abs(sums).max(initial=0) < 1 << 31
    return np.asarray(a["requantization"].levels(sums, np.arange(sums.shape[-1])))


def _nhwc(a: Attributes, array: Array) -> Array:
    return array if a["layout"] == "NHWC" else array.transpose(0, 2, 3, 1)


def _back(a: Attributes, array: Array) -> Array:
    return array if a["layout"] == "NHWC" else array.transpose(0, 3, 1, 2)


def _windows(
    a: Attributes, x: Array, kernel: tuple[int, int], shape: Sequence[int], fill: float
) -> Array:
    """Taps of every position: (N, OH, OW, KH, KW, C); x and shape are NHWC."""
    top, left, bottom, right = a["pads"]
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    (sy, sx), (dy, dx) = a["strides"], a.get("dilations", (1, 1))
    taps = np.empty((shape[0], shape[1], shape[2], *kernel, x.shape[3]), padded.dtype)
    for ky, kx in product(range(kernel[0]), range(kernel[1])):
        rows = slice(ky * dy, ky * dy + (shape[1] - 1) * sy + 1, sy)
        columns = slice(kx * dx, kx * dx + (shape[2] - 1) * sx + 1, sx)
        taps[:, :, :, ky, kx] = padded[:, rows, columns]
    return taps


def _output_nhwc(a: Attributes, output: ModelTensor) -> tuple[int, ...]:
    n, *rest = output.shape
    return (n, *rest) if a["layout"] == "NHWC" else (n, rest[1], rest[2], rest[0])


def _convolution(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    x, weights = _nhwc(a, _centred(v[0], t[0])), _centred(v[1], t[1])
    channels, kh, kw, per = weights.shape
    taps = _windows(a, x, (kh, kw), _output_nhwc(a, output), 0)
    groups = a["groups"]
    each = channels // groups
    sums = np.concatenate(
        [
            np.tensordot(
                taps[..., g * per : (g + 1) * per].astype(np.float64),
                weights[g * each : (g + 1) * each].astype(np.float64),
                ([3, 4, 5], [1, 2, 3]),
            ).astype(np.int64)
            for g in range(groups)
        ],
        -1,
    )
    bias = 0 if v[2] is None else v[2].reshape(-1).astype(np.int64)
    return _back(a, _by_channel(a, sums + bias))


def _dense(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    weights = _centred(v[1], t[1])
    bias = 0 if v[2] is None else v[2].reshape(-1).astype(np.int64)
    return _by_channel(a, _centred(v[0], t[0]).reshape(-1, weights.shape[1]) @ weights.T + bias)


def _batch_matmul(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    left, right = _centred(v[0], t[0]), _centred(v[1], t[1])
    left = left.swapaxes(-1, -2) if a["transpose_a"] else left
    right = right.swapaxes(-1, -2) if a["transpose_b"] else right
    return np.asarray(a["requantization"].levels(left @ right, 0))


def _place(array: Array) -> Array:
    """The place of levels in a table of their type."""
    return array.astype(np.int64) - int(np.iinfo(array.dtype).min)


def _of_two(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return np.asarray(a["table"][_place(v[0]), _place(v[1])])


def _of_one(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return np.asarray(a["table"][_place(v[0])])


def _max_pool(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    x, shape = _nhwc(a, v[0].astype(np.int64)), _output_nhwc(a, output)
    taps = _windows(a, x, a["kernel"], shape, -(1 << 20))
    return _back(a, np.clip(taps.max((3, 4)), a["low"], a["high"]))


def _channel_table(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    around = [1] * v[0].ndim
    around[a["axis"]] = -1
    return np.asarray(a["table"][np.arange(len(a["table"])).reshape(around), _place(v[0])])


def _average_pool(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    x, shape = _nhwc(a, v[0].astype(np.int64) - a["zero_point"]), _output_nhwc(a, output)
    sums = _windows(a, x, a["kernel"], shape, 0).sum((3, 4))
    counts = _windows(a, np.ones_like(x), a["kernel"], shape, 0).sum((3, 4))
    result = np.empty_like(sums)
    near = np.zeros(sums.shape, bool)
    is_real = False
    for count in np.unique(counts).tolist():
        here, rule = counts == count, a["averages"][count]
        result[here] = rule.levels(sums[here], 0)
        is_real = isinstance(rule.scaling, Float32)
        if is_real:
            near[here] = near_tie(rule, sums[here])
    result = _back(a, result)
    if not is_real:
        return result
    return real_or_near(average_pool(a, v[0], t[0], output), result, _back(a, near))


def _mean(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    sums = _centred(v[0], t[0]).sum(a["axes"])
    return np.asarray(a["requantization"].levels(sums, 0))


def _global_average_pool(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    sums = _centred(v[0], t[0]).sum(a["axes"], keepdims=True)
    made = a["requantization"].levels(sums, 0)
    real = global_average_pool(a, v[0], t[0], output)
    return real_or_near(real, made, near_tie(a["requantization"], sums))


def _concat(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    parts = [
        x if table is None else table[_place(x)] for x, table in zip(v, a["tables"], strict=True)
    ]
    return np.concatenate(parts, a["axis"])


def _reshape(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return v[0]


def _transpose(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return v[0].transpose(a["axes"])


def _pad(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    around = list(zip(a["before"], a["after"], strict=True))
    return np.pad(v[0], around, constant_values=a["value"])


def _slice(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    steps = zip(a["begin"], a["strides"], output.shape, strict=True)
    return v[0][np.ix_(*(begin + stride * np.arange(count) for begin, stride, count in steps))]


def _resize_nearest(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    return _back(a, _nhwc(a, v[0])[:, a["rows"]][:, :, a["columns"]])


def _resize_bilinear(
    a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor
) -> Array:
    if a["arithmetic"] == "litert_uint8":
        one: Any = np.float32(1)
        x = v[0].astype(np.float32)
    else:
        one, x = 1 << 10, v[0].astype(np.int64)
    (top, bottom, down), (left, right, across) = a["rows"], a["columns"]
    down, across = down[:, None, None], across[:, None]
    total = x[:, top][:, :, left] * (one - down) * (one - across)
    total = total + x[:, bottom][:, :, left] * down * (one - across)
    total = total + x[:, top][:, :, right] * (one - down) * across
    total = total + x[:, bottom][:, :, right] * down * across
    if a["arithmetic"] == "litert_uint8":
        return np.trunc(total + np.float32(0.5))
    return np.asarray(a["requantization"].levels(total, 0))


def _softmax(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    assert a["axis"] == v[0].ndim - 1
    if a.get("arithmetic") == "onnx":
        return softmax_onnx(v[0], t[0], output)
    return softmax_litert(_centred(v[0], t[0]), t[0].scale, a["beta"]) + output.zero_point


def _arg_max(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return v[0].argmax(a["axis"])


def _quantize(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    quotient = v[0] / np.float32(output.scale)
    if a["arithmetic"] == "onnx":
        return quantized(v[0], output)
    rounded = np.trunc(quotient + np.copysign(np.float32(0.5), quotient))
    limits = np.iinfo(output.dtype)
    return np.clip(rounded + output.zero_point, limits.min, limits.max)


def _dequantize(a: Attributes, v: list[Array], t: list[ModelTensor], output: ModelTensor) -> Array:
    return np.float32(t[0].scale) * _centred(v[0], t[0]).astype(np.float32)


_MEANINGS: Mapping[str, Callable[[Attributes, Any, Any, ModelTensor], Array]] = {
    "add": _of_two,
    "arg_max": _arg_max,
    "average_pool": _average_pool,
    "batch_matmul": _batch_matmul,
    "channel_table": _channel_table,
    "concat": _concat,
    "conv2d": _convolution,
    "dense": _dense,
    "depthwise_conv2d": _convolution,
    "dequantize": _dequantize,
    "global_average_pool": _global_average_pool,
    "max_pool": _max_pool,
    "mean": _mean,
    "mul": _of_two,
    "pad": _pad,
    "quantize": _quantize,
    "requantize": _of_one,
    "reshape": _reshape,
    "resize_bilinear": _resize_bilinear,
    "resize_nearest": _resize_nearest,
    "slice": _slice,
    "softmax": _softmax,
    "sub": _of_two,
    "table": _of_one,
    "transpose": _transpose,
}
