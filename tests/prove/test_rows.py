# SPDX-License-Identifier: Apache-2.0
"""prove/rows.py and the ends of a network: equal names on equal rows are equal, and a network from
real numbers to real numbers is proved only with its own scales, zero points and rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.compiler import compile as compile_model
from loadstone.prove.host_steps import whole_reals
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.rows import RowFunctions
from loadstone.prove.values import Values
from loadstone.prove.verdict import Status
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


def test_equal_names_on_equal_rows_are_equal() -> None:
    values = Values()
    rows, x = RowFunctions(values), values.opaque(np.full(4, -128), np.full(4, 127))
    one = rows.of(("softmax", 1), x.reshape(2, 2))
    assert np.array_equal(one, rows.of(("softmax", 1), x.reshape(2, 2)))
    assert len(set(one.reshape(-1).tolist())) == 4
    for other in (rows.of(("softmax", 2), x.reshape(2, 2)), rows.of(("softmax", 1), x[:, None])):
        assert not set(one.reshape(-1).tolist()) & set(other.reshape(-1).tolist())


def test_a_real_number_is_four_bytes_of_one() -> None:
    whole = np.repeat(np.array([300, 301]), 4)
    assert whole_reals(whole) is not None
    assert whole_reals(np.roll(whole, 1)) is None
