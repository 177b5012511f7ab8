# SPDX-License-Identifier: Apache-2.0
"""vta/operators/layer_plans.py: one search for layers of the same integers, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import layer_plans as module
from loadstone.vta.operators.layer_plans import layer_plans, refusal
from tests.vta.operators.test_rescaled import convolution

CONFIG = load_config("vta-pynq")


def layer(channels: int = 16, taps: int = 1, scale: float = 0.0012) -> g.Conv2D:
    return convolution(channels, taps, scale, Rounding.DOUBLE)


def test_layers_of_the_same_integers_are_searched_for_once() -> None:
    one, other = layer(), replace(layer(), name="another")
    assert one is not other
    plans = layer_plans(one, CONFIG, 1)
    assert plans is not None
    assert layer_plans(other, CONFIG, 1) is plans
    spoiled = replace(one, bias=one.bias + np.int32(1))
    assert layer_plans(spoiled, CONFIG, 1) is not plans


def test_a_short_sum_leaves_digits_unsearched_and_a_long_one_does_not() -> None:
    for op, unsearched in ((layer(), True), (layer(80, 3), False)):
        assert refusal(op, CONFIG) is None
        planner = module._planner(module._key(op, CONFIG, near=False))
        assert isinstance(planner, module.Planner)
        assert bool(planner.unsearched) == unsearched


def test_sums_that_leave_32_bits_are_refused() -> None:
    op = layer()
    far = replace(op, bias=np.full_like(op.bias, 2**31 - 1))
    found = refusal(far, CONFIG)
    assert found is not None
    assert found.why == "sums of its output channels can leave 32 bits"
    assert layer_plans(far, CONFIG, 1) is None
