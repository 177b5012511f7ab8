# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py and lanes.py: digits of a sum and what is added to that sum are one function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed")

from loadstone.compiler import compile as compile_model
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from tests.tflite_builder import Graph


def test_digits_are_functions_of_the_sum_that_they_meet(tmp_path: Path) -> None:
    """A dense layer whose rest of a weight of nine bits is added behind the digits of its sum."""
    graph, rng = Graph(), np.random.default_rng(7)
    x, y = graph.input((1, 600), np.uint8, 0.05, 131), graph.tensor((1, 4), np.uint8, 2.0, 131)
    levels = rng.integers(0, 247, (4, 600)).astype(np.uint8)
    levels[0, 5] = 255
    weights = graph.constant(levels, 0.01, 120)
    bias = graph.constant(rng.integers(-2000, 2000, 4).astype(np.int32), 0.0005)
    graph.operator("FULLY_CONNECTED", [x, weights, bias], [y])
    path = tmp_path / "net.tflite"
    path.write_bytes(graph.save([y]))
    network = read_tflite(path.read_bytes(), path.name)
    verdict = Proof.attempt(network, compile_model(path, "vta-pynq").artifact)
    assert verdict.status is Status.PROVED, verdict.reason
