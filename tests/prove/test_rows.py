# SPDX-License-Identifier: Apache-2.0
"""prove/rows.py and the ends of a network: equal names on equal rows are equal, and a network from
real numbers to real numbers is proved only with its own scales, zero points and rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, DataType, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.compiler import compile as compile_model
from loadstone.prove.host_steps import copied
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.operators.elements import Elements
from loadstone.prove.operators.ends import (
    dequantize,
    dequantized,
    quantize,
    quantized,
    real_bytes,
)
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import softmax_litert, softmax_onnx
from loadstone.prove.values import Values
from loadstone.prove.verdict import Status, Unsupported
from tests.tflite_builder import Graph


@pytest.fixture(scope="module", params=[np.int8, np.uint8], ids=["int8", "uint8"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ModelNetwork, Artifact]:
    """A dense layer between two ends, and its artifact."""
    rng, dtype = np.random.default_rng(3), request.param
    middle = 128 if dtype is np.uint8 else 0
    graph = Graph()
    x, y = graph.input((1, 24), np.float32), graph.tensor((1, 10), np.float32)
    levels = graph.tensor((1, 24), dtype, 0.05, middle + 3)
    sums = graph.tensor((1, 10), dtype, 0.4, middle - 7)
    signed = rng.integers(-127, 128, (10, 24))
    weights = graph.constant((signed + middle).astype(dtype), 0.02, middle)
    bias = graph.constant(rng.integers(-900, 900, 10).astype(np.int32), 0.001)
    graph.operator("QUANTIZE", [x], [levels])
    graph.operator("FULLY_CONNECTED", [levels, weights, bias], [sums])
    graph.operator("DEQUANTIZE", [sums], [y])
    path = tmp_path_factory.mktemp("ends") / "ends.tflite"
    path.write_bytes(graph.save([y]))
    artifact = compile_model(path, "vtaq-1x16x16").artifact
    return read_tflite(path.read_bytes(), "ends.tflite"), artifact


def end_of(artifact: Artifact, opcode: HostOpcode) -> tuple[int, HostStep]:
    """The step of that kind, and its number."""
    ((number, step),) = (
        (k, s)
        for k, s in enumerate(artifact.steps)
        if isinstance(s, HostStep) and s.opcode == opcode
    )
    return number, step


def test_from_real_numbers_to_real_numbers(case: tuple[ModelNetwork, Artifact]) -> None:
    network, artifact = case
    assert Proof.attempt(network, artifact).status is Status.PROVED


@pytest.mark.parametrize("opcode", [HostOpcode.QUANTIZE, HostOpcode.DEQUANTIZE])
@pytest.mark.parametrize("field", ["scale", "zero_point"])
def test_other_constants_are_not_proved(
    case: tuple[ModelNetwork, Artifact], opcode: HostOpcode, field: str
) -> None:
    network, artifact = case
    _, step = end_of(artifact, opcode)
    number = (step.outputs if opcode == HostOpcode.QUANTIZE else step.inputs)[0]
    tensors = list(artifact.tensors)
    tensor = tensors[number]
    changed = {"scale": {"scale": tensor.scale * 1.01}, "zero_point": {"zero_point": 1}}[field]
    tensors[number] = replace(tensor, **changed)  # type: ignore[arg-type]
    verdict = Proof.attempt(network, replace(artifact, tensors=tuple(tensors)))
    assert verdict.status is Status.NOT_PROVED


def test_another_rounding_is_not_proved(case: tuple[ModelNetwork, Artifact]) -> None:
    network, artifact = case
    number, step = end_of(artifact, HostOpcode.QUANTIZE)
    steps = list(artifact.steps)
    steps[number] = replace(step, parameters={**step.parameters, "half_to_even": 1})
    verdict = Proof.attempt(network, replace(artifact, steps=tuple(steps)))
    assert verdict.status is Status.NOT_PROVED


def test_a_program_beside_another_one_is_not_covered(
    case: tuple[ModelNetwork, Artifact],
) -> None:
    network, artifact = case
    steps = [
        step if isinstance(step, HostStep) else replace(step, beside=True)
        for step in artifact.steps
    ]
    verdict = Proof.attempt(network, replace(artifact, steps=tuple(steps)))
    assert verdict.status is Status.UNSUPPORTED
    assert "runs beside another one" in verdict.reason


def test_a_step_that_leaves_its_tensors_is_not_proved(case: tuple[ModelNetwork, Artifact]) -> None:
    """NumPy counts -1 from the end, and has an error of its own for what is too large."""
    network, artifact = case
    number, step = end_of(artifact, HostOpcode.PACK)
    for changes in ({"h": 1000}, {"c": 7}):
        steps = list(artifact.steps)
        steps[number] = replace(step, parameters={**step.parameters, **changes})
        verdict = Proof.attempt(network, replace(artifact, steps=tuple(steps)))
        assert verdict.status is Status.NOT_PROVED
        assert "its parameters do not fit its tensors" in verdict.reason
    for offset in (-1, 1):
        p = {"in_offset": offset, "out_offset": 0}
        p |= {f"extent_{k}": 4 if k == 5 else 1 for k in range(6)}
        p |= {f"{side}_stride_{k}": 1 for side in ("in", "out") for k in range(6)}
        with pytest.raises(IndexError):
            copied(replace(step, opcode=HostOpcode.COPY, parameters=p), np.arange(4), np.arange(4))


def test_a_softmax_of_real_numbers_is_not_that_of_integers() -> None:
    """Nor is one with another scale or zero point."""
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(4, -128), np.full(4, 127)).reshape(1, 4)
    grids = [((0.5, 3), (0.25, -128)), ((0.25, 3), (0.25, -128)), ((0.5, 4), (0.25, -128))]
    grids += [((0.5, 3), (0.5, -128)), ((0.5, 3), (0.25, -127))]
    made = [softmax_litert(rows, x, 0.5), *(softmax_onnx(rows, x, *pair) for pair in grids)]
    assert len(set(np.concatenate(made).reshape(-1).tolist())) == 4 * len(made)
    assert np.array_equal(softmax_onnx(rows, x, *grids[0]), made[1])


def test_a_softmax_with_bounds_is_not_covered() -> None:
    tensors = tuple(ModelTensor(name, (1, 4), "int8", (0.1,), (0,)) for name in "xy")
    for low, refused in ((-128, False), (-100, True)):
        said = {"axis": 1, "beta": 1.0, "arithmetic": "onnx", "low": low, "high": 127}
        softmax = ModelOperator("softmax", (0,), (1,), said, "Softmax")
        network = ModelNetwork("net", tensors, (softmax,), (0,), (1,))
        if refused:
            with pytest.raises(Unsupported, match="Softmax: a softmax that is clamped"):
                Proof(network)
        else:
            Proof(network)


def test_equal_names_on_equal_rows_are_equal() -> None:
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(4, -128), np.full(4, 127))
    one = rows.of(("softmax", 1), x.reshape(2, 2))
    assert [end.tolist() for end in values.limits(one)] == [[[-128] * 2] * 2, [[127] * 2] * 2]
    assert np.array_equal(one, rows.of(("softmax", 1), x.reshape(2, 2)))
    assert len(set(one.reshape(-1).tolist())) == 4
    for other in (rows.of(("softmax", 2), x.reshape(2, 2)), rows.of(("softmax", 1), x[:, None])):
        assert not set(one.reshape(-1).tolist()) & set(other.reshape(-1).tolist())


def test_each_row_has_as_many_symbols_as_are_asked_for_once() -> None:
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(6, -128), np.full(6, 127)).reshape(2, 3)
    before = values.symbol_count
    for _ in range(2):
        assert rows.of(("largest",), x, 1).shape == (2, 1)
        assert rows.of(("largest",), x[:1], 1).shape == (1, 1)
        assert values.symbol_count == before + 2


def test_an_element_is_a_function_of_itself_alone() -> None:
    """Beside whichever other ones it stands."""
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(3, -128), np.full(3, 127))
    for of in (lambda one: real_bytes(rows, one), lambda one: dequantized(rows, one, 0.5, 3)):
        together, size = of(x[:2]), len(of(x[:1]))
        for one in (x[:1], x[[0, 2]]):
            assert np.array_equal(of(one)[:size], together[:size])


@pytest.mark.parametrize("kind", ["quantize", "dequantize"])
def test_ends_of_other_types_are_not_covered(kind: str) -> None:
    said = {"arithmetic": "litert"} if kind == "quantize" else {}
    operator = ModelOperator(kind, (0,), (1,), said, "the end")
    for dtype, data, refused in (
        ("float32", None, False),
        ("float16", None, True),
        ("float32", np.zeros((1, 4), np.float32), True),
    ):
        levels = ModelTensor("levels", (1, 4), "int8", (0.1,), (0,))
        real = ModelTensor("real", (1, 4), dtype, data=data)
        quantizes = kind == "quantize"
        tensors = (real, levels) if quantizes else (levels, real)
        elements = Elements(values := Values(), ModelNetwork("net", tensors, (operator,), (), (1,)))
        elements.put(0, values.opaque(np.full(4, -128), np.full(4, 127)))
        if refused:
            with pytest.raises(Unsupported, match="the end: real of float(16|32), float32 is"):
                (quantize if quantizes else dequantize)(elements, operator, RowFunctions(values))
        else:
            (quantize if quantizes else dequantize)(elements, operator, RowFunctions(values))
            assert len(set(elements.symbols(1).reshape(-1).tolist())) == 4


def test_a_real_number_is_its_four_bytes_in_their_order() -> None:
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(2, -128), np.full(2, 127))
    real = real_bytes(rows, x)
    assert len(set(real.tolist())) == 8
    assert np.array_equal(real, real_bytes(rows, x))
    made = quantized(rows, real, 0.5, 3, half_to_even=True)
    for other in (np.roll(real, 1), real.reshape(2, 4)[:, ::-1].reshape(-1)):
        assert not np.isin(quantized(rows, other, 0.5, 3, half_to_even=True), made).any()


def test_another_type_is_not_proved(case: tuple[ModelNetwork, Artifact]) -> None:
    """What the caller gives would be levels of another zero."""
    network, artifact = case
    tensors = list(network.tensors)
    number = network.inputs[0]
    tensors[number] = replace(tensors[number], dtype="int8")
    with pytest.raises(Unsupported):
        Proof(replace(network, tensors=tuple(tensors)))
    held = list(artifact.tensors)
    held[artifact.inputs[0]] = replace(held[artifact.inputs[0]], dtype=DataType.INT32)
    verdict = Proof.attempt(network, replace(artifact, tensors=tuple(held)))
    assert verdict.status is Status.NOT_PROVED
    assert "of int32, the network of float32" in verdict.reason
