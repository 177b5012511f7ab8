# SPDX-License-Identifier: Apache-2.0
"""partition/cost/pricing.py: every step of an artifact has a price, by the table or by its back
end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.artifact.format import HostStep
from loadstone.backend.device import ProgramStep
from loadstone.backend.interface import Taken
from loadstone.backend.target import resolve
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.pricing import Pricing, segment_of
from loadstone.partition.lowering import Clock, LoweredPartition
from loadstone.partition.partitioner import EagerPartitioner
from tests.partition.cost.networks import HOST_NS, TRANSFER_NS, fixed_host_times, module


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> tuple[Pricing, LoweredPartition]:
    fixed_host_times(monkeypatch)
    target = resolve("vtaq-tiny")
    lowered = EagerPartitioner(module(), "m", target).run(Clock())
    return Pricing(target.backends, CostTable(target.device)), lowered


def test_a_plan_is_the_sum_of_its_steps(priced: tuple[Pricing, LoweredPartition]) -> None:
    pricing, lowered = priced
    steps = lowered.deployment.artifact.steps
    prices = pricing.steps_ns(lowered)
    assert len(prices) == len(steps)
    assert pricing.plan_ns(lowered) == sum(prices)
    host = [ns for step, ns in zip(steps, prices, strict=True) if isinstance(step, HostStep)]
    assert sorted(set(host)) == [TRANSFER_NS, HOST_NS]
    (device,) = (ns for s, ns in zip(steps, prices, strict=True) if isinstance(s, ProgramStep))
    assert 0 < device < HOST_NS


def test_a_back_end_with_a_model_prices_its_segments(
    priced: tuple[Pricing, LoweredPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    pricing, lowered = priced
    (backend,) = pricing.backends
    monkeypatch.setattr(type(backend), "cost_cycles", lambda *_: 500, raising=False)
    steps = lowered.deployment.artifact.steps
    clock = int(backend.attributes["clock_mhz"])
    for step, ns in zip(steps, pricing.steps_ns(lowered), strict=True):
        if isinstance(step, ProgramStep):
            assert ns == 500 * 1000 // clock
            assert segment_of(step) == lowered.segments[0].name
        else:
            assert segment_of(step) == ""


def test_two_equal_plans_leave_no_doubt(priced: tuple[Pricing, LoweredPartition]) -> None:
    pricing, lowered = priced
    assert pricing.doubt_ns(lowered, lowered) == 0


@pytest.mark.parametrize("cycles", [-1, 1.5, "7", np.float32(1)])
def test_what_is_no_number_of_cycles_is_refused(cycles: Any) -> None:
    with pytest.raises(TypeError, match="not a whole number of at least 0 or None"):
        Taken(cycles=cycles)
    assert Taken().cycles is None
    assert Taken(cycles=np.int64(7)).cycles == 7  # type: ignore[arg-type]


def test_a_predicate_that_says_the_cycles_of_its_operator_is_not_asked_again(
    priced: tuple[Pricing, LoweredPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one operator alone; several together are the back end's own to price."""
    pricing, lowered = priced
    (backend,) = pricing.backends
    monkeypatch.setattr(type(backend), "cost_cycles", lambda *_: 500, raising=False)
    first = lowered.segments[0].operators[0]
    whole = replace(lowered.segments[0], taken={first: Taken(cycles=300)})
    alone = replace(whole, operators=(first,))
    clock = int(backend.attributes["clock_mhz"])
    assert pricing.model_ns(backend, alone) == 300 * 1000 // clock
    assert pricing.model_ns(backend, replace(alone, taken={})) == 500 * 1000 // clock
    two = replace(whole, operators=(first, first))
    assert pricing.model_ns(backend, two) == 500 * 1000 // clock
