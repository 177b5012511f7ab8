# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move elements, and those whose result is known before the network runs.

In:   nodes; the Graph that they add to.
Out:  values of their outputs, and operators of the network.
Next: onnx_operators.py names them in its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from loadstone.prove.network import Tensor
from loadstone.prove.onnx_file import OnnxNode
from loadstone.prove.onnx_graph import Graph
from loadstone.prove.onnx_values import Constant, Moved, Pending, Quantized, Real, Scale, Value

__all__ = []


# -- what moves elements ---------------------------------------------------------------------------


def tensor_of(g: Graph, node: OnnxNode) -> tuple[int, tuple[int, ...], Scale | None]:
    """The tensor that an operator moves: levels between quantizers, or as they are."""
    value = g.value(node, 0)
    if isinstance(value, Moved):
        return value.index, value.shape, None
    real, scale = g.dequantized(node, 0)
    return real.sources[0], real.shape, scale


def _move(
    g: Graph, node: OnnxNode, kind: str, shape: Sequence[int], attributes: dict[str, object]
) -> Value:
    index, _, scale = tensor_of(g, node)
    output = replace(g.tensors[index], name=node.outputs[0], shape=tuple(shape), data=None)
    made = g.emit(node, kind, (index,), output, attributes)
    if scale is None:
        return Moved(made, tuple(shape))
    return Real((made,), tuple(shape), scale.reals(), scale)


def _reshaped(g: Graph, node: OnnxNode, shape: Sequence[int]) -> Value:
    _, before, _ = tensor_of(g, node)
    if np.prod(shape) != np.prod(before):
        g.refuse(node, f"turns shape {list(before)} into {list(shape)}", "sizes must be equal")
    return _move(g, node, "reshape", shape, {})


def folded(function: Callable[[Graph, OnnxNode], Value]) -> Callable[[Graph, OnnxNode], Value]:
    """A move, of constants too."""

    def reader(g: Graph, node: OnnxNode) -> Value:
        value = g.value(node, 0)
        if not isinstance(value, Constant):
            return function(g, node)
        inner = Graph(replace(g.model, inputs=(), constants={}))
        inner.values = dict(g.values)
        index = inner.tensor(Tensor("", value.data.shape, value.data.dtype.name))
        inner.values[node.inputs[0]] = Moved(index, value.data.shape)
        moved = function(inner, node)
        assert isinstance(moved, Moved)
        if inner.operators[-1].kind != "reshape":
            g.refuse(node, "moves a constant", "fold it into the file")
        return Constant(value.data.reshape(moved.shape))

    return reader


def reshape(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    stated = g.integers(node, 1)
    shape = [before[k] if n == 0 and k < len(before) else n for k, n in enumerate(stated)]
    if shape.count(-1) == 1:
        rest = int(np.prod([n for n in shape if n != -1]))
        shape[shape.index(-1)] = int(np.prod(before)) // max(rest, 1)
    return _reshaped(g, node, shape)


def flatten(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    axis = node.integer("axis", 1)
    axis = axis + len(before) if axis < 0 else axis
    return _reshaped(g, node, (int(np.prod(before[:axis])), int(np.prod(before[axis:]))))


def _axes(g: Graph, node: OnnxNode, rank: int) -> list[int]:
    stated = node.integers("axes", ()) or (g.integers(node, 1) if len(node.inputs) > 1 else ())
    return sorted(axis % rank for axis in stated)


def squeeze(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    axes = _axes(g, node, len(before)) or [k for k, n in enumerate(before) if n == 1]
    return _reshaped(g, node, [n for k, n in enumerate(before) if k not in axes])


def unsqueeze(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    count = len(node.integers("axes", ())) or len(g.integers(node, 1))
    rest = iter(before)
    axes = _axes(g, node, len(before) + count)
    return _reshaped(g, node, [1 if k in axes else next(rest) for k in range(len(before) + count)])


def identity(g: Graph, node: OnnxNode) -> Value:
    value = g.value(node, 0)
    assert value is not None
    return value


def transpose(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    axes = node.integers("perm", tuple(range(len(before)))[::-1])
    return _move(g, node, "transpose", [before[axis] for axis in axes], {"axes": axes})


def strided(g: Graph, node: OnnxNode) -> Value:
    _, before, _ = tensor_of(g, node)
    starts, ends = g.integers(node, 1), g.integers(node, 2)
    axes = g.integers(node, 3) if g.value(node, 3) is not None else tuple(range(len(starts)))
    steps = g.integers(node, 4) if g.value(node, 4) is not None else (1,) * len(starts)
    begin, strides, shape = [0] * len(before), [1] * len(before), list(before)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places = range(*slice(start, _end(end, step), step).indices(before[axis]))
        if not places:
            g.refuse(node, f"takes nothing of axis {axis}", "leave it out")
        k = axis % len(before)
        begin[k], strides[k], shape[k] = places[0], step, len(places)
    attributes: dict[str, object] = {"begin": tuple(begin), "strides": tuple(strides)}
    return _move(g, node, "slice", shape, attributes)


def _end(end: int, step: int) -> int | None:
    """Python's end: a backward slice runs to the front where ONNX says less than -length."""
    return None if step < 0 and end < -(1 << 30) else end


def pad(g: Graph, node: OnnxNode) -> Value:
    index, before, scale = tensor_of(g, node)
    if node.attributes.get("mode", "constant") != "constant" or g.value(node, 3) is not None:
        g.refuse(node, f"has mode {node.attributes.get('mode')} or axes", "constant is understood")
    pads = g.integers(node, 1)
    value = 0.0
    if g.value(node, 2) is not None:
        value = float(g.constant(node, 2).reshape(-1)[0])
    if min(pads) < 0 or (scale is not None and value != 0.0):
        g.refuse(node, f"has pads {pads} of {value:g}", "pads above 0 with 0 are understood")
    level = int(value) if scale is None else scale.zero_point
    half = len(pads) // 2
    shape = [n + a + b for n, a, b in zip(before, pads[:half], pads[half:], strict=True)]
    attributes: dict[str, object] = {"before": pads[:half], "after": pads[half:], "value": level}
    del index
    return _move(g, node, "pad", shape, attributes)


def concat(g: Graph, node: OnnxNode) -> Value:
    first = g.value(node, 0)
    if isinstance(first, Constant):
        parts = [g.constant(node, place) for place in range(len(node.inputs))]
        return Constant(np.concatenate(parts, node.integer("axis", 0)))
    reals = [g.dequantized(node, place) for place in range(len(node.inputs))]
    shapes = [real.shape for real, _ in reals]
    axis = node.integer("axis", 1) % len(shapes[0])
    rest = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len(rest) != 1:
        g.refuse(node, f"joins shapes {shapes}", "they must be equal but for one axis")
    shape = list(shapes[0])
    shape[axis] = sum(some[axis] for some in shapes)
    inputs = tuple(real.sources[0] for real, _ in reals)
    scales = tuple(scale for _, scale in reals)
    return Pending("concat", inputs, tuple(shape), {"axis": axis, "scales": scales})


# -- what is known before it runs ------------------------------------------------------------------


def constant(g: Graph, node: OnnxNode) -> Value:
    value = next(iter(node.attributes.values()))
    return Constant(np.asarray(value))


def shape_of(g: Graph, node: OnnxNode) -> Value:
    value = g.value(node, 0)
    shape = value.data.shape if isinstance(value, Constant | Quantized) else value.shape  # type: ignore[union-attr]
    return Constant(np.array(shape, np.int64))


def gather(g: Graph, node: OnnxNode) -> Value:
    data, places = g.constant(node, 0), g.constant(node, 1)
    return Constant(np.take(data, places.astype(np.int64), node.integer("axis", 0)))


def cast(g: Graph, node: OnnxNode) -> Value:
    data = g.constant(node, 0)
    if data.dtype.kind not in "iu" or node.integer("to", 0) not in (6, 7):
        g.refuse(node, f"turns {data.dtype} into type {node.integer('to', 0)}", "shapes are read")
    return Constant(data.astype(np.int64))
