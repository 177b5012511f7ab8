"""vta/operators.py: every operator's stream, run in NumPy, gives the integers that numerics gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.vta.hw_config import load_config
from loadstone.vta.operators import folded_input, lower_operator
from tests import lowered as lo

quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@given(st.data())
@quick
def test_convolutions_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.convolutions(config))
    (x,) = lo.random_inputs(op, 1)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


@given(st.data())
@quick
def test_first_layers_are_exact_on_a_folded_input(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.convolutions(config, largest_channels=3))
    layout = folded_input(op, config)
    if layout is None:
        return
    (x,) = lo.random_inputs(op, 2)
    result, _ = lo.run(op, config, [x], layout)
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


@given(st.data())
@quick
def test_dense_layers_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.dense_layers(config))
    (x,) = lo.random_inputs(op, 3)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


def test_an_operator_without_a_lowering_is_named() -> None:
    from loadstone import graph as g

    op = g.Softmax(name="probabilities", inputs=(lo.tensor("x", (1, 10)),), outputs=(lo.tensor("y", (1, 10)),), rounding=lo.Rounding.DOUBLE)
    with pytest.raises(LoweringError, match="softmax probabilities has no lowering for vtaq-tiny"):
        lower_operator(op, load_config("vtaq-tiny"))
