"""vta/operators.py: every operator's stream, run in NumPy, gives the integers that numerics gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.hw_config import load_config
from loadstone.vta.operators import folded_input, lower_operator, unsupported_reason
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


@given(st.data())
@quick
def test_elementwise_operators_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.elementwise(config))
    assume(op.rounding is not Rounding.FLOAT32 or unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 4)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


@given(st.data())
@quick
def test_average_pools_and_means_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.averages(config))
    assume(op.rounding is not Rounding.FLOAT32 or unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 5)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


@given(st.data())
@quick
def test_moves_and_max_pools_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.moves(config))
    inputs = lo.random_inputs(op, 6)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


def test_an_operator_without_a_lowering_is_named() -> None:
    op = g.Softmax(name="probabilities", inputs=(lo.tensor("x", (1, 10)),), outputs=(lo.tensor("y", (1, 10)),), rounding=lo.Rounding.DOUBLE)
    with pytest.raises(LoweringError, match="softmax probabilities: vtaq-tiny has no lowering of softmax"):
        lower_operator(op, load_config("vtaq-tiny"))
