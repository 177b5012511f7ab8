# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move elements, and those whose result is known before the network runs.

In:   nodes; the OnnxGraph that they add to.
Out:  values of their outputs, and operators of the network.
Next: operators.py names them in its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loadstone.prove.network import ModelTensor
from loadstone.prove.onnx.file import NodeRecord
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.values import (
    ConstantValue,
    Moved,
    Pending,
    QuantizedConstant,
    RealLevels,
    Scale,
    Value,
)

__all__ = [
    "cast",
    "concat",
    "constant",
    "flatten",
    "folded",
    "gather",
    "identity",
    "move",
    "pad",
    "reshape",
    "shape_of",
    "squeeze",
    "strided",
    "tensor_of",
    "transpose",
    "unsqueeze",
]


# -- what moves elements ---------------------------------------------------------------------------


def tensor_of(g: OnnxGraph, node: NodeRecord) -> tuple[int, tuple[int, ...], Scale | None]:
    """The tensor that an operator moves: levels between quantizers, or as they are."""
    value = g.value(node, 0)
    if isinstance(value, Moved):
        return value.index, value.shape, None
    real, scale = g.dequantized(node, 0)
    return real.sources[0], real.shape, scale


def move(
    g: OnnxGraph, node: NodeRecord, kind: str, shape: Sequence[int], attributes: dict[str, object]
) -> Value:
    """Adds an operator that moves the elements of the first input."""
    index, _, scale = tensor_of(g, node)
    output = replace(g.tensors[index], name=node.outputs[0], shape=tuple(shape), data=None)
    made = g.emit(node, kind, (index,), output, attributes)
    if scale is None:
        return Moved(made, tuple(shape))
    return RealLevels((made,), tuple(shape), scale.reals(), scale)


def _reshaped(g: OnnxGraph, node: NodeRecord, shape: Sequence[int]) -> Value:
    _, before, _ = tensor_of(g, node)
    if np.prod(shape) != np.prod(before):
        raise g.refusal(
            node, f"turns shape {list(before)} into {list(shape)}", "sizes must be equal"
        )
    return move(g, node, "reshape", shape, {})


def folded(
    function: Callable[[OnnxGraph, NodeRecord], Value],
) -> Callable[[OnnxGraph, NodeRecord], Value]:
    """A move, of constants too."""

    def reader(g: OnnxGraph, node: NodeRecord) -> Value:
        value = g.value(node, 0)
        if not isinstance(value, ConstantValue):
            return function(g, node)
        inner = OnnxGraph(replace(g.model, inputs=(), constants={}))
        inner.values = dict(g.values)
        index = inner.tensor(ModelTensor("", value.data.shape, value.data.dtype.name))
        inner.values[node.inputs[0]] = Moved(index, value.data.shape)
        moved = function(inner, node)
        assert isinstance(moved, Moved)
        if inner.operators[-1].kind != "reshape":
            raise g.refusal(node, "moves a constant", "fold it into the file")
        return ConstantValue(value.data.reshape(moved.shape))

    return reader


def reshape(g: OnnxGraph, node: NodeRecord) -> Value:
    """Reshape: 0 keeps an extent, -1 is what remains."""
    _, before, _ = tensor_of(g, node)
    stated = g.integers(node, 1)
    shape = [before[k] if n == 0 and k < len(before) else n for k, n in enumerate(stated)]
    if shape.count(-1) == 1:
        rest = int(np.prod([n for n in shape if n != -1]))
        shape[shape.index(-1)] = int(np.prod(before)) // max(rest, 1)
    return _reshaped(g, node, shape)


def flatten(g: OnnxGraph, node: NodeRecord) -> Value:
    """Flatten to two axes."""
    _, before, _ = tensor_of(g, node)
    axis = node.integer("axis", 1)
    axis = axis + len(before) if axis < 0 else axis
    return _reshaped(g, node, (int(np.prod(before[:axis])), int(np.prod(before[axis:]))))


def _axes(g: OnnxGraph, node: NodeRecord, rank: int) -> list[int]:
    stated = node.integers("axes", ()) or (g.integers(node, 1) if len(node.inputs) > 1 else ())
    return sorted(axis % rank for axis in stated)


def squeeze(g: OnnxGraph, node: NodeRecord) -> Value:
    """Squeeze: drops axes of extent 1."""
    _, before, _ = tensor_of(g, node)
    axes = _axes(g, node, len(before)) or [k for k, n in enumerate(before) if n == 1]
    return _reshaped(g, node, [n for k, n in enumerate(before) if k not in axes])


def unsqueeze(g: OnnxGraph, node: NodeRecord) -> Value:
    """Unsqueeze: adds axes of extent 1."""
    _, before, _ = tensor_of(g, node)
    count = len(node.integers("axes", ())) or len(g.integers(node, 1))
    rest = iter(before)
    axes = _axes(g, node, len(before) + count)
    return _reshaped(g, node, [1 if k in axes else next(rest) for k in range(len(before) + count)])


def identity(g: OnnxGraph, node: NodeRecord) -> Value:
    """What moves nothing: Identity, Dropout when it infers."""
    value = g.value(node, 0)
    assert value is not None
    return value


def transpose(g: OnnxGraph, node: NodeRecord) -> Value:
    """Transpose."""
    _, before, _ = tensor_of(g, node)
    axes = node.integers("perm", tuple(range(len(before)))[::-1])
    return move(g, node, "transpose", [before[axis] for axis in axes], {"axes": axes})


def strided(g: OnnxGraph, node: NodeRecord) -> Value:
    """Slice."""
    _, before, _ = tensor_of(g, node)
    starts, ends = g.integers(node, 1), g.integers(node, 2)
    axes = g.integers(node, 3) if g.value(node, 3) is not None else tuple(range(len(starts)))
    steps = g.integers(node, 4) if g.value(node, 4) is not None else (1,) * len(starts)
    begin, strides, shape = [0] * len(before), [1] * len(before), list(before)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, _end(end, step), step).indices(before[axis]))
        if not places:
            raise g.refusal(node, f"takes nothing of axis {axis}", "leave it out")
        k = axis % len(before)
        begin[k], strides[k], shape[k] = places[0], step, len(places)
    attributes: dict[str, object] = {"begin": tuple(begin), "strides": tuple(strides)}
    return move(g, node, "slice", shape, attributes)


def _end(end: int, step: int) -> int | None:
    """Python's end: a backward slice runs to the front where ONNX says less than -length."""
    return None if step < 0 and end < -(1 << 30) else end


def pad(g: OnnxGraph, node: NodeRecord) -> Value:
    """Pad with zeros around each axis."""
    _, before, scale = tensor_of(g, node)
    if node.attributes.get("mode", "constant") != "constant" or g.value(node, 3) is not None:
        raise g.refusal(
            node, f"has mode {node.attributes.get('mode')} or axes", "constant is understood"
        )
    pads = g.integers(node, 1)
    value = 0.0
    if g.value(node, 2) is not None:
        value = float(g.constant(node, 2).reshape(-1)[0])
    if min(pads) < 0 or (scale is not None and value != 0.0):
        raise g.refusal(node, f"has pads {pads} of {value:g}", "pads above 0 with 0 are understood")
    level = int(value) if scale is None else scale.zero_point
    half = len(pads) // 2
    shape = [n + a + b for n, a, b in zip(before, pads[:half], pads[half:], strict=True)]
    attributes: dict[str, object] = {"before": pads[:half], "after": pads[half:], "value": level}
    return move(g, node, "pad", shape, attributes)


def concat(g: OnnxGraph, node: NodeRecord) -> Value:
    """Concat of tensors of levels, or of constants."""
    first = g.value(node, 0)
    if isinstance(first, ConstantValue):
        parts = [g.constant(node, place) for place in range(len(node.inputs))]
        return ConstantValue(np.concatenate(parts, node.integer("axis", 0)))
    reals = [g.dequantized(node, place) for place in range(len(node.inputs))]
    shapes = [real.shape for real, _ in reals]
    axis = node.integer("axis", 1) % len(shapes[0])
    rest = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rest) != 1:
        raise g.refusal(node, f"joins shapes {shapes}", "they must be equal but for one axis")
    shape = list(shapes[0])
    shape[axis] = sum(some[axis] for some in shapes)
    inputs = tuple(real.sources[0] for real, _ in reals)
    scales = tuple(scale for _, scale in reals)
    return Pending("concat", inputs, tuple(shape), {"axis": axis, "scales": scales})


# -- what is known before it runs ------------------------------------------------------------------


def constant(g: OnnxGraph, node: NodeRecord) -> Value:
    """Constant."""
    value = next(iter(node.attributes.values()))
    return ConstantValue(np.asarray(value))


def shape_of(g: OnnxGraph, node: NodeRecord) -> Value:
    """Shape."""
    value = g.value(node, 0)
    if isinstance(value, ConstantValue | QuantizedConstant):
        return ConstantValue(np.array(value.data.shape, np.int64))
    assert value is not None
    return ConstantValue(np.array(value.shape, np.int64))


def gather(g: OnnxGraph, node: NodeRecord) -> Value:
    """Gather of a constant."""
    data, places = g.constant(node, 0), g.constant(node, 1)
    return ConstantValue(np.take(data, places.astype(np.int64), node.integer("axis", 0)))


def cast(g: OnnxGraph, node: NodeRecord) -> Value:
    """Cast of whole numbers that are constants."""
    data = g.constant(node, 0)
    if data.dtype.kind not in "iu" or node.integer("to", 0) not in (6, 7):
        raise g.refusal(
            node, f"turns {data.dtype} into type {node.integer('to', 0)}", "shapes are read"
        )
    return ConstantValue(data.astype(np.int64))
