# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_options.py: options that are missing or cannot be are named."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from tests.frontend.tflite_models import refusal
from tests.tflite_builder import Graph


def test_a_stride_of_zero_never_reaches_tvm() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), 0.1)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=0, stride_w=1)
    assert "StrideH = 0, outside [1, 65536]" in refusal(graph.save([y]))
