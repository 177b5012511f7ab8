# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/folding.py: constants are computed, branches that are known are taken, operators
are given by ONNX's own definition."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.frontend.onnx.folding import fold
from tests.onnx_builder import Graph, run


def folded(graph: Graph, output: str, known: bool = True) -> onnx.ModelProto:
    model = onnx.load_model_from_string(graph.save([(output, np.float32)]))
    return fold(model, lambda node: known or node.op_type != "LayerNormalization")


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_a_whole_subgraph_of_constants_becomes_one() -> None:
    graph = Graph()
    x = graph.input((2, 4), np.float32)
    weights = graph.constant(np.arange(16).reshape(4, 4), np.float32)
    parts = [
        graph.node("Transpose", weights),
        graph.node("Clip", weights, graph.constant(3.0, np.float32)),
    ]
    y = graph.node("MatMul", x, graph.node("Add", *parts))
    model = folded(graph, y)
    assert kinds(model) == ["MatMul"]
    assert len(model.graph.initializer) == 1
    data = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        run(model.SerializeToString(), [data])[0], run(graph.save([(y, np.float32)]), [data])[0]
    )


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_whose_condition_is_known_is_taken(*, condition: bool) -> None:
    graph = Graph()
    x = graph.input((2, 3), np.float32)
    branches = {}
    for branch, kind in (("then_branch", "Add"), ("else_branch", "Mul")):
        value = onnx.helper.make_tensor_value_info(branch, onnx.TensorProto.FLOAT, (2, 3))
        node = onnx.helper.make_node(kind, [x, x], [branch])
        branches[branch] = onnx.helper.make_graph([node], branch, [], [value])
    y = graph.node("If", graph.constant(condition), **branches)
    assert kinds(folded(graph, y)) == ["Add" if condition else "Mul", "Identity"]


def test_an_operator_without_a_converter_is_given_by_its_definition() -> None:
    graph = Graph()
    x = graph.input((2, 8), np.float32)
    y = graph.node("LayerNormalization", x, graph.constant(np.ones(8), np.float32))
    model = folded(graph, y, known=False)
    assert "LayerNormalization" not in kinds(model)
    data = np.random.default_rng(1).normal(size=(2, 8)).astype(np.float32)
    np.testing.assert_allclose(
        run(model.SerializeToString(), [data])[0],
        run(graph.save([(y, np.float32)]), [data])[0],
        atol=1e-6,
    )
