# SPDX-License-Identifier: Apache-2.0
"""What skl2onnx makes of scikit-learn's models, in ONNX's own operators.

In:   a model, sizes fixed by graph.py, that may hold operators of the domain ai.onnx.ml.
Out:  the same with what estimators.py makes of scalers and linear models; with Gather for an
      ArrayFeatureExtractor, and with the matrix that a ZipMap reads in place of its dictionaries.
Next: folding.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.onnx.estimators import ESTIMATORS, Estimator
from loadstone.frontend.onnx.node import described

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["without_ml"]

_DOMAIN = "ai.onnx.ml"
#: Of a model that has none of ONNX's own operators, and so no version of them.
_OPSET = 17


def without_ml(model: ModelProto, name: str) -> ModelProto:
    """Raises UnsupportedError, `name` before the message, for labels that are texts, and for what
    an operator's rule does not take. Other operators of the domain stay, and are refused as any
    that nobody knows."""
    graph = model.graph
    if not any(node.domain == _DOMAIN for node in graph.node):
        return model
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", _OPSET))
    nodes: list[NodeProto] = []
    for node in graph.node:
        if (node.domain, node.op_type) == (_DOMAIN, "ArrayFeatureExtractor"):
            nodes += _gathered(model, node, name)
        elif (node.domain, node.op_type) == (_DOMAIN, "ZipMap"):
            nodes.append(_matrix(model, node))
        elif node.domain == _DOMAIN and node.op_type in ESTIMATORS:
            made = _estimator(model, node, nodes, name)
            made.check_opset()
            ESTIMATORS[node.op_type](made)
            nodes += made.nodes
            graph.initializer.extend(made.constants)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _estimator(model: ModelProto, node: NodeProto, before: list[NodeProto], name: str) -> Estimator:
    """The node with what is known of its input. before: the nodes up to it, rewritten."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:]
    part.graph.node.extend(before)
    graph = onnx.shape_inference.infer_shapes(part, data_prop=True).graph
    known = {e.name: e.type.tensor_type for e in (*graph.input, *graph.value_info, *graph.output)}
    where, given = f"{name}: {described(node)}", node.input[0]
    found = known.get(given)
    extents = [int(d.dim_value) for d in found.shape.dim] if found is not None else []
    if found is None or not found.HasField("shape") or not all(extents):
        raise UnsupportedError(
            f'{where}: the shape of its input "{short(given)}" is known only when the model runs: '
            "export it with fixed shapes"
        )
    read = {entry for other in model.graph.node for entry in other.input}
    read |= {entry.name for entry in model.graph.output}
    opset = next(int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx"))
    return Estimator(node, where, opset, found.elem_type, extents, frozenset(read))


def _gathered(model: ModelProto, node: NodeProto, name: str) -> list[NodeProto]:
    """Elements of the last axis by number; of one row the result has two dimensions."""
    data, places = node.input
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    table = constants.get(data)
    if table is not None and table.data_type == onnx.TensorProto.STRING:
        raise UnsupportedError(
            f'{name}: ArrayFeatureExtractor (node "{short(node.name)}"): the labels are texts, '
            f"which nothing here computes with: cut it with --outputs {_scores(model, places)}, "
            "whose largest is the label's number"
        )
    flat = table is not None and len(table.dims) == 1
    shape = f"{node.output[0]}/shape"
    extents = [1, -1] if flat else [-1]
    model.graph.initializer.append(
        helper.make_tensor(shape, onnx.TensorProto.INT64, [len(extents)], extents)
    )
    rows = f"{node.output[0]}/places"
    return [
        helper.make_node("Reshape", [places, shape], [rows], name=rows),
        helper.make_node("Gather", [data, rows], list(node.output), name=node.name, axis=-1),
    ]


def _scores(model: ModelProto, places: str) -> str:
    """What the largest is looked for in."""
    makers = {output: node for node in model.graph.node for output in node.output}
    while places in makers and makers[places].op_type in ("ArgMax", "Identity", "Cast", "Reshape"):
        places = makers[places].input[0]
    return places


def _matrix(model: ModelProto, node: NodeProto) -> NodeProto:
    """A column for each class, in the order of the ZipMap's classes."""
    classes = max((len(a.ints) or len(a.strings) for a in node.attribute), default=0)
    for entry in model.graph.output:
        if entry.name == node.output[0]:
            entry.CopyFrom(
                helper.make_tensor_value_info(entry.name, onnx.TensorProto.FLOAT, ["N", classes])
            )
    return helper.make_node("Identity", list(node.input), list(node.output), name=node.name)
