# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/reduction.py: along every axis, numbers are ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.sketches import REDUCTION
from tests.frontend.onnx.sweep import check
from tests.onnx_builder import Graph


def test_every_operator_gives_what_onnx_runtime_gives() -> None:
    counts = check(REDUCTION, range(10, 11))
    assert counts["equal"] >= len(REDUCTION) - counts["refused"] - 1
    assert counts["refused"] <= 1


def test_axes_that_are_computed_are_refused() -> None:
    graph = Graph()
    x, axes = graph.input((2, 3), np.float32), graph.input((1,), np.int64)
    y = graph.node("ReduceSum", x, axes)
    text = refusal(graph.save([(y, np.float32)], [(1, 3)]), UnsupportedError)
    assert "is computed when the model runs: export it as a constant" in text
