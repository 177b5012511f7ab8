# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/rewriting.py: rules see types and shapes of what stands before a node, also behind
other nodes that were rewritten; what is not known is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
from onnx import helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.onnx.rewriting import Rewriting, rewrite
from tests.onnx_builder import Graph

MICROSOFT = "com.microsoft"


def twice(made: Rewriting) -> None:
    """x + x, after a constant of the input's shape."""
    zeros = made.constant(np.zeros(made.extents(0), made.kind(0)))
    more = made.emit("Add", made.given(0), zeros)
    made.emit("Add", more, made.given(0), output=made.made(0))


def model(*, opset: int = 17) -> onnx.ModelProto:
    graph = Graph()
    x = graph.node("Transpose", graph.input((2, 3), np.float32), perm=[1, 0])
    y = graph.node("Twice", graph.node("Twice", x, domain=MICROSOFT), domain=MICROSOFT)
    return onnx.load_model_from_string(graph.save([(y, np.float32)], [(3, 2)], opset=opset))


def test_a_rule_knows_the_shape_of_what_another_has_made() -> None:
    made = model()
    rewrite(made, {(MICROSOFT, "Twice"): twice}, "m.onnx")
    assert [node.op_type for node in made.graph.node] == ["Transpose", *["Add"] * 4]
    assert {tuple(tensor.dims) for tensor in made.graph.initializer} == {(3, 2)}
    onnx.checker.check_model(made, full_check=True)


def test_what_no_rule_knows_stays() -> None:
    made, before = model(), model()
    rewrite(made, {("other", "Twice"): twice}, "m.onnx")
    assert made == before


def test_a_shape_that_is_not_known_and_an_old_opset_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="the model has opset 9, and from 11 on"):
        rewrite(model(opset=9), {(MICROSOFT, "Twice"): twice}, "m.onnx")
    made = model()
    made.graph.node.insert(1, helper.make_node("Unknown", ["n0"], ["u"], domain=MICROSOFT))
    made.graph.node[2].input[0] = "u"
    with pytest.raises(UnsupportedError, match=r'm.onnx: Twice .*of its input "u" is known only'):
        rewrite(made, {(MICROSOFT, "Twice"): twice}, "m.onnx")
