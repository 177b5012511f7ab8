# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_variables.py: resource variables of TFLite give LiteRT's integers, run after run,
in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError
from tests.frontend.test_tflite_state import RNG, RUNS, same_as_litert
from tests.tflite_builder import Graph, Tensor


def accumulator(begin: np.ndarray | None) -> tuple[Graph, Tensor, Graph]:
    """sum = sum + x, y = relu(sum), the sum kept in a variable; the subgraph that begins it."""
    grid = (0.05, -7)
    graph, once = Graph(), Graph()
    x = graph.input((1, 24), np.int8, 0.01, 4)
    graph.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    handle = graph.handle("sum")
    before, after, y = (graph.tensor((1, 24), np.int8, *grid) for _ in range(3))
    graph.operator("READ_VARIABLE", [handle], [before])
    graph.operator("ADD", [before, x], [after])
    graph.operator("ASSIGN_VARIABLE", [graph.handle("sum"), after], [])
    graph.operator("RELU", [after], [y])
    if begin is not None:
        once.operator("ASSIGN_VARIABLE", [once.handle("sum"), once.constant(begin, *grid)], [])
    return graph, y, once


def test_a_resource_variable(tmp_path: Path) -> None:
    """Named twice by handles, begun by a subgraph; what is added is on the device."""
    begin = RNG.integers(-60, 60, (1, 24)).astype(np.int8)
    graph, y, once = accumulator(begin)
    xs = RNG.integers(-128, 128, (RUNS, 1, 24)).astype(np.int8)
    found = same_as_litert(graph.save([y], once), xs, tmp_path)
    assert [row["kind"] for row in found.explain() if row["where"] != "host"] == [
        "add",
        "requantize",
    ]


def test_what_is_no_state_is_refused_by_name(tmp_path: Path) -> None:
    """A first value that is computed, one of another shape, weights that are computed."""
    graph, y, once = accumulator(None)
    value = once.tensor((1, 24), np.int8, 0.05, -7)
    begin = once.constant(np.zeros((1, 24), np.int8), 0.05, -7)
    once.operator("RELU", [begin], [value])
    once.operator("ASSIGN_VARIABLE", [once.handle("sum"), value], [])
    refused(graph.save([y], once), "computes what a variable begins with", tmp_path)
    graph, y, once = accumulator(np.zeros((2, 12), np.int8))
    refused(graph.save([y], once), "begins as int8 [2, 12] and is read as int8 [1, 24]", tmp_path)


def refused(model: bytes, why: str, folder: Path) -> None:
    (folder / "m.tflite").write_bytes(model)
    with pytest.raises(LoadstoneError) as error:
        compile(folder / "m.tflite", "vtaq-tiny")
    assert why in str(error.value)
    assert "\n" not in str(error.value)
