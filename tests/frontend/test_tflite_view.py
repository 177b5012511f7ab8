# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_view.py: what TVM's converters see is what was read."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

import tflite

from loadstone.frontend.tflite_file import read
from loadstone.frontend.tflite_view import TensorView
from tests.tflite_builder import Graph


def test_a_view_says_what_the_package_says_but_of_narrow_and_quantized_tensors() -> None:
    graph = Graph()
    x, y = (make((2, 3), np.float32) for make in (graph.input, graph.tensor))
    narrow = graph.constant(np.int8([[1, -2, 3], [4, -5, 6]]), 0.5, packed_bits=4)
    graph.operator("ADD", [x, narrow], [y])
    model = graph.save([y])
    subgraph = tflite.Model.GetRootAsModel(model, 0).Subgraphs(0)
    for record in read(model, "m").tensors:
        table, view = subgraph.Tensors(record.index), TensorView(record, real=False)
        assert view.Name() == table.Name()
        assert view.ShapeLength() == table.ShapeLength()
        assert [view.Shape(axis) for axis in range(2)] == view.ShapeAsNumpy().tolist() == [2, 3]
        assert view.IsVariable() == bool(table.IsVariable())
        assert view.Quantization() is view.Sparsity() is None
        narrowed = record.index == narrow.index
        assert view.Type() == (tflite.TensorType.INT8 if narrowed else table.Type())
        assert view.buffer.DataLength() == 6 * narrowed
        assert TensorView(record, real=True).Type() == tflite.TensorType.FLOAT32
        if narrowed:
            assert view.buffer.DataAsNumpy().view(np.int8).tolist() == [1, -2, 3, 4, -5, 6]
