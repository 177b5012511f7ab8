# SPDX-License-Identifier: Apache-2.0
"""Small networks to divide, and back ends that take what a test says.

In:   patterns; a graph of onnx_builder.py under construction.
Out:  a back end; a module in canonical form; where each operator went; what the passes make of a
      network written as text.
Next: test_eager.py, test_fused_graph.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.backend.interface import Backend, Pattern, Segment
from loadstone.backend.region import LoweredRegion
from loadstone.backend.target import resolve
from loadstone.frontend import load, onnx
from loadstone.frontend.rewrites import canonical
from loadstone.partition.eager import Partition, partition
from loadstone.passes.log import PassLog
from tests.onnx_builder import Graph
from tests.passes.networks import TARGETS, plugins
from tests.relax_text import before


def backend(label: str, *table: Pattern) -> Backend:
    """A back end with this pattern table, which lowers nothing."""

    class Fake(Backend):
        name = label

        def patterns(self) -> Sequence[Pattern]:
            return table

        def lower(self, segment: Segment) -> LoweredRegion:
            raise NotImplementedError

    return Fake()


def module_of(build: Callable[[Graph, str], str], shape: tuple[int, ...] = (1, 4, 6, 6)) -> Any:
    graph = Graph()
    x = graph.input(shape, np.int8)
    return canonical(onnx.from_bytes(graph.save([(build(graph, x), np.int8)]), "m.onnx"))


def step(graph: Graph, kind: str, *inputs: str, **attributes: Any) -> str:
    """One operator between DequantizeLinear and QuantizeLinear, all in the same quantization."""
    real = [graph.dequantize(x, 0.5, 0) for x in inputs]
    return graph.quantize(graph.node(kind, *real, **attributes), 0.5, 0)


def places(divided: Partition) -> list[tuple[str, str]]:
    return [(assignment.operator.kind, assignment.backend) for assignment in divided.assignments]


@cache
def texts_behind(target: str) -> Mapping[str, str]:
    """By pass, what it makes of tests/golden/relax/network.before.txt for a key of TARGETS."""
    backends = resolve(TARGETS[target], plugins()).backends
    divided = partition(load(before("network")), backends, log=PassLog(texts=True))
    return {run.name: run.text() for run in divided.log.runs if run.text is not None}
