# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/elementwise.py: of each element, ONNX Runtime's number comes out."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.sketches import ELEMENTWISE
from tests.frontend.onnx.sweep import check
from tests.onnx_builder import Graph


def test_every_operator_gives_what_onnx_runtime_gives() -> None:
    counts = check(ELEMENTWISE, range(10, 11))
    assert counts["equal"] >= len(ELEMENTWISE) - counts["refused"] - 2
    assert counts["refused"] <= 2


def test_training_is_refused() -> None:
    graph = Graph()
    x = graph.input((2, 3), np.float32)
    y = graph.node("Dropout", x, graph.constant(0.5, np.float32), graph.constant(True))
    text = refusal(graph.save([(y, np.float32)], [(2, 3)]), UnsupportedError)
    assert "its training_mode is true: export the model for inference" in text
