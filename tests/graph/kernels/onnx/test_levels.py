# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/onnx/levels.py against ONNX Runtime, on single-operator models with random
shapes and scales.

Every test counts the elements that differ and demands 0.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx as ops
from tests.onnx_builder import Graph, run


def test_quantize_saturates_and_takes_ties_to_even() -> None:
    q = Quantization(0.5, 3)
    real = np.array([0.25, 0.75, 1.25, -0.25, -0.75, 3e38, -3e38, np.inf, -np.inf], np.float32)
    graph = Graph()
    want = run(
        graph.save(
            [(graph.quantize(graph.input(real.shape, np.float32), q.scale, q.zero_point), np.int8)]
        ),
        [real],
    )[0]
    np.testing.assert_array_equal(ops.quantize(real, q), want)
    assert want.tolist() == [3, 5, 5, 3, 1, 127, -128, 127, -128]
