# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/recurrent.py: what is not unrolled is named (see test_recurrent.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from loadstone.errors import UnsupportedError
from loadstone.frontend import load
from loadstone.frontend.onnx import from_bytes
from tests.frontend.test_recurrent import BATCH, STEPS, WIDTH, layer, shapes
from tests.onnx_builder import Graph


def refused(kind: str, **attributes: Any) -> str:
    graph = Graph()
    x = graph.input((STEPS, BATCH, WIDTH), np.float32)
    names = layer(graph, x, kind, **attributes)
    model = graph.save([(names[0], np.float32)], [shapes(kind, False)[0]])
    with pytest.raises(UnsupportedError) as caught:
        from_bytes(model, "m.onnx")
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("LSTM", {"clip": 3.0}, "it has clip"),
        ("LSTM", {"input_forget": 1}, "it has input_forget"),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"]}, "it has activations HardSigmoid, Tanh"),
    ],
)
def test_what_is_not_unrolled_is_named(kind: str, attributes: Any, message: str) -> None:
    assert message in refused(kind, **attributes)


def test_a_node_that_holds_graphs_is_one_line(tmp_path: Path) -> None:
    """It ended in an assertion of the compiler."""
    graph = Graph()
    x = graph.input((2, 3), np.float32)
    branches = {}
    for branch, kind in (("then_branch", "Add"), ("else_branch", "Mul")):
        value = onnx.helper.make_tensor_value_info(branch, onnx.TensorProto.FLOAT, (2, 3))
        node = onnx.helper.make_node(kind, [x, x], [branch])
        branches[branch] = onnx.helper.make_graph([node], branch, [], [value])
    total = graph.node("ReduceSum", x, keepdims=0)
    larger = graph.node("Greater", total, graph.constant(0.0, np.float32))
    model = graph.save([(graph.node("If", larger, **branches), np.float32)], [(2, 3)])
    (tmp_path / "m.onnx").write_bytes(model)
    with pytest.raises(UnsupportedError, match="decided when the model runs") as caught:
        load(tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)
