# SPDX-License-Identifier: Apache-2.0
"""relax/extremes.py: the largest and smallest of what may be infinite, in C."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.compiler import compile
from loadstone.graph.reference import run_all
from tests.onnx_builder import Graph

INFINITE = np.array([[-np.inf, -np.inf], [1.0, -np.inf], [np.inf, 2.0]], np.float32)


@pytest.mark.parametrize(("kind", "pick"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_row_of_nothing_but_infinities_is_one(kind: str, pick: object, keepdims: int) -> None:
    graph = Graph()
    y = graph.node(kind, graph.input((3, 2), np.float32), axes=[1], keepdims=keepdims)
    model = graph.save([(y, np.float32)], [(3, 1) if keepdims else (3,)])
    sign = np.float32(1 if kind == "ReduceMax" else -1)
    import onnx

    compiled = compile(onnx.load_model_from_string(model), "vtaq-1x16x16")
    assert not compiled.python_steps
    (got,) = compiled.run((sign * INFINITE)[None])
    assert callable(pick)
    np.testing.assert_array_equal(got[0], pick(sign * INFINITE, axis=1, keepdims=bool(keepdims)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
def test_integers_begin_with_their_own_ends(kind: type) -> None:
    graph = Graph()
    x = graph.input((2, 3), kind)
    names = [graph.node(name, x, axes=[0, 1], keepdims=0) for name in ("ReduceMax", "ReduceMin")]
    model = graph.save([(name, kind) for name in names], [(), ()])
    import onnx

    ends = np.iinfo(kind)
    compiled = compile(onnx.load_model_from_string(model), "vtaq-1x16x16")
    for value in (ends.min, ends.max):
        got = compiled.run(np.full((1, 2, 3), value, kind))
        assert [int(y.reshape(())) for y in got] == [value, value]


def test_what_is_no_number_stays_none_in_c_and_in_tvm() -> None:
    """As PyTorch and ONNX Runtime have it, of rows, element by element, and in a window."""
    graph = Graph()
    x = graph.input((1, 1, 3, 4), np.float32)
    zero = graph.constant(np.float32(0.5))
    kinds = {
        "Relu": lambda a: np.maximum(a, 0),
        "Clip": lambda a: np.clip(a, -1, 1),
        "Max": lambda a: np.maximum(a, 0.5),
        "Min": lambda a: np.minimum(a, 0.5),
        "ReduceMax": lambda a: a.max(axis=3),
        "ReduceMin": lambda a: a.min(axis=3),
        "Equal": lambda a: a == a,
        "Not": lambda a: a != a,
    }
    ends = (graph.constant(np.float32(-1)), graph.constant(np.float32(1)))
    names = [
        graph.node("Relu", x),
        graph.node("Clip", x, *ends),
        graph.node("Max", x, zero),
        graph.node("Min", x, zero),
        graph.node("ReduceMax", x, axes=[3], keepdims=0),
        graph.node("ReduceMin", x, axes=[3], keepdims=0),
        graph.node("Equal", x, x),
    ]
    names.append(graph.node("Not", names[-1]))
    import onnx

    shapes = [(1, 1, 3, 4)] * 4 + [(1, 1, 3)] * 2 + [(1, 1, 3, 4)] * 2
    types = [np.float32] * 6 + [np.bool_] * 2
    model = graph.save(list(zip(names, types, strict=True)), shapes)
    array = np.array([[np.nan, 1, 2, 3], [-1, np.nan, 5, -np.inf], [-2, -3, 4, 0.25]], np.float32)
    compiled = compile(onnx.load_model_from_string(model), "vtaq-1x16x16", as_float=True)
    given = array.reshape(1, 1, 1, 3, 4)
    got = compiled.run(given, allow_nan=True)
    meant = run_all(compiled.graph, list(given))
    for found, tensor, (name, want) in zip(got, compiled.graph.outputs, kinds.items(), strict=True):
        np.testing.assert_array_equal(found[0], want(given[0]), err_msg=name)
        if name.startswith("Reduce") or name in ("Equal", "Not"):
            np.testing.assert_array_equal(meant[tensor.name], found[0], err_msg=name)
