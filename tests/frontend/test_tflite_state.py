# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_state.py: networks of TFLite that keep a state give LiteRT's integers, run after
run, in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile
from loadstone.runtime.device import open as open_device
from tests.tflite_builder import Activation, Graph, Tensor, interpreter, invoke

RNG = np.random.default_rng(17)
RUNS = 12


def same_as_litert(model: bytes, xs: np.ndarray, folder: Path, tolerance: float = 0.0) -> Any:
    """xs: (runs, ...), the only input. Every result of every run is LiteRT's, and again after a
    reset; nothing is left for Python."""
    (folder / "m.tflite").write_bytes(model)
    found = compile(folder / "m.tflite", "vtaq-1x16x16", as_float=True)
    assert not found.python_steps
    opened = interpreter(model)
    wanted = np.stack([invoke(opened, [x])[0] for x in xs])
    assert len(np.unique(wanted)) > 10
    with (
        open_device("sim") as device,
        device.load(Artifact.from_bytes(found.artifact.to_bytes()), trust=True) as session,
    ):
        for _ in range(2):
            (got,) = session.run([xs])
            np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=tolerance)
            session.reset()
    return found


def svdf(graph: Graph, x: Tensor, units: int, rank: int, memory: int, scale: float) -> Tensor:
    """A layer with random weights; its output has the zero point -128, behind its ReLU."""
    filters, (batch, width) = units * rank, x.shape
    features = graph.constant(RNG.integers(-127, 128, (filters, width)).astype(np.int8), 0.01, 0)
    times = graph.constant(RNG.integers(-3000, 3000, (filters, memory)).astype(np.int16), 2e-4, 0)
    state = graph.variable((batch, filters * memory), np.int16, 0.002, 0)
    bias = graph.constant(RNG.integers(-9000, 9000, units).astype(np.int32), 4e-7, 0)
    y = graph.tensor((batch, units), np.int8, scale, -128)
    graph.operator(
        "SVDF",
        [x, features, times, bias, state],
        [y],
        rank=rank,
        fused_activation_function=Activation.RELU,
    )
    return y


@pytest.mark.parametrize(("rank", "memory"), [(1, 8), (2, 5)])
def test_keywords_by_svdf(rank: int, memory: int, tmp_path: Path) -> None:
    """Two layers of SVDF and a dense one, as the keyword networks of TFLite Micro have it."""
    graph = Graph()
    x = graph.input((1, 20), np.int8, 0.05, 3)
    y = svdf(graph, svdf(graph, x, 16, rank, memory, 0.02), 12, rank, memory, 0.03)
    weights = graph.constant(RNG.integers(-127, 128, (4, 12)).astype(np.int8), 0.02, 0)
    bias = graph.constant(RNG.integers(-900, 900, 4).astype(np.int32), 0.0006, 0)
    scores = graph.tensor((1, 4), np.int8, 0.1, 5)
    graph.operator("FULLY_CONNECTED", [y, weights, bias], [scores])
    xs = RNG.integers(-128, 128, (RUNS, 1, 20)).astype(np.int8)
    found = same_as_litert(graph.save([scores]), xs, tmp_path)
    assert [row["kind"] for row in found.explain() if row["where"] != "host"] == ["dense"]
    assert len(found.artifact.inputs) == len(found.artifact.outputs) == 1


def test_a_state_of_real_numbers(tmp_path: Path) -> None:
    """SVDF in float32."""
    graph = Graph()
    x = graph.input((1, 20), np.float32)
    features = graph.constant(RNG.normal(0, 0.3, (24, 20)).astype(np.float32))
    times = graph.constant(RNG.normal(0, 0.3, (24, 6)).astype(np.float32))
    bias = graph.constant(RNG.normal(0, 0.3, 12).astype(np.float32))
    state = graph.variable((1, 24 * 6), np.float32)
    y = graph.tensor((1, 12), np.float32)
    options = {"rank": 2, "fused_activation_function": Activation.RELU6}
    graph.operator("SVDF", [x, features, times, bias, state], [y], **options)
    xs = RNG.normal(0, 1, (RUNS, 1, 20)).astype(np.float32)
    same_as_litert(graph.save([y]), xs, tmp_path, tolerance=1e-5)
