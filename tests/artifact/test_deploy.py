# SPDX-License-Identifier: Apache-2.0
"""deploy.py and vta/region/offload.py: order, layout changes at the edges, and tensors that are
parts of others."""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.region import LoweredRegion
from loadstone.graph.reference import run
from loadstone.numerics import Rounding
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.region.offload import OffloadedRegion, find_aliases

CONFIG = load_config("vtaq-1x16x16")
Q = g.Quantization(0.125, 1)
RNG = np.random.default_rng(5)


def tensor(name: str, *shape: int) -> g.Tensor:
    return g.Tensor(name, shape, "int8", Q)


def conv(x: g.Tensor, y: g.Tensor) -> g.Conv2D:
    channels, outputs = x.shape[3], y.shape[3]
    return g.Conv2D(
        name=y.name,
        inputs=(x,),
        outputs=(y,),
        weights=RNG.integers(-127, 128, (outputs, 1, 1, channels)).astype(np.int8),
        weight_scales=np.full(outputs, 0.01, np.float32),
        weight_zero_points=np.zeros(outputs, np.int32),
        bias=RNG.integers(-99, 99, outputs).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=1,
    )


def join(name: str, *parts: g.Tensor) -> g.Concatenate:
    channels = sum(t.shape[-1] for t in parts)
    out = tensor(name, *parts[0].shape[:-1], channels)
    return g.Concatenate(
        name=name,
        inputs=parts,
        outputs=(out,),
        axis=3,
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )


def build(graph: g.Graph, *runs: tuple[int, int]) -> Artifact:
    """runs: [first, last) operators that the device takes together; the others stay on the host."""
    segments: list[LoweredRegion | g.Operator] = []
    number = 0
    while number < len(graph.operators):
        taken = next((r for r in runs if r[0] == number), None)
        if taken is None:
            segments.append(graph.operators[number])
            number += 1
        else:
            everything = [
                tensor
                for operator in graph.operators
                for tensor in (*operator.inputs, *operator.outputs)
            ]
            segments.append(
                OffloadedRegion(
                    f"run{number}", graph.operators[slice(*taken)], graph.inputs, everything, CONFIG
                )
            )
            number = taken[1]
    return deploy(graph, segments, CONFIG).artifact


def check(graph: g.Graph, artifact: Artifact) -> None:
    inputs = [RNG.integers(-128, 128, t.shape).astype(np.int8) for t in graph.inputs]
    with OpenedDevice("sim", "", CONFIG) as device, device.load(artifact) as session:
        got = session.run([x[None] for x in inputs])
    for out, want in zip(got, run(graph, inputs), strict=True):
        np.testing.assert_array_equal(out[0], want)


def kinds(artifact: Artifact) -> list[str]:
    return [
        step.opcode.name.lower() if isinstance(step, HostStep) else "program"
        for step in artifact.steps
    ]


def test_a_chain_is_packed_once_and_unpacked_once() -> None:
    x, y, z = tensor("x", 1, 5, 5, 20), tensor("y", 1, 5, 5, 33), tensor("z", 1, 5, 5, 7)
    graph = g.Graph(name="chain", inputs=(x,), outputs=(z,), operators=(conv(x, y), conv(y, z)))
    artifact = build(graph, (0, 2))
    assert kinds(artifact) == ["pack", "program", "unpack"]
    check(graph, artifact)


def test_a_host_operator_in_the_middle_splits_the_programs() -> None:
    x, y, t, z = (
        tensor("x", 1, 4, 6, 16),
        tensor("y", 1, 4, 6, 16),
        tensor("t", 1, 6, 4, 16),
        tensor("z", 1, 6, 4, 16),
    )
    turn = g.Transpose(name="t", inputs=(y,), outputs=(t,), permutation=(0, 2, 1, 3))
    graph = g.Graph(
        name="split", inputs=(x,), outputs=(z,), operators=(conv(x, y), turn, conv(t, z))
    )
    artifact = build(graph, (0, 1), (2, 3))
    assert kinds(artifact) == ["pack", "program", "unpack", "copy", "pack", "program", "unpack"]
    check(graph, artifact)


def test_a_tensor_stays_on_the_device_between_two_programs() -> None:
    x, y, t, z = (
        tensor("x", 1, 4, 4, 16),
        tensor("y", 1, 4, 4, 16),
        tensor("t", 1, 4, 4, 16),
        tensor("z", 1, 4, 4, 16),
    )
    turn = g.Transpose(name="t", inputs=(x,), outputs=(t,), permutation=(0, 2, 1, 3))
    graph = g.Graph(
        name="two", inputs=(x,), outputs=(t, z), operators=(conv(x, y), turn, conv(y, z))
    )
    artifact = build(graph, (0, 1), (2, 3))
    assert kinds(artifact) == ["pack", "program", "copy", "program", "unpack"]
    check(graph, artifact)


def test_an_output_in_the_middle_is_unpacked_too() -> None:
    x, y, z = tensor("x", 1, 3, 3, 16), tensor("y", 1, 3, 3, 16), tensor("z", 1, 3, 3, 16)
    graph = g.Graph(name="mid", inputs=(x,), outputs=(y, z), operators=(conv(x, y), conv(y, z)))
    artifact = build(graph, (0, 2))
    assert kinds(artifact) == ["pack", "program", "unpack", "unpack"]
    check(graph, artifact)


def test_whole_blocks_are_joined_by_address() -> None:
    x, a, b = tensor("x", 1, 8, 8, 16), tensor("a", 1, 8, 8, 32), tensor("b", 1, 8, 8, 20)
    both = join("both", a, b)
    z = tensor("z", 1, 8, 8, 16)
    operators = (conv(x, a), conv(x, b), both, conv(both.output, z))
    graph = g.Graph(name="join", inputs=(x,), outputs=(z,), operators=operators)
    assert find_aliases(operators, CONFIG) == {"a": ("both", 0), "b": ("both", 2 * 64 * 16)}
    artifact = build(graph, (0, 4))
    layers = {
        layer.name
        for step in artifact.steps
        if isinstance(step, ProgramStep)
        for layer in step.layers
    }
    assert "both" not in layers
    check(graph, artifact)


def test_parts_of_blocks_are_joined_by_copies() -> None:
    x, a, b = tensor("x", 1, 8, 8, 16), tensor("a", 1, 8, 8, 20), tensor("b", 1, 8, 8, 20)
    both = join("both", a, b)
    graph = g.Graph(
        name="join", inputs=(x,), outputs=both.outputs, operators=(conv(x, a), conv(x, b), both)
    )
    assert find_aliases(graph.operators, CONFIG) == {}
    artifact = build(graph, (0, 2))
    assert kinds(artifact).count(HostOpcode.COPY.name.lower()) == 2
    check(graph, artifact)


def test_a_tensor_joined_twice_is_no_part_of_two() -> None:
    x, a, b = tensor("x", 1, 8, 8, 16), tensor("a", 1, 8, 8, 16), tensor("b", 1, 8, 8, 16)
    first, second = join("first", a, b), join("second", b, a)
    aliases = find_aliases((conv(x, a), conv(x, b), first, second), CONFIG)
    assert aliases == {"a": ("first", 0), "b": ("first", 64 * 16)}


def test_a_slice_of_whole_blocks_is_a_part() -> None:
    x, a = tensor("x", 1, 8, 8, 16), tensor("a", 1, 8, 8, 48)
    part, z = tensor("part", 1, 8, 8, 16), tensor("z", 1, 8, 8, 16)
    cut = g.Slice(
        name="part", inputs=(a,), outputs=(part,), begin=(0, 0, 0, 16), strides=(1, 1, 1, 1)
    )
    operators = (conv(x, a), cut, conv(part, z))
    assert find_aliases(operators, CONFIG) == {"part": ("a", 64 * 16)}
    graph = g.Graph(name="cut", inputs=(x,), outputs=(z,), operators=operators)
    check(graph, build(graph, (0, 3)))


def test_a_reshape_that_keeps_tiles_is_the_same_memory() -> None:
    x, a, flat, z = (
        tensor("x", 1, 1, 1, 16),
        tensor("a", 1, 1, 1, 48),
        tensor("flat", 1, 48),
        tensor("z", 1, 48),
    )
    move = g.Reshape(name="flat", inputs=(a,), outputs=(flat,))
    again = g.Reshape(name="z", inputs=(flat,), outputs=(z,))
    operators = (conv(x, a), move, again)
    assert find_aliases(operators, CONFIG) == {"flat": ("a", 0), "z": ("flat", 0)}
    graph = g.Graph(name="flat", inputs=(x,), outputs=(z,), operators=operators)
    check(graph, build(graph, (0, 3)))
