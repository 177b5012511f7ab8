# SPDX-License-Identifier: Apache-2.0
"""prove/near.py on artifacts: what `--rounding near` makes is proved with a tolerance, and without
one refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import compile as compile_model
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from tests.tflite_builder import Graph


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelNetwork, Path]:
    """A dense layer of many inputs, which digits that lose bits compute faster."""
    rng, graph = np.random.default_rng(3), Graph()
    x = graph.input((1, 256), np.int8, 0.05, 3)
    y = graph.tensor((1, 16), np.int8, 0.9, -7)
    weights = graph.constant(rng.integers(-127, 128, (16, 256)).astype(np.int8), 0.02, 0)
    bias = graph.constant(rng.integers(-900, 900, 16).astype(np.int32), 0.001)
    graph.operator("FULLY_CONNECTED", [x, weights, bias], [y])
    path = tmp_path_factory.mktemp("near") / "net.tflite"
    path.write_bytes(graph.save([y]))
    return read_tflite(path.read_bytes(), "net.tflite"), path


def test_artifacts_of_near_rounding(network: tuple[ModelNetwork, Path]) -> None:
    stated, path = network
    artifact = compile_model(path, "vta-pynq", rounding="near").artifact
    verdict = Proof.attempt(stated, artifact, 1)
    assert (verdict.status, verdict.tolerance) == (Status.PROVED, 1)
    assert verdict.equalities["and differ by a level"] > 0
    exact = Proof.attempt(stated, artifact)
    assert exact.status is Status.NOT_PROVED
    words = "First at FULLY_CONNECTED", "element ", "for sum ", "the device has ", "stored by"
    for word in words:
        assert word in exact.reason


def test_exact_artifacts_are_near_too(network: tuple[ModelNetwork, Path]) -> None:
    stated, path = network
    verdict = Proof.attempt(stated, compile_model(path, "vta-pynq").artifact, 1)
    assert verdict.status is Status.PROVED
    assert verdict.equalities["and differ by a level"] == 0
