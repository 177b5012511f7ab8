# SPDX-License-Identifier: Apache-2.0
"""partition/fused_graph.py: what no pattern takes becomes operators of the host, one a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.backend.interface import offered
from loadstone.frontend import onnx
from loadstone.frontend.canonical import canonical
from loadstone.graph.reference import run
from loadstone.partition.eager import HOST, explain, partition
from tests.draw import Random
from tests.onnx_builder import Graph
from tests.partition.divided import backend, module_of, places, step


def test_float_operators_become_one_host_operator_per_connected_group() -> None:
    shifts = np.linspace(-1, 1, 4 * 36, dtype=np.float32).reshape(1, 4, 6, 6)

    def moved(graph: Graph, x: str) -> str:  # each element otherwise, or it were a table
        return graph.node("Add", graph.dequantize(x, 0.05, 0), graph.constant(shifts))

    def build(graph: Graph, x: str) -> str:
        left = graph.node("Exp", graph.node("Neg", moved(graph, x)))
        right = graph.node("Sqrt", graph.node("Abs", moved(graph, x)))
        return step(graph, "Add", graph.quantize(left, 0.5, 0), graph.quantize(right, 0.5, 0))

    divided = partition(module_of(build), [backend("npu", offered("add"))])
    hosts = [operator for operator in divided.graph.operators if isinstance(operator, g.Host)]
    assert [set(host.operators) for host in hosts] == [
        {"add", "negative", "exp"},
        {"add", "abs", "sqrt"},
    ]
    rows = [row for row in explain(divided) if row["kind"] == "host"]
    assert rows[0]["why"] == "npu: works on float32 (add, negative, exp)"
    data = Random(0).int8(1, 4, 6, 6)
    real = data.astype(np.float32) * np.float32(0.05) + shifts
    parts = [
        np.clip(np.rint(part / np.float32(0.5)), -128, 127)
        for part in (np.exp(-real), np.sqrt(np.abs(real)))
    ]
    wanted = np.clip(np.rint(parts[0] + parts[1]), -128, 127)
    got = run(divided.graph, [data])[0]
    assert np.mean(got != wanted) < 0.01  # TVM's exp and NumPy's


def test_a_float_model_is_one_host_operator(shared: Any) -> None:
    from loadstone.frontend import load

    divided = partition(
        load(shared / "models" / "mlpt_ad_f32.tflite"), [backend("npu", offered("dense"))]
    )
    assert places(divided) == [("host", HOST)]
    assert not divided.segments


def test_a_composite_that_reads_what_the_host_computes_knows_its_name() -> None:
    """Names of Relax variables have no dots, names of the file's tensors may: the Host operator
    names what is read."""
    graph = Graph()
    x = graph.node("Tanh", graph.input((1, 3, 4, 4), np.float32))
    padded = graph.node(
        "Pad",
        graph.node("Concat", x, x, axis=1),
        graph.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])),
    )
    model = graph.save([(graph.quantize(padded, 0.01, 0), np.int8)])
    made = partition(canonical(onnx.from_bytes(model, "m.onnx")), []).graph
    assert made.operators[-1].inputs[0].name in {
        tensor.name for operator in made.operators[:-1] for tensor in operator.outputs
    }
