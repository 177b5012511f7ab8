# SPDX-License-Identifier: Apache-2.0
"""Operators of other domains in ONNX's own, by rules.

In:   a model, sizes fixed by graph.py; a rule for each operator, which emits what stands for it.
Out:  the same model (changed in place) without those operators.
Next: estimators.py, ml.py and fused.py are the rules; folding.py takes the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.onnx.node import described
from loadstone.numerics import Array

__all__ = ["OPSET", "Rewriting", "Rule", "rewrite"]

#: From here on Equal and Where take numbers of every type, and Clip has its bounds as inputs.
_LEAST_OPSET = 11
#: Of a model that has none of ONNX's own operators, and so no version of them.
OPSET = 17
#: Shapes follow from the numbers of small constants; large ones only have a type.
_MOST_READ = 64

_Type: TypeAlias = "onnx.TypeProto.Tensor"


@dataclass
class Rewriting:
    """One node under rewriting. where: begins a message about it. read: tensors that somebody
    reads. types: by tensor, of what is before it. nodes, constants: what takes its place."""

    node: NodeProto
    where: str
    opset: int
    read: frozenset[str]
    types: Callable[[str], _Type | None]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def refusal(self, reason: str, remedy: str) -> UnsupportedError:
        """What to raise. reason: the thing, its value, the limit. remedy: what helps."""
        return UnsupportedError(f"{self.where}: {reason}: {remedy}")

    def text(self, name: str, default: str = "") -> str:
        """An attribute of text."""
        found = [a.s.decode("utf-8", "replace") for a in self.node.attribute if a.name == name]
        return found[0] if found else default

    def whole(self, name: str, default: int = 0) -> int:
        """An attribute of one whole number."""
        return next((int(a.i) for a in self.node.attribute if a.name == name), default)

    def number(self, name: str, default: float = 0.0) -> float:
        """An attribute of one number."""
        return next((float(a.f) for a in self.node.attribute if a.name == name), default)

    def floats(self, name: str) -> Array:
        """An attribute of many numbers, (count,) float32."""
        found = [a.floats for a in self.node.attribute if a.name == name]
        return np.array(found[0] if found else [], np.float32)

    def wholes(self, name: str) -> Array:
        """An attribute of many whole numbers, (count,) int64."""
        found = [a.ints for a in self.node.attribute if a.name == name]
        return np.array(found[0] if found else [], np.int64)

    def given(self, index: int) -> str:
        """The name of an input, "" where it is left out."""
        return str(self.node.input[index]) if index < len(self.node.input) else ""

    def made(self, index: int) -> str:
        """The name of an output, "" where nobody reads it."""
        name = str(self.node.output[index]) if index < len(self.node.output) else ""
        return name if name in self.read else ""

    def element_type(self, index: int) -> int:
        """ONNX's number of an input's type."""
        return int(self._type(index).elem_type)

    def kind(self, index: int) -> np.dtype[np.generic]:
        """The same as NumPy has it."""
        found: np.dtype[np.generic] = helper.tensor_dtype_to_np_dtype(self.element_type(index))
        return found

    def extents(self, index: int) -> list[int]:
        """The shape of an input."""
        found = self._type(index)
        extents = [int(d.dim_value) for d in found.shape.dim]
        if not found.HasField("shape") or not all(extents):
            raise self._unknown(index)
        return extents

    def _type(self, index: int) -> _Type:
        found = self.types(self.given(index))
        if found is None or not found.elem_type:
            raise self._unknown(index)
        return found

    def _unknown(self, index: int) -> UnsupportedError:
        return self.refusal(
            f'the type or the shape of its input "{short(self.given(index))}" is known only when '
            "the model runs",
            "export it with fixed shapes, or cut the model before it with --outputs",
        )

    def constant(self, given: Array) -> str:
        """Adds an initializer of any shape."""
        name = f"{self._stem()}/constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(given), name))
        return name

    def emit(
        self,
        op_type: str,
        *inputs: str,
        output: str = "",
        **attributes: float | str | Sequence[int],
    ) -> str:
        """Appends a node and gives its output's name. output: where the name is not free."""
        name = output or f"{self._stem()}/step{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def _stem(self) -> str:
        return next(str(name) for name in self.node.output if name)


#: Emits the nodes that stand for one, or raises UnsupportedError.
Rule: TypeAlias = "Callable[[Rewriting], None]"


def rewrite(model: ModelProto, rules: Mapping[tuple[str, str], Rule], name: str) -> None:
    """rules: by domain and operator. Raises UnsupportedError, `name` before the message, for what
    a rule does not take."""
    graph = model.graph
    if not any((node.domain, node.op_type) in rules for node in graph.node):
        return
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", OPSET))
    opset = next(int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx"))
    read = {entry for node in graph.node for entry in node.input}
    read |= {entry.name for entry in graph.output}
    nodes, known = list[NodeProto](), dict[str, _Type]()

    def types(tensor: str) -> _Type | None:
        if tensor not in known:
            known.update(_inferred(model, nodes))
        return known.get(tensor)

    for node in graph.node:
        rule = rules.get((node.domain, node.op_type))
        if rule is None:
            nodes.append(node)
            continue
        made = Rewriting(node, f"{name}: {described(node)}", opset, frozenset(read), types)
        if opset < _LEAST_OPSET:
            raise made.refusal(
                f"the model has opset {opset}, and from {_LEAST_OPSET} on it is imported",
                f"export it with an opset of at least {_LEAST_OPSET}",
            )
        rule(made)
        nodes += made.nodes
        graph.initializer.extend(made.constants)
    _retype(graph, types)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _retype(graph: GraphProto, types: Callable[[str], _Type | None]) -> None:
    """Outputs that were sequences of dictionaries have become tensors."""
    for entry in graph.output:
        if not entry.type.HasField("tensor_type") and (found := types(entry.name)) is not None:
            entry.type.tensor_type.CopyFrom(found)


def _inferred(model: ModelProto, nodes: Sequence[NodeProto]) -> dict[str, _Type]:
    """Types by tensor, of what these nodes read and make."""
    graph = GraphProto(name="part", input=model.graph.input, node=nodes)
    said = {entry.name for entry in graph.input}
    for tensor in model.graph.initializer:
        if int(np.prod(tensor.dims)) <= _MOST_READ:
            graph.initializer.append(tensor)
        if tensor.name not in said:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    part = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=graph)
    found = onnx.shape_inference.infer_shapes(part, data_prop=True).graph
    return {entry.name: entry.type.tensor_type for entry in (*found.input, *found.value_info)}
