# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_functions.py: functions that TVM's importer has otherwise equal LiteRT's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from tests.draw import Random
from tests.frontend.tflite_models import check
from tests.imported import check_same, tflite_graph
from tests.tflite_builder import Graph, run


def test_a_cast_goes_to_the_type_of_its_tensor() -> None:
    """LiteRT does not read the types of its options."""
    draw, graph = Random(0), Graph()
    x, y = graph.input((4, 5), np.int32), graph.tensor((4, 5), np.int64)
    graph.operator("CAST", [x], [y], in_data_type=0, out_data_type=6)
    check(graph, [y], draw)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_every_int8(*, approximate: bool) -> None:
    graph = Graph()
    x, y = graph.input((16, 16), np.int8, 0.03, 5), graph.tensor((16, 16), np.int8, 0.02, -90)
    graph.operator("GELU", [x], [y], approximate=approximate)
    model, every = graph.save([y]), np.arange(-128, 128).astype(np.int8).reshape(16, 16)
    check_same(tflite_graph(model), [every], run(model, [every]))


def test_truth_values_are_compared() -> None:
    draw, graph = Random(0), Graph()
    x, row = graph.input((4, 5), np.int32), graph.constant(np.int32([[3]]))
    sides = [graph.tensor((4, 5), np.bool_) for _ in "ab"]
    graph.operator("LESS", [x, row], sides[:1])
    graph.operator("GREATER", [x, row], sides[1:])
    ends = [graph.tensor((4, 5), np.bool_) for _ in "ab"]
    for kind, end in zip(("EQUAL", "NOT_EQUAL"), ends, strict=True):
        graph.operator(kind, sides, [end])
    check(graph, ends, draw)
