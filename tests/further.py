# SPDX-License-Identifier: Apache-2.0
"""Small artifacts with programs of two VTAs.

In:   two devices.
Out:  a chain, whose second half is for the second device; two branches, one for each.
Next: tests/vta/region/test_further.py, tests/runtime/test_simulated.py, and whoever runs two
      devices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact
from loadstone.artifact.lifetimes import Step
from loadstone.graph.reference import run
from loadstone.numerics import Array, Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.region.further import FurtherRegion
from loadstone.vta.region.offload import OffloadedRegion

__all__ = ["FIRST", "SECOND", "branches", "chain", "expected", "inputs"]

FIRST, SECOND = load_config("vtaq-1x16x16"), load_config("vtaq-1x8x8")


def _tensor(name: str, *shape: int) -> g.Tensor:
    return g.Tensor(name, shape, "int8", g.Quantization(0.125, 1))


def _conv(x: g.Tensor, y: g.Tensor) -> g.Conv2D:
    channels, outputs = x.shape[3], y.shape[3]
    rng = np.random.default_rng(channels * 100 + outputs)
    return g.Conv2D(
        name=y.name,
        inputs=(x,),
        outputs=(y,),
        weights=rng.integers(-127, 128, (outputs, 1, 1, channels)).astype(np.int8),
        weight_scales=np.full(outputs, 0.01, np.float32),
        weight_zero_points=np.zeros(outputs, np.int32),
        bias=rng.integers(-99, 99, outputs).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=1,
    )


def _deployed(graph: g.Graph, first: HwConfig, second: HwConfig) -> Artifact:
    """The first operator on the first device, the second on the second."""
    regions: list[Step] = []
    everything = [t for o in graph.operators for t in (*o.inputs, *o.outputs)]
    for operator, config in zip(graph.operators, (first, second), strict=True):
        made = OffloadedRegion(
            f"{operator.name} of {config.name}", (operator,), operator.inputs, everything, config
        )
        regions.append(FurtherRegion(made) if config is second else made)
    return deploy(graph, regions, first).artifact


def chain(first: HwConfig = FIRST, second: HwConfig = SECOND) -> tuple[g.Graph, Artifact]:
    """x -> y on the first device -> z on the second."""
    x, y, z = _tensor("x", 1, 5, 5, 20), _tensor("y", 1, 5, 5, 33), _tensor("z", 1, 5, 5, 7)
    graph = g.Graph(name="chain", inputs=(x,), outputs=(z,), operators=(_conv(x, y), _conv(y, z)))
    return graph, _deployed(graph, first, second)


def branches(first: HwConfig = FIRST, second: HwConfig = SECOND) -> tuple[g.Graph, Artifact]:
    """x -> y on the first device, x -> z on the second: no data ties the two programs."""
    x, y, z = _tensor("x", 1, 5, 5, 20), _tensor("y", 1, 5, 5, 33), _tensor("z", 1, 5, 5, 7)
    graph = g.Graph(
        name="branches", inputs=(x,), outputs=(y, z), operators=(_conv(x, y), _conv(x, z))
    )
    return graph, _deployed(graph, first, second)


def inputs(graph: g.Graph, seed: int = 0) -> list[Array]:
    """Random ones."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, t.shape).astype(np.int8) for t in graph.inputs]


def expected(graph: g.Graph, given: Sequence[Array]) -> list[Array]:
    """By each operator's own rule."""
    return run(graph, given)
