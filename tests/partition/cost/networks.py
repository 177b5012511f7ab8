# SPDX-License-Identifier: Apache-2.0
"""A small network for the tests of costs, with steps of the host that cost what the tests say.

In:   nothing.
Out:  a module in canonical form: a sum, a product, and a sigmoid, which no VTA takes.
Next: test_partitioner.py, cost/test_alone.py, cost/test_pricing.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.artifact.format import HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.partition.cost.prices import CostTable
from tests.onnx_builder import Graph
from tests.partition.divided import module_of, step

__all__ = ["HOST_NS", "TRANSFER_NS", "fixed_host_times", "module"]

HOST_NS, TRANSFER_NS = 1_000_000, 10_000


def module() -> Any:
    """sigmoid((x + x) * x)."""

    def build(graph: Graph, x: str) -> str:
        return step(graph, "Sigmoid", step(graph, "Mul", step(graph, "Add", x, x), x))

    return module_of(build, (1, 16, 4, 4))


def fixed_host_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of the host take the same in every run; only transfers are cheap."""

    def measured(self: CostTable, step: HostStep, artifact: Any) -> int:
        return TRANSFER_NS if step.opcode in (HostOpcode.PACK, HostOpcode.UNPACK) else HOST_NS

    monkeypatch.setattr(CostTable, "_measured_ns", measured)
