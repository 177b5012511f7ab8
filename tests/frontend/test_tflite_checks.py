# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_checks.py: 16-bit activations and dynamic ranges are refused with their node."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

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
