# SPDX-License-Identifier: Apache-2.0
"""ONNX networks with something changed that a quantizer would not have written.

In:   a number.
Out:  the bytes of an .onnx file, inputs for it, and what was changed, as text.
Next: models.py compiles it and compares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tests import random_onnx
from tests.draw import Random

__all__ = ["mutant"]

#: What scales become: near, far, and what no scale can be.
SCALES = (
    lambda s: s * 1.001,
    lambda s: s * 0.5,
    lambda s: s * 30,
    lambda s: s / 200,
    lambda s: s * 1e-6,
    lambda s: s * 1e6,
)
NO_SCALES = (np.inf, -np.inf, np.nan, 0.0, -1.0, 1e30, 1e-30, 1e-42, 3e38)
SWAPS = {
    1: (
        "Relu",
        "Sigmoid",
        "Tanh",
        "Abs",
        "Neg",
        "Exp",
        "Sqrt",
        "Softmax",
        "HardSwish",
        "Identity",
        "Floor",
        "Flatten",
    ),
    2: ("Add", "Sub", "Mul", "Div", "Max", "Min", "MatMul", "PRelu"),
}


def mutant(number: int) -> tuple[bytes, list[NDArray[Any]], tuple[str, ...]]:
    """One to three changes of a random network of a single operator."""
    network = random_onnx.network(2 * number + 1)
    model = onnx.load_model_from_string(network.model)
    draw = Random(1_000_003 * (number + 1))
    changes = [draw.pick(_CHANGES)(model.graph, draw) for _ in range(draw.pick([1, 1, 1, 2, 3]))]
    inputs = [x[0] for x in network.draw_inputs(number, 1)]
    return model.SerializeToString(), inputs, tuple(change for change in changes if change)


def _parameters(graph: Any, draw: Random, place: int) -> tuple[Any, Any] | None:
    """(a node that quantizes, the initializer of its scale or zero point)."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    found = []
    for node in graph.node:
        names = (
            [node.input[place]]
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") and len(node.input) > place
            else []
        )
        if node.op_type.startswith("QLinear"):
            wanted = np.float32 if place == 1 else None
            names = [n for n in node.input if n in tensors and _fits(tensors[n], wanted)]
        found += [(node, tensors[name]) for name in names if name in tensors]
    return draw.pick(found) if found else None


def _fits(tensor: Any, wanted: Any) -> bool:
    array = numpy_helper.to_array(tensor)
    return array.ndim <= 1 and (
        array.dtype == wanted if wanted else array.dtype in (np.int8, np.uint8)
    )


def _set(tensor: Any, array: NDArray[Any]) -> None:
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


def _scale(graph: Any, draw: Random) -> str:
    found = _parameters(graph, draw, 1)
    if found is None:
        return ""
    node, tensor = found
    old = numpy_helper.to_array(tensor)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        new = draw.pick(SCALES)(old) if draw.chance(2) else np.full_like(old, draw.pick(NO_SCALES))
    new = np.asarray(new, np.float32)
    if new.size > 1 and draw.chance(2):
        new = np.where(np.arange(new.size) == draw.int(0, new.size - 1), new, old).astype(
            np.float32
        )
    _set(tensor, new.reshape(old.shape))
    return f"{node.op_type} scale {np.ravel(old)[0]:g} -> {new.reshape(-1)[:3].tolist()}"


def _zero_point(graph: Any, draw: Random) -> str:
    found = _parameters(graph, draw, 2)
    if found is None:
        return ""
    node, tensor = found
    old = numpy_helper.to_array(tensor)
    if old.dtype.kind == "f":  # an earlier change put a scale into its place
        return ""
    limits = np.iinfo(old.dtype)
    value = draw.pick([limits.min, limits.max, 0, draw.int(limits.min, limits.max)])
    _set(tensor, np.full_like(old, value))
    return f"{node.op_type} zero point {value}"


def _attribute(graph: Any, draw: Random) -> str:
    found = [
        (node, attribute)
        for node in graph.node
        for attribute in node.attribute
        if attribute.ints or attribute.type == 2
    ]
    if not found:
        return ""
    node, attribute = draw.pick(found)
    if attribute.ints:
        attribute.ints[draw.int(0, len(attribute.ints) - 1)] += draw.pick([-1, 1, 2])
    else:
        attribute.i += draw.pick([-1, 1, 2])
    return f"{node.op_type} {attribute.name} = {list(attribute.ints) or attribute.i}"


def _kind(graph: Any, draw: Random) -> str:
    plain = [
        n
        for n in graph.node
        if len(n.input) in SWAPS and not n.attribute and "Linear" not in n.op_type
    ]
    if not plain:
        return ""
    node = draw.pick(plain)
    old, node.op_type = node.op_type, draw.pick(SWAPS[len(node.input)])
    return f"{old} -> {node.op_type}"


def _rewired(graph: Any, draw: Random) -> str:
    node = draw.pick(list(graph.node))
    names = [entry.name for entry in (*graph.input, *graph.initializer)] + [
        name for other in graph.node for name in other.output
    ]
    place = draw.int(0, len(node.input) - 1)
    node.input[place] = draw.pick([*names, ""])
    return f"{node.op_type} input {place} = {node.input[place]!r}"


def _between(graph: Any, draw: Random) -> str:
    """Another operator between one and its readers."""
    node = draw.pick(list(graph.node))
    name = f"{node.output[0]}_before"
    kind = draw.pick(["Relu", "Identity", "Neg", "Tanh", "Transpose", "Flatten"])
    place = list(graph.node).index(node)
    graph.node.insert(place + 1, helper.make_node(kind, [name], [node.output[0]]))
    node.output[0] = name
    return f"{kind} after {node.op_type}"


def _no_zero_point(graph: Any, draw: Random) -> str:
    found = [
        n
        for n in graph.node
        if n.op_type in ("QuantizeLinear", "DequantizeLinear") and len(n.input) == 3
    ]
    if not found:
        return ""
    node = draw.pick(found)
    del node.input[2]
    return f"{node.op_type} without a zero point"


_CHANGES: list[Callable[[Any, Random], str]] = [
    *([_scale] * 5 + [_zero_point] * 3 + [_attribute] * 2 + [_kind] * 2),
    *(_rewired, _between, _no_zero_point),
]
