# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_checks.py: 16-bit activations and dynamic ranges are refused with their node."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.tflite_models import refusal
from tests.tflite_builder import Graph


@pytest.mark.parametrize("kind", ["CONV_2D", "RESHAPE", "DEQUANTIZE"])
def test_a_node_of_16_bits_is_named_with_its_tensor(kind: str) -> None:
    """Also one that only moves elements."""
    graph = Graph()
    x = graph.input((1, 4, 4, 3), np.int16, 0.01, 0)
    y = graph.tensor((1, 4, 4, 3), np.float32 if kind == "DEQUANTIZE" else np.int16)
    if kind == "CONV_2D":
        weights = graph.constant(np.ones((3, 1, 1, 3), np.int8), [0.1, 0.2, 0.3])
        graph.operator(kind, [x, weights], [y], stride_h=1, stride_w=1)
    else:
        options = {"new_shape": [1, 4, 4, 3]} if kind == "RESHAPE" else {}
        graph.operator(kind, [x], [y], **options)
    text = refusal(graph.save([y]), UnsupportedError)
    assert text == (
        f'm.tflite: {kind} (operator 0, output "t{y.index}"): tensor "in0" is int16: 16x8 '
        "quantization is not done, Loadstone runs 8-bit activations: convert with int8 activations"
    )


def test_a_product_of_real_numbers_and_integers_is_refused() -> None:
    graph = Graph()
    x, y = (
        make(shape, np.float32) for make, shape in ((graph.input, (1, 4)), (graph.tensor, (1, 2)))
    )
    weights = graph.constant(np.ones((2, 4), np.int8), 0.5)
    graph.operator("FULLY_CONNECTED", [x, weights], [y])
    assert "dynamic range quantization" in refusal(graph.save([y]), UnsupportedError)
