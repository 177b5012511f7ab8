# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/movement.py: elements go where ONNX Runtime puts them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.sketches import MOVEMENT
from tests.frontend.onnx.sweep import check
from tests.onnx_builder import Graph


def test_every_operator_gives_what_onnx_runtime_gives() -> None:
    counts = check(MOVEMENT, range(10, 11))
    assert counts["equal"] >= len(MOVEMENT) - counts["refused"] - 1
    assert counts["refused"] <= 2


def test_parts_that_are_not_the_whole_are_refused() -> None:
    graph = Graph()
    x = graph.input((2, 6), np.float32)
    y = graph.node("Pad", x, graph.constant([0, 0, 0, 1], np.int64), mode="mirror")
    text = refusal(graph.save([(y, np.float32)], [(2, 7)]), UnsupportedError)
    assert "its mode is mirror, which ONNX does not define" in text
