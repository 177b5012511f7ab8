# SPDX-License-Identifier: Apache-2.0
"""relax/extremes.py: the largest and smallest of what may be infinite, in C."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.compiler import compile
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
