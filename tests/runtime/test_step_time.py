# SPDX-License-Identifier: Apache-2.0
"""runtime/step_time.py: a step alone takes some time, in C, and changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR
from loadstone.numerics import Rounding
from loadstone.runtime import step_time
from loadstone.runtime.step_time import StepTimes, measured_ns
from loadstone.vta.device.hw_config import load_config
from tests.sample_model import dense_model

CONFIG = load_config("vtaq-1x16x16")


def test_every_step_of_the_host_takes_time() -> None:
    artifact = dense_model(CONFIG).artifact
    steps = [step for step in artifact.steps if isinstance(step, HostStep)]
    assert steps
    for step in steps:
        assert 0 < measured_ns(step, artifact, CONFIG, trust=False) < 60e9


def test_an_operator_is_timed_as_the_c_that_a_board_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever NumPy takes for it: it is not asked."""
    grid = g.Quantization(0.5, 0)
    x, y, z = (g.Tensor(name, (1, 4096), "int8", grid) for name in "xyz")
    total = g.Add(
        name="z", inputs=(x, y), outputs=(z,), rounding=Rounding.DOUBLE, low=-128, high=127
    )
    graph = g.Graph(name="sum", inputs=(x, y), outputs=(z,), operators=(total,))
    artifact = deploy(graph, graph.operators, CONFIG).artifact
    (step,) = artifact.steps
    assert isinstance(step, HostStep)
    assert step.function == EXTERNAL_OPERATOR

    def asked(*_: object) -> int:
        raise AssertionError("a session runs it")

    monkeypatch.setattr(step_time, "_in_session", asked)
    assert 1_000 < measured_ns(step, artifact, CONFIG, trust=True) < 50e6
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(AssertionError, match="a session runs it"):
        measured_ns(step, artifact, CONFIG, trust=True)


def test_equal_steps_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their names, and in the order of the first of each."""
    artifact = dense_model(CONFIG).artifact
    steps = [step for step in artifact.steps if isinstance(step, HostStep)]
    again = [replace(step, name=f"{step.name} again") for step in steps]
    measured: list[str] = []

    def ns(step: HostStep, *_: object, **__: object) -> int:
        measured.append(step.name)
        return len(measured)

    monkeypatch.setattr(step_time, "measured_ns", ns)
    times = StepTimes(artifact, CONFIG, trust=False)
    found = [times.ns(step) for step in (*steps, *again)]
    assert measured == [step.name for step in steps]
    assert found == [*range(1, len(steps) + 1)] * 2


def test_a_step_is_timed_with_its_own_tensors_alone() -> None:
    """Others of a large network would be written and checked each time."""
    artifact = dense_model(CONFIG).artifact
    for step in artifact.steps:
        if not isinstance(step, HostStep):
            continue
        alone = step_time._alone(step, artifact)
        (own,) = alone.steps
        assert isinstance(own, HostStep)
        pairs = zip((*own.inputs, *own.outputs), (*step.inputs, *step.outputs), strict=True)
        assert all(alone.tensors[k] == artifact.tensors[index] for k, index in pairs)
        assert len(alone.tensors) == len({*step.inputs, *step.outputs})
        alone.to_bytes()
