# SPDX-License-Identifier: Apache-2.0
"""What skl2onnx puts behind a classifier, in ONNX's own operators: labels by number, chances as a
matrix.

In:   a model, sizes fixed by graph.py, that may hold ArrayFeatureExtractor and ZipMap of the domain
      ai.onnx.ml.
Out:  the same with Gather, and with the matrix that a ZipMap reads in place of its dictionaries.
Next: folding.py. Scalers and linear models of the domain are estimators.py's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.onnx.rewriting import OPSET

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["without_ml"]

_DOMAIN = "ai.onnx.ml"


def without_ml(model: ModelProto, name: str) -> ModelProto:
    """Raises UnsupportedError, `name` before the message, for labels that are texts. Other
    operators of the domain stay, and are refused as any that nobody knows."""
    graph = model.graph
    if not any(node.domain == _DOMAIN for node in graph.node):
        return model
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", OPSET))
    nodes: list[NodeProto] = []
    for node in graph.node:
        if (node.domain, node.op_type) == (_DOMAIN, "ArrayFeatureExtractor"):
            nodes += _gathered(model, node, name)
        elif (node.domain, node.op_type) == (_DOMAIN, "ZipMap"):
            nodes.append(_matrix(model, node))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


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
