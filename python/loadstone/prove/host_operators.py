# SPDX-License-Identifier: Apache-2.0
"""Operators of integers that a step of the host holds as data: `loadstone.operator`.

In:   a step, its tensors, symbols of its input.
Out:  symbols of its output.
Next: host_steps.py calls it for external steps.

Only the description in the step counts (runtime/FORMAT.md): kind, fields, and of each tensor name,
shape, type, scale and zero point. The operator that it describes is stated on the artifact's
elements as the network's operators are on the network's. Levels that were uint8 in the model are
int8 in it, 128 less; `unsigned` says so where that counts. What is not read here is refused by
name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from loadstone.artifact.format import BufferView, HostStep
from loadstone.files import JsonValue, parsed_json
from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.operators.elements import Elements
from loadstone.prove.operators.resizing import resize_bilinear
from loadstone.prove.operators.weighted import average_pool, mean
from loadstone.prove.requantize import Average, Float32, Requantizer
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import softmax
from loadstone.prove.tflite.geometry import bilinear, bilinear_uint8
from loadstone.prove.tflite.levels import mean_scaling
from loadstone.prove.verdict import NotProved, Unsupported

__all__ = ["computed"]

#: The number of the rounding of LiteRT's kernels and of ONNX Runtime's.
_LITERT, _ONNX = 0, 2
_Fields: TypeAlias = Mapping[str, JsonValue]
_MISFITS = (KeyError, TypeError, ValueError, IndexError)
#: What is read here of each operator's fields; what one has besides may change what it computes.
_WINDOWS = ("kernel", "strides", "padding", "count_include_pad")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Softmax": ("beta",),
    "Mean": ("axes", "low", "high"),
    "AveragePool2D": (*_WINDOWS, "low", "high", "unsigned"),
    "ResizeBilinear": ("align_corners", "half_pixel_centers", "unsigned"),
}
_T = TypeVar("_T")


def computed(
    step: HostStep,
    x: Integers,
    inputs: Sequence[BufferView],
    outputs: Sequence[BufferView],
    rows: RowFunctions,
) -> Integers:
    """Symbols (elements,) of an operator's output; x (bytes,): of its input. Raises Unsupported for
    an operator that is not known here, and for bytes that other steps had as uint8, NotProved for
    a description that does not fit its tensors."""
    name = f"step {step.name} ({step.function})"
    if step.function != "loadstone.operator":
        raise Unsupported(f"{name}: code that only the host knows")
    if (x < 0).any():
        raise Unsupported(f"{name}: levels of uint8 as int8")
    said = parsed_json(step.attributes, name, NotProved)
    try:
        kind, fields = str(_of(dict, said)["kind"]), _of(dict, said)["fields"]
        if kind not in _STATED or (len(inputs), len(outputs)) != (1, 1):
            raise Unsupported(f"{name}: operator {kind}")
        tensors = _tensors(_of(dict, said)["tensors"], [*inputs, *outputs])
        return _stated(f"{name}: {kind}", kind, _of(dict, fields), tensors, x, rows)
    except _MISFITS as error:
        raise NotProved(f"{name}: its attributes describe no operator") from error


def _tensors(sides: JsonValue, views: Sequence[BufferView]) -> list[ModelTensor]:
    """The input and the output that a step describes."""
    made = []
    for side, view in zip(_of(list, sides), views, strict=True):
        (tensor,) = _of(list, side)
        name, shape, dtype, grid = _of(list, tensor)
        scale, zero_point = _of(float, grid[0]), _of(int, grid[1])
        extents = tuple(int(str(n)) for n in _of(list, shape))
        _must(len(grid) == 2 and scale > 0 and float(np.float32(scale)) == scale)
        _must(dtype == "int8" == view.dtype.name.lower())
        _must(math.prod(extents) == view.elements)
        made.append(ModelTensor(str(name), extents, "int8", (scale,), (zero_point,)))
    return made


def _of(kind: type[_T], value: object) -> _T:
    """A value of a kind; ValueError for one of another."""
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _must(holds: bool) -> None:
    if not holds:
        raise ValueError("it contradicts the tensors")


def _stated(
    name: str,
    kind: str,
    fields: _Fields,
    tensors: Sequence[ModelTensor],
    x: Integers,
    rows: RowFunctions,
) -> Integers:
    for field in fields.keys() - {"name", "rounding", *_FIELDS[kind]}:
        raise Unsupported(f"{name} with {field}={fields[field]}")
    if fields.get("unsigned"):
        tensors = [
            ModelTensor(t.name, t.shape, "uint8", t.scales, (t.zero_point + 128,)) for t in tensors
        ]
    attributes = _STATED[kind](fields, tensors[0], tensors[1])
    if attributes is None:
        raise Unsupported(f"{name} of rounding {fields['rounding']}")
    if kind in _STATEMENTS and rows.values.is_internal(x).any():
        raise NotProved(f"{name} of a byte that is no element of the network")
    operator = ModelOperator(kind, (0,), (1,), attributes, name)
    elements = Elements(rows.values, ModelNetwork(name, tuple(tensors), (operator,), (), (1,)))
    elements.put(0, x)
    if kind == "Softmax":
        softmax(elements, operator, rows)
    else:
        _STATEMENTS[kind](elements, operator)
    return elements.symbols(1).reshape(-1)


# -- the attributes of network.py; None for arithmetic that is not known --------------------------


def _whole(f: _Fields, name: str) -> int:
    return _of(int, f[name])


def _wholes(f: _Fields, name: str) -> tuple[int, ...]:
    return tuple(_of(int, value) for value in _of(list, f[name]))


def _softmax(f: _Fields, x: ModelTensor, y: ModelTensor) -> dict[str, object] | None:
    axis = len(x.shape) - 1
    if f["rounding"] == _ONNX and f["beta"] == 1:
        return {"axis": axis, "beta": 1.0, "arithmetic": "onnx", "low": -128, "high": 127}
    if f["rounding"] == _LITERT:
        return {"axis": axis, "beta": float(str(f["beta"]))}
    return None


def _mean(f: _Fields, x: ModelTensor, y: ModelTensor) -> dict[str, object] | None:
    axes = _wholes(f, "axes")
    count = math.prod(x.shape[axis] for axis in axes)
    if f["rounding"] == _ONNX:
        rule = _rounded_once(x, y, count, (_whole(f, "low"), _whole(f, "high")))
    elif f["rounding"] == _LITERT and (f["low"], f["high"]) == (-128, 127):
        rule = mean_scaling(x, y, count)
    else:
        return None
    return {"axes": axes, "keep_dims": len(x.shape) == len(y.shape), "requantization": rule}


def _rounded_once(
    x: ModelTensor, y: ModelTensor, count: int, limits: tuple[int, int]
) -> Requantizer:
    """An average as ONNX Runtime's integer kernel has it (onnx/averages.py)."""
    real = np.float32(x.scale) / (np.float32(count) * np.float32(y.scale))
    return Requantizer(Float32(np.array([real], np.float64)), y.zero_point, *limits)


def _one_grid(x: ModelTensor, y: ModelTensor) -> bool:
    return (x.scales, x.zero_points) == (y.scales, y.zero_points)


def _average_pool(f: _Fields, x: ModelTensor, y: ModelTensor) -> dict[str, object] | None:
    kernel, strides, pads = (_wholes(f, name) for name in ("kernel", "strides", "padding"))
    ends = zip(pads[:2], pads[2:], strict=True)
    sizes = zip(x.shape[1:3], y.shape[1:3], kernel, strides, ends, strict=True)
    _must(min(*kernel, *strides) > 0)
    _must(all((n + sum(end) - k) // by + 1 == out for n, out, k, by, end in sizes))
    taps, padded = kernel[0] * kernel[1], bool(f["count_include_pad"])
    said: dict[str, object] = {"layout": "NHWC", "kernel": kernel, "pads": pads, "strides": strides}
    said |= {"count_include_pad": padded}
    counts = range(1, taps + 1)
    low, high = (_whole(f, name) + (128 if f["unsigned"] else 0) for name in ("low", "high"))
    if f["rounding"] == _ONNX:
        rules = {n: _rounded_once(x, y, taps if padded else n, (low, high)) for n in counts}
        return {**said, "zero_point": x.zero_point, "averages": rules}
    if f["rounding"] != _LITERT or padded or not _one_grid(x, y):
        return None
    return {
        **said,
        "zero_point": 0,
        "averages": {n: Requantizer(Average(n), 0, low, high) for n in counts},
    }


def _resize_bilinear(f: _Fields, x: ModelTensor, y: ModelTensor) -> dict[str, object] | None:
    if f["rounding"] != _LITERT or not _one_grid(x, y):
        return None
    of: Callable[..., object] = bilinear if x.dtype == "int8" else bilinear_uint8
    flags = bool(f["align_corners"]), bool(f["half_pixel_centers"])
    sizes = zip(x.shape[1:3], y.shape[1:3], strict=True)
    rows, columns = (of(n, m, *flags) for n, m in sizes)
    low = -128 if x.dtype == "int8" else 0
    rule = Requantizer(Average(1 << 20), 0, low, low + 255)
    said = {"layout": "NHWC", "arithmetic": f"litert_{x.dtype}", "requantization": rule}
    return {**said, "rows": rows, "columns": columns}


_Attributes: TypeAlias = Callable[[_Fields, ModelTensor, ModelTensor], dict[str, object] | None]
_STATED: Mapping[str, _Attributes] = {
    "Softmax": _softmax,
    "Mean": _mean,
    "AveragePool2D": _average_pool,
    "ResizeBilinear": _resize_bilinear,
}
_STATEMENTS: Mapping[str, Callable[[Elements, ModelOperator], None]] = {
    "Mean": mean,
    "AveragePool2D": average_pool,
    "ResizeBilinear": resize_bilinear,
}
