# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_operators.py: every operator that is taken equals LiteRT with every option; what
is not read of its options, and what is not taken, is refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

import tflite as schema

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_operators import OPERATORS, UNREAD, wrong_operator
from loadstone.frontend.tflite_options import defaults
from loadstone.graph.reference import run as computed
from tests.frontend.tflite_cases import CASES, Case, drawn, model
from tests.frontend.tflite_models import refusal
from tests.imported import tflite_graph
from tests.repeat import more
from tests.tflite_builder import Graph, run

#: Operators that LiteRT's reference kernels lack: compared with its optimised ones.
OPTIMISED = ("CEIL", "ELU", "ROUND")
#: Operators whose tests have files of their own: states, variables, composites.
ELSEWHERE = {
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "READ_VARIABLE",
    "STABLEHLO_COMPOSITE",
    "SVDF",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "VAR_HANDLE",
}
#: Operators that are not taken, where there is a kernel and a case of it: why.
NOT_TAKEN = {
    "BROADCAST_ARGS": "shapes that are computed: of constants it is folded by no rule",
    "BUCKETIZE": "no network of the tests has it",
    "CONV_3D_TRANSPOSE": "no network of the tests has it",
    "LOCAL_RESPONSE_NORMALIZATION": "LiteRT's reference kernel leaves out a channel of the window",
    "MATRIX_DIAG": "TVM's converter raises",
    "MATRIX_SET_DIAG": "TVM's converter raises",
    "RANGE": "its size is computed: of constants it is folded",
    "RFFT2D": "complex numbers",
    "SCATTER_ND": "TVM's converter raises",
    "SEGMENT_SUM": "TVM's converter and LiteRT count segments otherwise",
    "SPARSE_TO_DENSE": "TVM's converter raises",
    "UNIQUE": "its size depends on its values",
    "WHERE": "its size depends on its values",
}
#: Cases of operators that are taken which are not: (operator, option or types of tensors).
REFUSED = {
    ("STRIDED_SLICE", "offset"): "has offset = True, and only False is taken",
    ("FAKE_QUANT", "narrow_range"): "has narrow_range = True, and only False is taken",
}


def is_refused(kind: str, one: Case) -> bool:
    """By an option of REFUSED."""
    return any((kind, name) in REFUSED and value for name, value in one.options.items())


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


def test_what_tvm_cannot_put_together_is_told_by_its_shapes_and_options() -> None:
    graph = Graph()
    x, z = (graph.input(shape, np.float32) for shape in ((1, 4), (1, 3)))
    y = graph.tensor((1, 4), np.float32)
    graph.operator("MUL", [x, z], [y])
    assert refusal(graph.save([y])) == (
        'm.tflite: MUL (operator 0, output "t2"): inputs float32 [1, 4] and float32 [1, 3] with '
        "fused_activation_function = 0 do not fit together in it"
    )


def test_a_missing_input_and_another_output_are_named() -> None:
    graph = Graph()
    x, y, z = (graph.input((1, 4), np.float32), *(graph.tensor((1, 4), np.float32) for _ in "yz"))
    graph.operator("ADD", [None, x], [y])
    assert "it leaves out input 0, which it needs" in refusal(graph.save([y]))
    graph.operators.clear()
    graph.operator("ADD", [x, x], [y, z])
    assert "it has 2 outputs, and 1 is taken" in refusal(graph.save([y]))


def test_everything_is_looked_at_before_anything_is_converted() -> None:
    """The second operator's fault is told, though TVM would stop at the first one's."""
    graph = Graph()
    x, y, z = (graph.input((1, 4), np.float32), *(graph.tensor((1, 4), np.float32) for _ in "yz"))
    graph.operator("SUM", [x, x], [y])
    graph.operator("ADD", [y, x], [z], fused_activation_function=5)
    text = refusal(graph.save([z]))
    assert 'ADD (operator 1, output "t2"): it has fused_activation_function = SIGN_BIT' in text


def pairs(kinds: Iterable[str]) -> list[Any]:
    """Operator and type; `make test-all` alone tries types behind the first."""
    found = []
    for kind in kinds:
        letters = list(dict.fromkeys("".join(one.types for one in CASES[kind])))
        found += [
            pytest.param(kind, letter, marks=() if letter == letters[0] else more)
            for letter in letters
        ]
    return found


@pytest.mark.parametrize(("kind", "letter"), pairs(sorted(set(CASES) & set(OPERATORS))))
def test_an_operator_equals_litert(kind: str, letter: str) -> None:
    """Integers are equal, and real numbers but for the last bits; every option that is taken."""
    cases = [one for one in CASES[kind] if letter in one.types and not is_refused(kind, one)]
    graph, outputs = model(kind, cases, letter)
    model_ = graph.save(outputs)
    values = drawn(graph, cases)
    wanted = run(model_, values, reference=kind not in OPTIMISED)
    for got, want, end in zip(computed(tflite_graph(model_), values), wanted, outputs, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), end
        if got.dtype == np.float32:
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("kind", "option"), REFUSED)
def test_an_option_that_is_not_taken_is_refused_by_name(kind: str, option: str) -> None:
    cases = [one for one in CASES[kind] if one.options.get(option)]
    graph, outputs = model(kind, cases, "f")
    assert REFUSED[kind, option] in refusal(graph.save(outputs), UnsupportedError)


def test_every_operator_of_the_schema_is_taken_or_refused() -> None:
    """Each by its name; a new operator of the schema needs a line here or there."""
    every = {name for name, number in vars(schema.BuiltinOperator).items() if name[0] != "_"}
    assert set(OPERATORS) - set(CASES) == ELSEWHERE
    assert set(CASES) - set(OPERATORS) == set(NOT_TAKEN)
    for kind in sorted(every - set(OPERATORS) - {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}):
        graph = Graph()
        x, y = (make((2, 3), np.float32) for make in (graph.input, graph.tensor))
        graph.operator(kind, [x], [y])
        graph.operators[0] = replace(graph.operators[0], options=None)
        text = refusal(graph.save([y]), UnsupportedError)
        assert text == (
            f'm.tflite: {kind} (operator 0, output "t1"): no importer for this operator: end the '
            "model before it (--outputs in0) and compute it yourself"
        )
