# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/node.py: attributes with the schema's defaults, names in messages."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

import numpy as np
from onnx import helper, numpy_helper

from loadstone.frontend.onnx.node import OnnxNode, attribute_value, described
from loadstone.relax.compat import exact_constant, relax


def node(**attributes: float) -> OnnxNode:
    proto = helper.make_node("LeakyRelu", ["x"], ["y"], name="bend", **attributes)
    x = exact_constant(np.zeros((2, 3), np.float32))
    return OnnxNode(proto, f"m.onnx: {described(proto)}", (x,), {"": 17}, relax.BlockBuilder(), {})


def test_attributes_have_the_defaults_of_the_schema() -> None:
    assert node().attributes["alpha"] == pytest.approx(0.01)
    assert node(alpha=0.5).attributes == {"alpha": 0.5}


def test_values_of_attributes_are_pythons() -> None:
    tensor = numpy_helper.from_array(np.arange(3))
    made = helper.make_node("X", [], ["y"], a=[1, 2], b="text", c=["s", "t"], d=tensor)
    values = {entry.name: attribute_value(entry) for entry in made.attribute}
    assert (values["a"], values["b"], values["c"]) == ((1, 2), "text", ("s", "t"))
    np.testing.assert_array_equal(values["d"], np.arange(3))


def test_a_node_that_is_not_converted_is_named_with_what_it_was_given() -> None:
    text = str(node(alpha=0.5).given_up())
    assert text.startswith('m.onnx: LeakyRelu (node "bend", output "y"): it has no conversion for')
    assert "float32 (2, 3) with alpha=0.5" in text
