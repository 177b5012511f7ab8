# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/shapes.py: shapes, and what follows from them, as ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.sketches import SHAPES
from tests.frontend.onnx.sweep import check
from tests.onnx_builder import Graph


def test_every_operator_gives_what_onnx_runtime_gives() -> None:
    counts = check(SHAPES, range(10, 11))
    assert counts["equal"] >= len(SHAPES) - counts["refused"] - 1
    assert counts["refused"] <= 2


def test_a_one_of_nothing_is_refused() -> None:
    graph = Graph()
    x, values = graph.input((2, 3), np.int64), graph.input((2,), np.float32)
    y = graph.node("OneHot", x, graph.constant(0, np.int64), values)
    text = refusal(graph.save([(y, np.float32)], [(2, 3, 0)]), UnsupportedError)
    assert "has no elements (2, 3, 0)" in text
