# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_operators.py: what is not read of an operator's options is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.frontend.tflite_operators import OPERATORS, UNREAD, wrong_operator
from loadstone.frontend.tflite_options import defaults
from tests.frontend.tflite_models import refusal
from tests.tflite_builder import Graph


def typical(code: str) -> tuple[dict[str, Any], list[str | None], list[str]]:
    """Options, types of inputs and of outputs that are taken."""
    taken = OPERATORS[code]
    options = defaults(taken.options)
    for name in options:
        if name.startswith(("stride", "filter", "block")):
            options[name] = 1
    return options, ["int8"] * taken.inputs[0], ["int8"]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return {int: 7, float: 0.5, str: "other", tuple: (1,)}[type(value)]


@pytest.mark.parametrize("code", OPERATORS)
def test_a_field_that_nobody_reads_is_refused_by_name(code: str) -> None:
    taken, (options, inputs, outputs) = OPERATORS[code], typical(code)
    assert set(taken.reads.split()) <= set(options)
    if code == "UNIDIRECTIONAL_SEQUENCE_LSTM" or wrong_operator(code, options, inputs, outputs):
        return  # of integers alone there is none
    for name, value in options.items():
        if name in taken.reads.split() or name in UNREAD:
            continue
        text = wrong_operator(code, {**options, name: other(value)}, inputs, outputs)
        assert text is not None
        assert text.startswith(f"has {name} = ")


def test_a_stride_of_zero_never_reaches_tvm() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), 0.1)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=0, stride_w=1)
    assert "stride_h = 0, outside [1, 65536]" in refusal(graph.save([y]))


def test_too_many_inputs_and_other_types_are_named() -> None:
    graph = Graph()
    x, y = (make((1, 4), np.float32) for make in (graph.input, graph.tensor))
    graph.operator("ADD", [x, x, x], [y])
    assert 'ADD (operator 0, output "t1"): it has 3 inputs, and 2 are taken' in refusal(
        graph.save([y])
    )
    graph = Graph()
    x, y = (make((1, 4), np.int32) for make in (graph.input, graph.tensor))
    graph.operator("TANH", [x], [y])
    text = refusal(graph.save([y]))
    assert "it has a tensor of int32, and only float32 is taken" in text


def test_everything_is_looked_at_before_anything_is_converted() -> None:
    """The second operator's fault is told, though TVM would stop at the first one's."""
    graph = Graph()
    x, y, z = (graph.input((1, 4), np.float32), *(graph.tensor((1, 4), np.float32) for _ in "yz"))
    graph.operator("SUM", [x, x], [y])
    graph.operator("ADD", [y, x], [z], fused_activation_function=5)
    text = refusal(graph.save([z]))
    assert 'ADD (operator 1, output "t2"): it has fused_activation_function = SIGN_BIT' in text
