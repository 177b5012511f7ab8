# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/detection.py: the boxes that ONNX Runtime keeps, and rows of -1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.graph.reference import run as run_graph
from tests.frontend.onnx.models import refusal
from tests.imported import onnx_graph
from tests.onnx_builder import Graph, run


def suppression(most: int, *thresholds: float, center: int = 0) -> bytes:
    graph = Graph()
    inputs = [graph.input((2, 12, 4), np.float32), graph.input((2, 3, 12), np.float32)]
    inputs.append(graph.constant([most], np.int64))
    inputs += [graph.constant([threshold], np.float32) for threshold in thresholds]
    y = graph.node("NonMaxSuppression", *inputs, center_point_box=center)
    return graph.save([(y, np.int64)], [("n", 3)])


@pytest.mark.parametrize(
    ("thresholds", "center"), [((), 0), ((0.3,), 0), ((0.3, 0.4), 0), ((0.2, 0.1), 1)]
)
def test_the_boxes_that_are_kept(thresholds: tuple[float, ...], center: int) -> None:
    """Some scores are equal; corners come in any order."""
    draw = np.random.default_rng(6)
    boxes: Any = draw.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    scores: Any = (draw.integers(0, 20, (2, 3, 12)) / 20).astype(np.float32)
    model = suppression(4, *thresholds, center=center)
    (want,), (got,) = run(model, [boxes, scores]), run_graph(onnx_graph(model), [boxes, scores])
    assert got.shape == (2 * 3 * 4, 3)
    np.testing.assert_array_equal(got[: len(want)], want)
    assert (got[len(want) :] == -1).all()


def test_no_box_at_all_and_too_many_are_refused() -> None:
    assert "its max_output_boxes_per_class is 0 of 12 boxes, 1 to 200" in refusal(suppression(0))
