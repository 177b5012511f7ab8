# SPDX-License-Identifier: Apache-2.0
"""runtime/step_source.py: what of a step is C, and that a damaged description makes none."""

from __future__ import annotations

import dataclasses
import json

import pytest

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact, HostStep
from loadstone.errors import ArtifactError
from loadstone.numerics import Rounding
from loadstone.runtime.step_source import python_steps, step_source
from loadstone.vta.device.hw_config import load_config
from tests.artifact.c_kernels.operators import one, tensor


def artifact() -> Artifact:
    operator = one(
        g.Mul,
        (tensor("a", 1, 6), tensor("b", 1, 6)),
        tensor("y", 1, 6),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    graph = g.Graph(
        name="m", inputs=operator.inputs, outputs=operator.outputs, operators=(operator,)
    )
    return deploy(graph, graph.operators, load_config("vtaq-1x16x16")).artifact


def spoiled(change: dict[str, object]) -> Artifact:
    model = artifact()
    (step,) = model.steps
    assert isinstance(step, HostStep)
    said = json.loads(step.attributes)
    said["fields"] |= change
    return dataclasses.replace(
        model, steps=(dataclasses.replace(step, attributes=json.dumps(said)),)
    )


def test_an_operator_as_data_has_c() -> None:
    model = artifact()
    (step,) = model.steps
    assert isinstance(step, HostStep)
    assert step.function == "loadstone.operator"
    made = step_source(step, model)
    assert made is not None
    assert f"void {made[0]}(void *const *operands)" in made[1]
    assert python_steps(model) == []


def test_text_in_the_place_of_a_number_never_becomes_c() -> None:
    model = spoiled({"low": "0); abort("})
    with pytest.raises(ArtifactError, match="no operator that can be computed: .*low='0"):
        python_steps(model)


def test_a_description_of_other_tensors_is_refused() -> None:
    model = artifact()
    tensors = tuple(
        dataclasses.replace(t, shape=(1, 3)) if t.name == "a" else t for t in model.tensors
    )
    (step,) = model.steps
    assert isinstance(step, HostStep)
    with pytest.raises(ArtifactError, match="no operator that can be computed: .*a is int8"):
        step_source(step, dataclasses.replace(model, tensors=tensors))
