# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/table.py: what a converter does not read is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.errors import UnsupportedError
from loadstone.frontend.onnx import from_bytes
from loadstone.frontend.onnx.table import ALL, CONVERTERS
from tests.frontend.onnx.models import refusal
from tests.onnx_builder import Graph


def test_an_attribute_that_is_not_read_is_named_with_its_value() -> None:
    graph = Graph()
    x, scale = graph.input((2, 6), np.int8), graph.constant(np.ones((2, 3)), np.float32)
    y = graph.node("DequantizeLinear", x, scale, axis=1, block_size=2)
    text = refusal(graph.save([(y, np.float32)], [(2, 6)], opset=21, ir=10), UnsupportedError)
    assert "its attribute block_size is 2, and only 0 is imported" in text


def test_a_flag_that_is_neither_true_nor_false_is_named() -> None:
    graph = Graph()
    x = graph.input((1, 2, 6, 6), np.float32)
    y = graph.node("MaxPool", x, kernel_shape=[2, 2], ceil_mode=2)
    text = refusal(graph.save([(y, np.float32)]), UnsupportedError)
    assert "its attribute ceil_mode is 2, and it is 0 or 1" in text


def test_an_attribute_at_its_default_is_no_matter() -> None:
    graph = Graph()
    y = graph.node(
        "MaxPool", graph.input((1, 2, 6, 6), np.float32), kernel_shape=[2, 2], storage_order=0
    )
    assert from_bytes(graph.save([(y, np.float32)]), "m.onnx")["main"].params


def test_an_input_that_must_be_a_constant_is_named() -> None:
    graph = Graph()
    x, axes = graph.input((1, 2, 6), np.float32), graph.input((1,), np.int64)
    y = graph.node("Unsqueeze", x, axes)
    text = refusal(graph.save([(y, np.float32)], [(1, 1, 2, 6)], opset=13), UnsupportedError)
    assert "its input 1 (" in text
    assert "is computed when the model runs" in text


def test_an_element_type_that_is_not_taken_is_named() -> None:
    graph = Graph()
    y = graph.node("Identity", graph.input((1, 2), np.float32))
    model = onnx.load_model_from_string(graph.save([(y, np.float32)]))
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.elem_type = onnx.TensorProto.COMPLEX64
    assert "is complex64, and only" in refusal(model.SerializeToString(), UnsupportedError)


def test_every_attribute_of_the_table_is_one_that_some_version_of_onnx_defines() -> None:
    known: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            known.setdefault(schema.name, set()).update(schema.attributes)
    for (domain, op_type), rows in CONVERTERS.items():
        for row in rows:
            assert row.inputs == ALL or all(place < row.inputs for place in row.constants), op_type
            if domain == "":
                assert row.attributes <= known[op_type], op_type
