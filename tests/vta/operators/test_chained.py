"""Operators between any scales on devices that have no RQ: every one that is taken is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.vta.allocate import allocate
from loadstone.vta.hw_config import load_config
from loadstone.vta.operators import unsupported_reason
from tests import lowered as lo
from tests.repeat import times

quick = settings(
    max_examples=times(10, 200), deadline=None, suppress_health_check=list(HealthCheck)
)


def check(op: g.Operator, device: str, seed: int = 11) -> int:
    """Runs the operator; the number of operations that it became."""
    config = load_config(device)
    inputs = lo.random_inputs(op, seed)
    result, lowered = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))
    allocate(lowered.operations, config)
    return len(lowered.operations)


@given(st.data())
@quick
def test_elementwise_operators_between_any_scales_are_exact(data: Any) -> None:
    device = data.draw(st.sampled_from(lo.VTA))
    op = data.draw(lo.elementwise(load_config(device)))
    assume(unsupported_reason(op, load_config(device)) is None)
    check(op, device)


@given(st.data())
@quick
def test_averages_between_any_scales_are_exact(data: Any) -> None:
    device = data.draw(st.sampled_from(lo.VTA))
    op = data.draw(lo.averages(load_config(device)))
    assume(unsupported_reason(op, load_config(device)) is None)
    check(op, device)
