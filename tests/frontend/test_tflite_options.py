# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_options.py: the schema's fields, read as LiteRT reads them; what cannot be is
named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from ai_edge_litert import schema_py_generated as schema

from loadstone.frontend.tflite_file import read
from loadstone.frontend.tflite_options import FIELDS, defaults
from tests.frontend.tflite_models import refusal
from tests.tflite_builder import Graph, Padding


def tables() -> list[str]:
    unions = (schema.BuiltinOptions, schema.BuiltinOptions2)
    return [name for union in unions for name in vars(union) if name[0] != "_" and name != "NONE"]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_every_field_of_the_schema_has_its_place_and_its_default() -> None:
    """LiteRT's own module of the schema."""
    assert set(FIELDS) <= set(tables())
    for kind in tables():
        usual: dict[str, Any] = vars(getattr(schema, f"{kind}T")())
        ours = {camel(name): value for name, value in defaults(kind).items()}
        assert list(ours) == list(usual), kind
        for name, value in usual.items():
            assert ours[name] == (value or type(ours[name])()), (kind, name)


def test_what_a_file_says_is_read_and_what_it_leaves_out_is_the_default() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), 0.1)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator(
        "CONV_2D",
        [x, weights],
        [y],
        stride_h=3,
        stride_w=2,
        padding=Padding.VALID,
        dilation_h_factor=5,
    )
    graph.operator("RESHAPE", [y], [x], new_shape=[4, -1])
    graph.operator("SOFTMAX", [y], [x], beta=0.25)
    graph.operator("GELU", [y], [x], approximate=True)
    graph.operator("VAR_HANDLE", [], [x], container="", shared_name="sum")
    operators = {o.kind: o for o in graph.operators}
    found = {}
    for kind, operator in operators.items():
        alone = Graph(graph.tensors, [operator], graph.tensors[:1])
        alone.operators[0] = operator
        found[kind] = _options(alone)
    assert found["CONV_2D"] == {
        **defaults("Conv2DOptions"),
        "stride_h": 3,
        "stride_w": 2,
        "padding": 1,
        "dilation_h_factor": 5,
    }
    assert found["RESHAPE"] == {"new_shape": (4, -1)}
    assert found["SOFTMAX"] == {"beta": 0.25}
    assert found["GELU"] == {"approximate": True}
    assert found["VAR_HANDLE"] == {"container": "", "shared_name": "sum"}


def _options(graph: Graph) -> dict[str, Any]:
    """Of its only operator, which writes a tensor of its own."""
    target = graph.tensor((1, 4, 4, 2), np.int8, 0.1, 0)
    source = graph.tensors[0]
    given = [graph.tensors[k] for k in graph.operators[0].inputs] or []
    inputs = [source if tensor.data is None else tensor for tensor in given]
    operator = graph.operators.pop()
    graph.operator(operator.kind, inputs, [target], **operator.options)
    return dict(read(graph.save([target]), "m").operators[0].options)


def test_options_of_another_operator_are_named() -> None:
    graph = Graph()
    x, y = (make((1, 4), np.int8, 0.1, 0) for make in (graph.input, graph.tensor))
    graph.operator("ADD", [x, x], [y])
    model = bytearray(graph.save([y]))
    add, mul = (getattr(schema.BuiltinOptions, f"{name}Options") for name in ("Add", "Mul"))
    root = schema.Model.GetRootAsModel(model, 0).Subgraphs(0).Operators(0)._tab
    place = root.Pos + root.Offset(10)
    assert model[place] == add
    model[place] = mul
    text = refusal(bytes(model))
    assert f"operator 0 ADD carries options of type {mul} of BuiltinOptions, not AddOptions" in text


def test_a_missing_table_of_options_is_named() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), 0.1)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=1, stride_w=1)
    model = bytearray(graph.save([y]))
    root = schema.Model.GetRootAsModel(model, 0).Subgraphs(0).Operators(0)._tab
    model[root.Pos + root.Offset(10)] = 0
    assert "operator 0 CONV_2D does not carry Conv2DOptions" in refusal(bytes(model))
