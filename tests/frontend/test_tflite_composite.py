# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_composite.py: a composite is what its decomposition computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import ModelError, UnsupportedError
from tests.draw import Random
from tests.frontend.tflite_models import check, refusal
from tests.tflite_builder import Graph, Tensor


def body() -> tuple[Graph, list[Tensor]]:
    """Two tensors in, two out: what an operator computes with a constant, and what comes of it."""
    inner = Graph()
    a, b = (inner.input((1, 6), np.int8, 0.1, 3) for _ in "ab")
    both, last = (inner.tensor((1, 6), np.int8, 0.2, -5) for _ in "cd")
    inner.operator("ADD", [a, b], [both])
    offset = inner.constant(np.int8([[1, 2, 3, 4, 5, 6]]), 0.3)
    inner.operator("MUL", [both, offset], [last])
    return inner, [last, both]


def outside(**options: Any) -> tuple[Graph, list[Tensor]]:
    graph = Graph()
    x = graph.input((1, 6), np.int8, 0.1, 3)
    twice = graph.tensor((1, 6), np.int8, 0.1, 3)
    graph.operator("RELU", [x], [twice])
    ends = [graph.tensor((1, 6), np.int8, 0.2, -5) for _ in "ab"]
    options = {"name": "mine", "composite_attributes": flexbuffers.Dumps({}), **options}
    graph.operator("STABLEHLO_COMPOSITE", [twice, x], ends, **options)
    z = graph.tensor((1, 6), np.int8, 0.3, 0)
    graph.operator("ADD", ends, [z])
    return graph, [z, ends[1]]


def test_a_decomposition_takes_the_place_of_its_composite() -> None:
    graph, outputs = outside(decomposition_subgraph_index=1)
    inner, ends = body()
    draw = Random(0)
    model = graph.save(outputs, inner, ends)
    made = check(graph, outputs, draw, model)
    assert [o.kind for o in made.operators] == ["requantize", "add", "mul", "add"]


def test_a_decomposition_that_does_not_fit_is_refused() -> None:
    graph, outputs = outside(decomposition_subgraph_index=1)
    inner, ends = body()
    text = refusal(graph.save(outputs, inner, ends[:1]), ModelError)
    assert "it has 2 tensors where its decomposition, subgraph 1, has 1" in text
    assert "subgraph 0, contains itself" in refusal(outside()[0].save(outputs, inner, ends))
    inner.tensors[0] = inner.tensor((1, 6), np.int8, 0.4, 3)
    text = refusal(graph.save(outputs, inner, ends))
    assert 'has another shape, type or scale than "t5"' in text


def test_a_tensor_that_goes_through_a_decomposition_is_refused() -> None:
    graph, outputs = outside(decomposition_subgraph_index=1)
    inner, ends = body()
    text = refusal(graph.save(outputs, inner, [ends[0], inner.inputs[0]]), UnsupportedError)
    assert 'its decomposition gives back "in0" as it is' in text
