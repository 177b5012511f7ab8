# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_checks.py: 16-bit activations and dynamic ranges are refused with their node."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.cli import main
from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_wide import WIDE
from tests.frontend.tflite_models import refusal
from tests.tflite_builder import Graph


@pytest.mark.parametrize("kind", ["SOFTMAX", "TRANSPOSE", "TANH"])
def test_a_node_of_16_bits_is_named_with_its_tensor(kind: str) -> None:
    """Also one that only moves elements; what tflite_wide.py knows is done."""
    graph = Graph()
    x = graph.input((1, 4, 4, 3), np.int16, 0.01, 0)
    y = graph.tensor((1, 4, 4, 3), np.int16, 0.01, 0)
    order = graph.constant(np.array([0, 1, 2, 3], np.int32))
    options = {"beta": 1.0} if kind == "SOFTMAX" else {}
    graph.operator(kind, [x, order] if kind == "TRANSPOSE" else [x], [y], **options)
    text = refusal(graph.save([y]), UnsupportedError)
    assert text == (
        f'm.tflite: {kind} (operator 0, output "t{y.index}"): tensor "in0" is int16, and with 16x8 '
        f"quantization {', '.join(sorted(WIDE))} are done: convert with int8 activations"
    )


@pytest.mark.parametrize("stage", ["check", "conversion"])
def test_a_refusal_has_its_parts_for_programs(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what is refused before the conversion begins, and of what a converter refuses."""
    graph = Graph()
    if stage == "check":
        x, y = (make((1, 4, 4, 3), np.int16, 0.01, 0) for make in (graph.input, graph.tensor))
        graph.operator("TANH", [x], [y])
        why, remedy = 'tensor "in0" is int16, and with', "convert with int8 activations"
    else:
        x, y = (make((2, 3), np.float32) for make in (graph.input, graph.tensor))
        graph.operator("EXPAND_DIMS", [x, graph.constant(np.array([5], np.int32))], [y])
        why, remedy = "its axis is 5", "its output has 3 axes"
    (tmp_path / "m.tflite").write_bytes(graph.save([y]))
    target = ["--target", "vtaq-tiny", "-o", str(tmp_path / "m.lds"), "--json"]
    assert main(["compile", str(tmp_path / "m.tflite"), *target]) == 2
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert error["type"] == "UnsupportedError"
    assert error["model"] == "m.tflite"
    assert error["operator"] == ("TANH" if stage == "check" else "EXPAND_DIMS")
    assert error["node"] == f"t{y.index}"
    assert error["reason"].startswith(why)
    assert error["remedy"] == remedy
    assert said.err == f"loadstone: {error['message']}\n"
    place = f'{error["operator"]} (operator 0, output "t{y.index}")'
    assert error["message"] == f"m.tflite: {place}: {error['reason']}: {remedy}"
