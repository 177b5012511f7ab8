# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/arithmetic.py: ONNX Runtime's numbers in every type."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.sketches import ARITHMETIC
from tests.frontend.onnx.sweep import check
from tests.onnx_builder import Graph


def test_every_operator_gives_what_onnx_runtime_gives() -> None:
    counts = check(ARITHMETIC, range(10, 11))
    assert counts["equal"] >= len(ARITHMETIC) - counts["refused"] - 1
    assert counts["refused"] <= 1


def test_a_shift_to_nowhere_is_refused() -> None:
    graph = Graph()
    x = graph.input((2, 3), np.uint8)
    y = graph.node("BitShift", x, x, direction="UP")
    text = refusal(graph.save([(y, np.uint8)], [(2, 3)]), UnsupportedError)
    assert "its direction is UP, and only LEFT and RIGHT mean something" in text
