# SPDX-License-Identifier: Apache-2.0
"""frontend/tables.py: functions of one int8 are one table, with ONNX Runtime's integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.frontend.tables import with_tables
from tests.onnx_builder import Graph, run
from tests.relax_text import compare_rewritten

X = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)


def silu(graph: Graph, x: str) -> str:
    return graph.node("Mul", x, graph.node("Sigmoid", x))


def gelu(graph: Graph, x: str) -> str:
    half, one = (graph.constant(number, np.float32) for number in (0.5, 1.0))
    root = graph.constant(2**0.5, np.float32)
    inner = graph.node("Add", graph.node("Erf", graph.node("Div", x, root)), one)
    return graph.node("Mul", graph.node("Mul", x, inner), half)


def hard_swish(graph: Graph, x: str) -> str:
    three, sixth = (graph.constant(number, np.float32) for number in (3.0, 1 / 6))
    ends = [graph.constant(number, np.float32) for number in (0.0, 6.0)]
    gate = graph.node("Clip", graph.node("Add", x, three), *ends)
    return graph.node("Mul", graph.node("Mul", x, gate), sixth)


def mish(graph: Graph, x: str) -> str:
    return graph.node("Mul", x, graph.node("Tanh", graph.node("Softplus", x)))


def plain(kind: str, **attributes: float) -> Callable[[Graph, str], str]:
    return lambda graph, x: graph.node(kind, x, **attributes)


def prelu(graph: Graph, x: str) -> str:
    return graph.node("PRelu", x, graph.constant([0.3], np.float32))


FUNCTIONS = {
    "silu": silu,
    "gelu": gelu,
    "hard_swish": hard_swish,
    "mish": mish,
    "prelu": prelu,
    "tanh": plain("Tanh"),
    "exp": plain("Exp"),
    "abs": plain("Abs"),
    "leaky": plain("LeakyRelu", alpha=0.1),
    "elu": plain("Elu", alpha=0.7),
}


def test_every_function_is_one_table_with_onnx_runtimes_integers(tmp_path: Path) -> None:
    """All in one model; the inputs are all values of an int8."""
    graph = Graph()
    x = graph.input((1, 256), np.int8)
    outputs = [
        graph.quantize(make(graph, graph.dequantize(x, 0.03125, 5)), 0.05, -90)
        for make in FUNCTIONS.values()
    ]
    model = graph.save([(y, np.int8) for y in outputs], [(1, 256)] * len(outputs))
    (tmp_path / "m.onnx").write_bytes(model)
    compiled = compile(tmp_path / "m.onnx", "vtaq-tiny")
    assert [row["kind"] for row in compiled.explain()] == ["lookup"] * len(FUNCTIONS)
    assert not compiled.python_steps
    for name, got, want in zip(FUNCTIONS, compiled.run(X[None]), run(model, [X]), strict=True):
        np.testing.assert_array_equal(got.reshape(-1), want.reshape(-1), err_msg=name)


@pytest.mark.parametrize("second", ["another tensor", "another scale"])
def test_what_depends_on_more_stays_as_it_is(second: str, tmp_path: Path) -> None:
    graph = Graph()
    x, z = graph.input((1, 256), np.int8), graph.input((1, 256), np.int8)
    a = graph.dequantize(x, 0.03125, 5)
    b = graph.dequantize(*((z, 0.03125, 5) if second == "another tensor" else (x, 0.0625, 5)))
    y = graph.quantize(graph.node("Mul", a, graph.node("Tanh", b)), 0.05, -90)
    model = graph.save([(y, np.int8)], [(1, 256)])
    (tmp_path / "m.onnx").write_bytes(model)
    compiled = compile(tmp_path / "m.onnx", "vtaq-tiny")
    assert "lookup" not in [row["kind"] for row in compiled.explain()]
    (got,) = compiled.run(X[None], X[None, :, ::-1].copy())
    (want,) = run(model, [X, X[:, ::-1].copy()])
    assert np.array_equal(got.reshape(-1), want.reshape(-1))


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("tables", with_tables, update_golden)
