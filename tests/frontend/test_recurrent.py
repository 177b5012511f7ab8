# SPDX-License-Identifier: Apache-2.0
"""frontend/recurrent.py: LSTM, GRU and RNN equal ONNX Runtime, in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from loadstone.compiler import compile
from tests.onnx_builder import Graph, run

STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 4, 6
RNG = np.random.default_rng(11)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(graph: Graph, x: str, kind: str, *more: str, **attributes: Any) -> list[str]:
    """The names of its outputs."""
    two = attributes.get("direction") == "bidirectional"
    rows = GATES[kind] * HIDDEN
    shapes = [(1 + two, rows, WIDTH), (1 + two, rows, HIDDEN), (1 + two, 2 * rows)]
    constants = [graph.constant(RNG.normal(0, 0.5, shape), np.float32) for shape in shapes]
    graph.node(kind, x, *constants, *more, hidden_size=HIDDEN, **attributes)
    node = graph.nodes[-1]
    node.output.extend(f"{node.output[0]}_{k}" for k in range(2 if kind == "LSTM" else 1))
    return list(node.output)


def shapes(kind: str, two: bool) -> list[tuple[int, ...]]:
    states = [(1 + two, BATCH, HIDDEN)] * (2 if kind == "LSTM" else 1)
    return [(STEPS, 1 + two, BATCH, HIDDEN), *states]


def test_layers_equal_onnx_runtime(tmp_path: Path) -> None:
    """Directions, states to begin with, both resets of a GRU, other activations: all in a model."""
    graph = Graph()
    x = graph.input((STEPS, BATCH, WIDTH), np.float32)
    state = graph.input((1, BATCH, HIDDEN), np.float32)
    lengths = graph.constant([STEPS] * BATCH, np.int32)
    cases: list[tuple[str, list[str], dict[str, Any]]] = [
        *((kind, [], {"direction": "bidirectional"}) for kind in GATES),
        ("LSTM", [], {"direction": "reverse"}),
        ("LSTM", [lengths, state, state], {}),
        ("GRU", ["", state], {"linear_before_reset": 1}),
        ("GRU", [], {"linear_before_reset": 1, "direction": "reverse"}),
        ("RNN", ["", state], {"activations": ["Relu"]}),
    ]
    outputs, extents = [], []
    for kind, more, attributes in cases:
        outputs += layer(graph, x, kind, *more, **attributes)
        extents += shapes(kind, attributes.get("direction") == "bidirectional")
    model = graph.save([(name, np.float32) for name in outputs], extents)
    (tmp_path / "m.onnx").write_bytes(model)
    compiled = compile(tmp_path / "m.onnx", "vtaq-tiny", as_float=True)
    assert not compiled.python_steps
    values = [
        RNG.normal(0, 1, shape).astype(np.float32)
        for shape in ((STEPS, BATCH, WIDTH), (1, BATCH, HIDDEN))
    ]
    wanted = run(model, values)
    for got, want in zip(compiled.run(*(v[None] for v in values)), wanted, strict=True):
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)
