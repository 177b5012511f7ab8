# SPDX-License-Identifier: Apache-2.0
"""Computes the constant parts of an ONNX model, and expands operators into their definitions.

In:   a model whose inputs have fixed sizes.
Out:  the same with constants in place of whole subgraphs of them (numbers that come from shapes
      among them), with what control.py makes of branches, loops and sequences, and with ONNX's own
      definition in place of an operator that has no converter but one.
Next: qoperator.py and table.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx.inliner
import onnx.reference

from loadstone.frontend.onnx.control import Expansion
from loadstone.numerics import Array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

__all__ = ["fold"]

#: These keep their meaning: weights stay integers with a scale.
_KEPT = frozenset({"QuantizeLinear", "DequantizeLinear", "Loop", "Scan"})
#: Their shapes are inferred as if each attribute that is not there were 0.
_INFERRED = frozenset({("", "STFT")})
#: What draws numbers anew each time.
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
#: What a constant may grow to that is larger than all that it is computed from.
_MOST_ELEMENTS = 1 << 20
_ROUNDS = 32


def fold(model: ModelProto, is_known: Callable[[NodeProto], bool]) -> ModelProto:
    """What cannot be computed stays as it is. is_known: whether a node has a converter; one that
    has none is replaced by ONNX's definition of it, if it has one."""
    count = itertools.count(1)
    opset = next((int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)
    expansion = Expansion(lambda stem: f"{stem}/{next(count)}", opset)
    _say_defaults(model)
    _fold_once(model, expansion)
    if not any(_needs_shapes(node, is_known) for node in model.graph.node):
        return model
    for entry in (*model.graph.value_info, *model.graph.output):
        entry.type.tensor_type.ClearField("shape")  # of open sizes; inferred anew
    del model.graph.value_info[:]
    for _ in range(_ROUNDS):
        _say_defaults(model)
        try:
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        except Exception:
            return model
        expansion.shapes = _static_shapes(model.graph)
        expansion.types = _element_types(model.graph)
        folded = _fold_once(model, expansion)
        unknown = {
            (node.domain, node.op_type)
            for node in model.graph.node
            if not is_known(node) and _is_defined(node, model)
        }
        if unknown:
            _say_types(model.graph)
            model = onnx.inliner.inline_selected_functions(
                model, sorted(unknown), inline_schema_functions=True
            )
        elif not folded:
            break
    _set_nodes(model.graph, model.graph.node, {entry.name for entry in model.graph.output})
    _say_outputs(model.graph)
    return model


def _say_outputs(graph: GraphProto) -> None:
    """Inference says the shapes of what nodes make: of inputs and constants they are known."""
    known = {entry.name: entry.type for entry in graph.input}
    for tensor in graph.initializer:
        info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        known[tensor.name] = info.type
    for entry in graph.output:
        if entry.name in known:
            entry.type.CopyFrom(known[entry.name])


def _say_types(graph: GraphProto) -> None:
    """The inliner asks for the type of each tensor, also of an input that is left out, and looks
    for none among initializers."""
    said = {entry.name for entry in (*graph.input, *graph.value_info)}
    if "" not in said:
        graph.value_info.append(onnx.ValueInfoProto(name=""))
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
        if tensor.name not in said
    )


def _say_defaults(model: ModelProto) -> None:
    """ONNX's definitions in terms of others read only attributes that are there, as does the
    inference of some shapes."""
    versions = {entry.domain: int(entry.version) for entry in model.opset_import}
    for node in model.graph.node:
        if (node.domain, node.op_type) not in _INFERRED and not _is_defined(node, model):
            continue
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
        said = {attribute.name for attribute in node.attribute}
        node.attribute.extend(
            entry.default_value
            for name, entry in schema.attributes.items()
            if name not in said and entry.default_value.type != onnx.AttributeProto.UNDEFINED
        )


def _needs_shapes(node: NodeProto, is_known: Callable[[NodeProto], bool]) -> bool:
    return node.op_type in (
        "Shape",
        "Size",
        "CastLike",
        "SplitToSequence",
        "OptionalHasElement",
    ) or not is_known(node)


def _is_defined(node: NodeProto, model: ModelProto) -> bool:
    """Whether ONNX says what the operator means in terms of others."""
    versions = {entry.domain: int(entry.version) for entry in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _fold_once(model: ModelProto, expansion: Expansion) -> bool:
    """Whether a node became a constant, or other nodes."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def add(name: str, value: Array) -> None:
        constants[name] = onnx.numpy_helper.from_array(value, name)
        graph.initializer.append(constants[name])

    expansion.constants, expansion.add = constants, add
    outputs = {entry.name for entry in graph.output}
    left, folded = list["NodeProto"](), False
    waiting = list(reversed(graph.node))
    while waiting:
        node = waiting.pop()
        nodes = expansion.expanded(node)
        if nodes is not None:
            if node in nodes:
                left.append(node)
            waiting.extend(entry for entry in reversed(nodes) if entry is not node)
            folded = True
            continue
        made = _computed(node, constants, expansion.shapes, model)
        if made is None:
            left.append(node)
            continue
        for output, value in zip(node.output, made, strict=True):
            if output:
                add(output, np.asarray(value))
        folded = folded or node.op_type != "Constant"
    _set_nodes(graph, left, outputs | expansion.held)
    return folded


def _set_nodes(graph: GraphProto, nodes: Sequence[NodeProto], outputs: set[str]) -> None:
    """Those that lead to an output, and the initializers that they read."""
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in _read(nodes, outputs)]
    del graph.node[:]
    graph.node.extend(kept)
    _forget_unread(graph, outputs)


def _forget_unread(graph: GraphProto, outputs: set[str]) -> None:
    """Initializers that only what was folded has read."""
    read = outputs | {entry for node in graph.node for entry in _reads(node)}
    inputs = {entry.name for entry in graph.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read or tensor.name in inputs]
    if len(kept) < len(graph.initializer):
        kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
        del graph.initializer[:]
        graph.initializer.extend(kept)


def _static_shapes(graph: GraphProto) -> dict[str, list[int]]:
    known = {}
    for entry in (*graph.input, *graph.value_info, *graph.output):
        tensor = entry.type.tensor_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            known[entry.name] = [int(d.dim_value) for d in tensor.shape.dim]
    known |= {t.name: list(t.dims) for t in graph.initializer}
    return known


def _element_types(graph: GraphProto) -> dict[str, int]:
    """By ONNX's numbers."""
    entries = (*graph.input, *graph.value_info, *graph.output)
    known = {entry.name: int(entry.type.tensor_type.elem_type) for entry in entries}
    known |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return {name: number for name, number in known.items() if number}


def _computed(
    node: NodeProto,
    constants: Mapping[str, TensorProto],
    shapes: Mapping[str, Sequence[int]],
    model: ModelProto,
) -> Sequence[Array] | None:
    """What a node of constants gives; None for one that cannot be computed now."""
    if node.op_type in _KEPT | _RANDOM or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type in ("Shape", "Size") and node.input[0] in shapes:
        return [_extents(node, np.array(shapes[node.input[0]], np.int64))]
    read = [entry for entry in _reads(node) if entry]
    if any(entry not in constants for entry in read):
        return None
    given = {entry: onnx.numpy_helper.to_array(constants[entry]) for entry in read}
    try:
        made = _evaluated(node, given, model)
    except Exception:
        return None
    most = max(_MOST_ELEMENTS, sum(value.size for value in given.values()))
    is_kept = all(isinstance(v, np.ndarray | np.generic) and v.size <= most for v in made)
    return made if is_kept else None


def _evaluated(node: NodeProto, given: Mapping[str, Array], model: ModelProto) -> list[Array]:
    """One node alone, by ONNX's own definition. given: of any shape."""
    inputs = [
        onnx.helper.make_tensor_value_info(
            entry, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for entry, value in given.items()
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(entry) for entry in node.output if entry]
    graph = onnx.helper.make_graph([node], "one", inputs, outputs)
    alone = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    made = iter(onnx.reference.ReferenceEvaluator(alone).run(None, dict(given)))
    return [next(made) if entry else np.zeros(0) for entry in node.output]


def _extents(node: NodeProto, sizes: Array) -> Array:
    """Those that a Shape asks for by its own start and end; of a Size their product."""
    if node.op_type == "Size":
        return np.asarray(np.prod(sizes))
    bounds = {a.name: a.i for a in node.attribute}
    return sizes[slice(bounds.get("start", 0), bounds.get("end", len(sizes)))]


def _reads(node: NodeProto) -> list[str]:
    """Its inputs, and those of the graphs in it."""
    read = list(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inner = {entry.name for entry in (*graph.input, *graph.initializer)}
            inner |= {output for held in graph.node for output in held.output}
            outer = [e for held in graph.node for e in _reads(held)]
            outer += [entry.name for entry in graph.output]
            read += [entry for entry in outer if entry not in inner]
    return read


def _read(nodes: Sequence[NodeProto], outputs: set[str]) -> list[NodeProto]:
    """Without those that nothing reads any more."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(_reads(node))
            kept.append(node)
    return kept[::-1]
