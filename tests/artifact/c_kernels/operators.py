"""Operators that become C, all in one network: one artifact, one call of the C compiler.

In:   operators of the graph by name; those that share a name of a tensor are renamed.
Out:  `check`: the C runtime gives the integers of graph/reference.py.
Next: the tests beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import HostStep
from loadstone.artifact.host import EXTERNAL_C
from loadstone.graph.reference import run
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.hw_config import load_config

__all__ = ["GRID", "OTHER", "RNG", "check", "one", "tensor"]

CONFIG = load_config("vtaq-1x16x16")
GRID, OTHER = g.Quantization(0.0625, -7), g.Quantization(0.09375, 11)
RNG = np.random.default_rng(3)


def tensor(
    name: str, *shape: int, dtype: str = "int8", grid: g.Quantization | None = GRID
) -> g.Tensor:
    return g.Tensor(name, shape, dtype, grid)


def one(
    kind: type[g.Operator], inputs: tuple[g.Tensor, ...], output: g.Tensor, **fields: Any
) -> g.Operator:
    return kind(name=output.name, inputs=inputs, outputs=(output,), **fields)


def check(operators: Mapping[str, g.Operator], samples: int = 8) -> None:
    own = [_named(operator, name) for name, operator in operators.items()]
    graph = g.Graph(
        name="kernels",
        inputs=tuple(t for o in own for t in o.inputs),
        outputs=tuple(t for o in own for t in o.outputs),
        operators=tuple(own),
    )
    artifact = deploy(graph, graph.operators, CONFIG).artifact
    functions = {s.function for s in artifact.steps if isinstance(s, HostStep)}
    assert functions == {EXTERNAL_C}
    inputs = [RNG.integers(-128, 128, (samples, *t.shape)).astype(np.int8) for t in graph.inputs]
    with (
        OpenedDevice("sim", "", CONFIG) as device,
        device.load(artifact, trust=True) as session,
    ):
        got = session.run(inputs)
    for k in range(samples):
        wanted = run(graph, [array[k] for array in inputs])
        for name, want, values in zip(operators, wanted, got, strict=True):
            np.testing.assert_array_equal(values[k], want, err_msg=name)


def _named(operator: g.Operator, name: str) -> g.Operator:
    def renamed(t: g.Tensor) -> g.Tensor:
        return replace(t, name=f"{name}/{t.name}")

    return replace(
        operator,
        name=name,
        inputs=tuple(map(renamed, operator.inputs)),
        outputs=tuple(map(renamed, operator.outputs)),
    )
