# SPDX-License-Identifier: Apache-2.0
"""Layers with weights and with windows, from ONNX to TFLite of int8.

In:   tflite_values.Values, a node.
Out:  LAYERS: ONNX's name -> what writes it, and gives the names that are written by then.
Next: as_tflite.py has the other operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.matrix.tflite_values import Array, NotInTflite, Values
from tests.tflite_builder import Padding, Tensor

__all__ = ["LAYERS", "attributes"]


def attributes(node: Any) -> dict[str, Any]:
    """By name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _fused(values: Values, name: str) -> tuple[str, int]:
    """The name behind an activation that is fused, and TFLite's number of it."""
    after = values.only_reader(name, "Relu", "Clip")
    if after is None:
        return name, 0
    return after.output[0], 1 if after.op_type == "Relu" else 3


def _weights(
    values: Values, x: Tensor, array: Array, bias: Array | None, axis: int | None
) -> tuple[Tensor, Tensor]:
    """Of int8, with a scale for each index of axis, or one; the bias in their steps."""
    others = None if axis is None else tuple(d for d in range(array.ndim) if d != axis)
    scale = np.maximum(np.abs(array).max(others), 1e-9).astype(np.float32) / np.float32(127)
    wide = (
        scale
        if axis is None
        else scale.reshape([-1 if d == axis else 1 for d in range(array.ndim)])
    )
    steps = np.clip(np.rint(array / wide), -127, 127).astype(np.int8)
    outputs = array.shape[axis or 0]
    scales = np.atleast_1d(scale)
    w = values.graph.constant(steps, scales, np.zeros(scales.size, np.int64), axis=axis or 0)
    product = scales * np.float32(x.scale[0])
    given = np.zeros(outputs, np.float32) if bias is None else bias
    whole = np.rint(given.astype(np.float64) / product).astype(np.int32)
    return w, values.graph.constant(whole, product, np.zeros(scales.size, np.int64))


def _window(given: dict[str, Any], rank: int, default: int = 1) -> tuple[Any, ...]:
    """Kernel, strides, dilation and pads (top, left, bottom, right) of an image; a row is an image
    of height 1."""
    row = rank == 3
    kernel, strides, dilation = (
        ([1] if row else []) + list(given.get(name, [1] * (rank - 2)))
        for name in ("kernel_shape", "strides", "dilations")
    )
    pads = list(given.get("pads", [0] * 2 * (rank - 2)))
    return kernel, strides, dilation, [0, pads[0], 0, pads[1]] if row else pads


def _padded(values: Values, x: Tensor, window: tuple[Any, ...]) -> tuple[Tensor, int]:
    """SAME where that means these pads; else PAD before VALID."""
    kernel, strides, dilation, pads = window
    if not any(pads):
        return x, Padding.VALID
    same = []
    for axis in (0, 1):
        size, reach = x.shape[1 + axis], dilation[axis] * (kernel[axis] - 1) + 1
        total = max((-(-size // strides[axis]) - 1) * strides[axis] + reach - size, 0)
        same += [total // 2 == pads[axis] and total - total // 2 == pads[axis + 2]]
    if all(same):
        return x, Padding.SAME
    height, width = x.shape[1] + pads[0] + pads[2], x.shape[2] + pads[1] + pads[3]
    both = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
    return values.moved("PAD", x, (1, height, width, x.shape[3]), both), Padding.VALID


def _last_shape(values: Values, name: str) -> tuple[int, ...]:
    n, channels, *rest = values.shape(name)
    return (n, *([1] if len(rest) == 1 else []), *rest, channels)


def _convolution(values: Values, node: Any) -> Sequence[str]:
    given = attributes(node)
    array = values.constants[node.input[1]]
    bias = values.constants[node.input[2]] if len(node.input) > 2 else None
    array = array[:, :, None] if array.ndim == 3 else array
    window = _window(given, len(values.shape(node.input[0])))
    x, padding = _padded(values, values.last(node.input[0]), window)
    options = {
        "padding": padding,
        **dict(zip(("stride_h", "stride_w"), window[1], strict=True)),
        **dict(zip(("dilation_h_factor", "dilation_w_factor"), window[2], strict=True)),
    }
    result, options["fused_activation_function"] = _fused(values, node.output[0])
    if given.get("group", 1) == x.shape[3] > 1:
        w, b = _weights(values, x, np.ascontiguousarray(array.transpose(1, 2, 3, 0)), bias, 3)
        kind, options["depth_multiplier"] = "DEPTHWISE_CONV_2D", array.shape[0] // x.shape[3]
    else:
        w, b = _weights(values, x, np.ascontiguousarray(array.transpose(0, 2, 3, 1)), bias, 0)
        kind = "CONV_2D"
    shape = _last_shape(values, result)
    values.define(
        result, values.emit(kind, [x, w, b], shape, values.grid(result), **options), last=True
    )
    return [result]


def _transposed(values: Values, node: Any) -> Sequence[str]:
    """All of it, then cut: TFLite's pads are others."""
    given = attributes(node)
    x, array = values.last(node.input[0]), values.constants[node.input[1]]
    bias = values.constants[node.input[2]] if len(node.input) > 2 else None
    array = array[:, :, None] if array.ndim == 3 else array
    kernel, strides, _, pads = _window(given, len(values.shape(node.input[0])))
    w, b = _weights(values, x, np.ascontiguousarray(array.transpose(1, 2, 3, 0)), bias, 0)
    whole = [(n - 1) * s + k for n, s, k in zip(x.shape[1:3], strides, kernel, strict=True)]
    shape = (1, *whole, array.shape[1])
    size = values.graph.constant(np.asarray(shape, np.int32))
    name = node.output[0]
    y = values.emit(
        "TRANSPOSE_CONV",
        [size, w, x, b],
        shape,
        values.grid(name),
        padding=Padding.VALID,
        stride_h=strides[0],
        stride_w=strides[1],
    )
    wanted = _last_shape(values, name)
    if wanted != shape:
        y = values.moved("SLICE", y, wanted, [0, pads[0], pads[1], 0], list(wanted))
    values.define(name, y, last=True)
    return [name]


def _dense(values: Values, node: Any) -> Sequence[str]:
    """Gemm, or MatMul by a constant."""
    given, x = attributes(node), values.plain(node.input[0])
    if node.input[1] not in values.constants:
        return _product(values, node)
    array, result = values.constants[node.input[1]], node.output[0]
    bias = values.constants[node.input[2]] if len(node.input) > 2 else None
    if not given.get("transB"):
        array = np.ascontiguousarray(array.T)
    normal = values.only_reader(result, "BatchNormalization")
    names = [result]
    if normal is not None:
        array, bias = _folded(values, normal, array, bias)
        names.append(normal.output[0])
    added = values.only_reader(names[-1], "Add") if bias is None else None
    if added is not None:
        bias = next((values.constants[n] for n in added.input if n in values.constants), None)
        if bias is not None and bias.ndim == 1:
            names.append(added.output[0])
        else:
            bias = None
    result, fused = _fused(values, names[-1])
    w, b = _weights(values, x, array, bias, None)
    shape = (*x.shape[:-1], array.shape[0])
    options = {"fused_activation_function": fused, "keep_num_dims": len(shape) > 2}
    y = values.emit("FULLY_CONNECTED", [x, w, b], shape, values.grid(result), **options)
    values.define(result, y)
    return [*names, result]


def _folded(values: Values, node: Any, array: Array, bias: Array | None) -> tuple[Array, Array]:
    scale, shift, mean, variance = (values.constants[name] for name in node.input[1:])
    factor = scale / np.sqrt(variance + attributes(node).get("epsilon", 1e-5))
    return array * factor[:, None], ((0 if bias is None else bias) - mean) * factor + shift


def _product(values: Values, node: Any) -> Sequence[str]:
    """Of two activations."""
    a, b = (values.plain(name) for name in node.input)
    name = node.output[0]
    y = values.emit("BATCH_MATMUL", [a, b], values.shape(name), values.grid(name))
    values.define(name, y)
    return [name]


def _pool(kind: str) -> Callable[[Values, Any], None]:
    def rule(values: Values, node: Any) -> None:
        given, x = attributes(node), values.last(node.input[0])
        kernel, strides, dilation, pads = _window(given, len(values.shape(node.input[0])))
        name = node.output[0]
        shape = _last_shape(values, name)
        full = [(n - 1) * s + k for n, s, k in zip(shape[1:3], strides, kernel, strict=True)]
        for axis in (0, 1):  # ceil_mode
            pads[axis + 2] = max(pads[axis + 2], full[axis] - x.shape[1 + axis] - pads[axis])
        x, padding = _padded(values, x, (kernel, strides, dilation, pads)) if any(pads) else (x, 1)
        if kind == "AVERAGE_POOL_2D" and padding == Padding.SAME:
            x = _zeros_around(values, x, pads)
        valid = Padding.VALID if kind == "AVERAGE_POOL_2D" else padding
        options = {"stride_h": strides[0], "stride_w": strides[1], "padding": valid}
        options |= {"filter_height": kernel[0], "filter_width": kernel[1]}
        values.define(name, values.moved(kind, x, shape, **options), last=True)

    return rule


def _zeros_around(values: Values, x: Tensor, pads: list[int]) -> Tensor:
    """PyTorch counts the border, TFLite does not."""
    height, width = x.shape[1] + pads[0] + pads[2], x.shape[2] + pads[1] + pads[3]
    both = [[0, 0], [pads[0], pads[2]], [pads[1], pads[3]], [0, 0]]
    return values.moved("PAD", x, (1, height, width, x.shape[3]), both)


def _reduced(kind: str) -> Callable[[Values, Any], None]:
    def rule(values: Values, node: Any) -> None:
        given, name = attributes(node), node.output[0]
        rank = len(values.shape(node.input[0]))
        if node.op_type == "GlobalAveragePool":
            axes, keep = list(range(2, rank)), True
        else:
            named = given.get("axes") or values.constants[node.input[1]].tolist()
            axes, keep = [axis % rank for axis in named], bool(given.get("keepdims", 1))
        last = keep and values.is_last(node.input[0])
        x = values.last(node.input[0]) if last else values.plain(node.input[0])
        if last:
            axes = [3 if axis == 1 else axis - 1 + (rank == 3) for axis in axes]
        shape = [1 if d in axes else n for d, n in enumerate(x.shape) if keep or d not in axes]
        which = values.graph.constant(np.asarray(axes, np.int32))
        grid = values.grid(name) if kind == "MEAN" else (float(x.scale[0]), int(x.zero_point[0]))
        values.define(name, values.emit(kind, [x, which], shape, grid, keep_dims=keep), last=last)

    return rule


def _resized(values: Values, node: Any) -> None:
    given, name = attributes(node), node.output[0]
    x, shape = values.last(node.input[0]), _last_shape(values, name)
    nearest = given.get("mode", b"nearest") == b"nearest"
    kind = "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR"
    half = given.get("coordinate_transformation_mode", b"half_pixel") != b"asymmetric"
    y = values.moved(kind, x, shape, list(shape[1:3]), half_pixel_centers=half and not nearest)
    values.define(name, y, last=True)


def _bordered(values: Values, node: Any) -> None:
    x, name = values.plain(node.input[0]), node.output[0]
    given = values.constants.get(node.input[1])
    if given is None:
        raise NotInTflite("a Pad by a computed size")
    both = given.reshape(2, -1).T.astype(np.int32).tolist()
    values.define(name, values.moved("PAD", x, values.shape(name), both))


LAYERS: dict[str, Callable[[Values, Any], Sequence[str] | None]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    **dict.fromkeys(("Gemm", "MatMul"), _dense),
    "AveragePool": _pool("AVERAGE_POOL_2D"),
    "MaxPool": _pool("MAX_POOL_2D"),
    **dict.fromkeys(("GlobalAveragePool", "ReduceMean"), _reduced("MEAN")),
    "ReduceMax": _reduced("REDUCE_MAX"),
    "Resize": _resized,
    "Pad": _bordered,
}
