# SPDX-License-Identifier: Apache-2.0
"""quantization/onnx_moves.py: what moves elements survives in either layout, and is transposed
only where layouts meet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from loadstone.frontend import load
from loadstone.frontend import onnx as onnx_reader
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.fold import fold
from tests.onnx_builder import Graph, run
from tests.quantization.onnx_export import exported


def test_layouts_cost_a_transposition_only_where_they_meet(shared: Path) -> None:
    """A TFLite network is NHWC: one at its input; its flattening of 1x1 needs none."""
    model = onnx.load_model_from_string(
        exported(fold(load(shared / "models" / "mlpt_resnet8_f32.tflite")))
    )
    assert sum(node.op_type == "Transpose" for node in model.graph.node) == 1


def test_movements_survive_in_either_layout() -> None:
    graph = Graph()
    x = graph.node("MaxPool", graph.input((1, 4, 6, 6), np.float32), kernel_shape=[2, 2])
    x = graph.node("Pad", x, graph.constant([0, 1, 0, 2, 0, 0, 3, 0], np.int64))
    x = graph.node(
        "Slice",
        x,
        graph.constant([1], np.int64),
        graph.constant([8], np.int64),
        graph.constant([3], np.int64),
    )
    x = graph.node("Concat", x, x, axis=1)
    sizes = graph.constant([1, 10, 16, 12], np.int64)
    x = graph.node(
        "Resize",
        x,
        "",
        "",
        sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    x = graph.node("Transpose", x, perm=[0, 2, 1, 3])
    model = graph.save(
        [(graph.node("Reshape", x, graph.constant([4, -1], np.int64)), np.float32)], [(4, 480)]
    )
    found = exported(fold(canonical(onnx_reader.from_bytes(model, "made by a test"))))
    image = np.random.default_rng(0).normal(size=(1, 4, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(found, [image])[0], run(model, [image])[0])
