# SPDX-License-Identifier: Apache-2.0
"""cores.py: a network on several equal devices, in one artifact and one session, gives its own
integers; the programs of a phase start together."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact
from loadstone.backend.device import ProgramDevice
from loadstone.backend.target import resolve
from loadstone.errors import ConfigError, TargetError
from loadstone.graph.reference import run
from loadstone.numerics import Rounding
from loadstone.runtime import device
from loadstone.simulator.programs import program_runs
from loadstone.vta.device.cores import cores_of
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.region.cores import CoresRegion
from tests.lowered import tensor

CONFIG = load_config("vtaq-1x16x16")


def conv(x: g.Tensor, y: g.Tensor, kernel: int, seed: int, *, depthwise: bool = False) -> g.Conv2D:
    rng = np.random.default_rng(seed)
    out, inner = y.shape[3], 1 if depthwise else x.shape[3]
    pad = kernel // 2
    return g.Conv2D(
        name=y.name,
        inputs=(x,),
        outputs=(y,),
        weights=rng.integers(-128, 128, (out, kernel, kernel, inner)).astype(np.int8),
        weight_scales=np.full(out, 0.002, np.float32),
        weight_zero_points=np.zeros(out, np.int32),
        bias=rng.integers(-2000, 2000, out).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(pad, pad, pad, pad),
        groups=out if depthwise else 1,
    )


def network() -> g.Graph:
    """x -> 3x3, folded by the host -> depthwise 3x3 -> 1x1 -> + the first -> mean."""
    x, a, b, c, d, e = (
        tensor(name, (1, 24, 24, channels), 0.05, 3)
        for name, channels in zip("xabcde", (3, 40, 40, 96, 40, 40), strict=True)
    )
    y = tensor("y", (1, 40), 0.05)
    clamp = {"low": -128, "high": 127, "rounding": Rounding.DOUBLE}
    operators = (
        conv(x, a, 3, 1),
        conv(a, b, 3, 2, depthwise=True),
        conv(b, c, 1, 3),
        conv(c, d, 1, 4),
        g.Add(name="e", inputs=(a, d), outputs=(e,), **clamp),
        g.Mean(name="y", inputs=(e,), outputs=(y,), axes=(1, 2), **clamp),
    )
    return g.Graph(name="net", inputs=(x,), outputs=(e, y), operators=operators)


@cache
def of_network(count: int) -> Artifact:
    return deployed(network(), count)


def deployed(graph: g.Graph, count: int) -> Artifact:
    region = CoresRegion(
        "r",
        graph.operators,
        graph.inputs,
        (*graph.inputs, *graph.outputs),
        cores_of(CONFIG, count, bus="private"),
    )
    return deploy(graph, [region], CONFIG).artifact


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_integers_are_those_of_the_network(count: int) -> None:
    graph = network()
    artifact = of_network(count)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    assert device.validate(artifact)[0] == 0
    assert {program.device for program in artifact.programs} == set(range(count))
    rng = np.random.default_rng(7)
    given = [rng.integers(-128, 128, (3, 1, 24, 24, 3)).astype(np.int8)]
    with device.open("sim") as opened, opened.load(artifact) as session:
        got = session.run(given)
    for sample in range(3):
        for made, wanted in zip(got, run(graph, [given[0][sample]]), strict=True):
            np.testing.assert_array_equal(made[sample], wanted)


def test_one_convolution_is_computed_side_by_side() -> None:
    graph = network()
    alone = g.Graph(
        name="one",
        inputs=graph.inputs,
        outputs=graph.operators[0].outputs,
        operators=graph.operators[:1],
    )
    artifact = deployed(alone, 2)
    assert [(p.device, p.beside) for p in artifact.programs] == [(0, False), (1, True)]
    first, second = (run.cycles for run in program_runs(artifact, CONFIG).values())
    (whole,) = (run.cycles for run in program_runs(deployed(alone, 1), CONFIG).values())
    assert 0.5 * whole < max(first, second) < 0.65 * whole


def test_programs_of_a_phase_are_marked_and_have_a_device_each() -> None:
    artifact = of_network(3)
    group: list[int] = []
    for program in artifact.programs:
        group = [*group, program.device] if program.beside else [program.device]
        assert len(set(group)) == len(group)
    assert any(program.beside for program in artifact.programs)


def test_the_devices_of_the_artifact() -> None:
    own, *beside = of_network(3).devices
    assert own == ProgramDevice.of(CONFIG)
    assert [said.name for said in beside] == ["vtaq-1x16x16.1", "vtaq-1x16x16.2"]
    assert {said.fingerprint for said in beside} == {own.fingerprint}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("vtaq-1x16x16 -count=0", "-count=0 is not in"),
        ("vtaq-1x16x16 -count=17", "-count=17 is not in"),
        ("vtaq-1x16x16 -bus=wide", "is not one of private, shared"),
        ("vtaq-1x8x8,vtaq-1x16x16 -count=2", "only the first VTA of a target can be several"),
    ],
)
def test_targets_that_are_refused(target: str, said: str) -> None:
    with pytest.raises((TargetError, ConfigError), match=said):
        resolve(target)
