# SPDX-License-Identifier: Apache-2.0
"""vta/operators/block_kinds.py: what blocks have in common, and tiles that say what plans say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.integers.levels import constant_tile
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.proof import DigitPlan, PartPlan
from loadstone.vta.integers.runs import runs_of
from loadstone.vta.integers.steps import BlockPlan
from loadstone.vta.operators import constants
from loadstone.vta.operators.block_kinds import MOST_BIAS, Kind, biases_of, kinds_of, part_levels
from tests import lowered as lo

BLOCK, CHANNELS = 16, 53
ONES = constant_tile(BLOCK).astype(np.int64)


def layer(zero_point: int) -> g.Conv2D:
    """Four blocks, the last of which is short, of scales so far apart that forms differ."""
    rng = np.random.default_rng(7)
    scales = np.linspace(2e-4, 4e-3, CHANNELS)
    scales[:16] = 1e-4
    return replace(
        lo.small_convolution(),
        outputs=(lo.tensor("y", (1, 6, 5, CHANNELS), 0.0625, zero_point),),
        weights=rng.integers(-128, 128, (CHANNELS, 3, 3, 4)).astype(np.int8),
        weight_scales=scales.astype(np.float32),
        weight_zero_points=np.zeros(CHANNELS, np.int32),
        bias=rng.integers(-2000, 2000, CHANNELS).astype(np.int32),
        rounding=Rounding.DOUBLE,
    )


def plans_of(op: g.Conv2D, sum_steps: int) -> list[BlockPlan]:
    runs = runs_of(op)
    assert runs is not None
    plans = Planner(runs, BLOCK, np.full(CHANNELS, 128)).plans(sum_steps)
    found = [plan for plan in plans if plan is not None]
    assert len(found) == len(plans) == 4
    return found


def made(tiles: NDArray[np.int8]) -> NDArray[np.int64]:
    """What weight tiles (tiles, block, block) make of the constant tile in all."""
    total: NDArray[np.int64] = tiles.astype(np.int64).sum(axis=0) @ ONES
    return total


def all_kinds(op: g.Conv2D, plans: list[BlockPlan]) -> list[Kind]:
    kinds = kinds_of(plans, biases_of(plans, op, BLOCK), op)
    assert sorted(number for kind in kinds for number in kind.numbers) == [0, 1, 2, 3]
    return kinds


@pytest.mark.parametrize("zero_point", [-2, -128])
def test_bias_tiles_and_chains_of_digits_say_what_the_plans_say(zero_point: int) -> None:
    op = layer(zero_point)
    plans = plans_of(op, 1 << 20)
    folded = constants.folded_bias(op)
    kinds = all_kinds(op, plans)
    assert len(kinds) > 1
    for kind in kinds:
        products = kind.form.bias <= MOST_BIAS  # what is more is added as a tile
        assert products or zero_point == -128
        assert kind.biases.shape[1] == (kind.form.bias if products else 0)
        for number, chain, bias in zip(kind.numbers, kind.chains, kind.biases, strict=True):
            plan = plans[number]
            assert isinstance(plan, DigitPlan)
            lanes = len(plan.dead)
            own = folded[number * BLOCK : number * BLOCK + lanes] + plan.offset
            if products:
                np.testing.assert_array_equal(made(bias)[:lanes], own)
            at = 0
            for level, shape in zip(plan.chain.levels, kind.form.shape.levels, strict=True):
                added = sum(level.constants, np.zeros(lanes, np.int64))
                np.testing.assert_array_equal(made(chain[at : at + shape.constants])[:lanes], added)
                at += shape.constants
                taps = sum(count for _, count in shape.runs)
                diagonals = chain[at : at + taps].diagonal(axis1=1, axis2=2)[:, :lanes]
                wanted = sum(weights.astype(np.int64) for _, weights in level.products)
                np.testing.assert_array_equal(diagonals.astype(np.int64).sum(axis=0), wanted)
                at += taps
            assert at == len(chain)


def test_parts_of_weights_and_what_is_added_say_what_the_plans_say() -> None:
    op = layer(-128)
    plans = plans_of(op, 1)
    weights, folded = constants.centred_weights(op), constants.folded_bias(op)
    for kind in all_kinds(op, plans):
        for place, number in enumerate(kind.numbers):
            plan = plans[number]
            assert isinstance(plan, PartPlan)
            channels = slice(number * BLOCK, number * BLOCK + len(plan.dead))
            levels = part_levels(plans, [number], weights, BLOCK)
            total = sum(
                step.astype(np.int64) << exponent
                for steps, exponent in zip(levels, plan.exponents, strict=True)
                for step in steps
            )
            np.testing.assert_array_equal(
                total, weights[channels] * plan.multiplier[:, None, None, None]
            )
            at, added = 0, np.zeros(BLOCK, np.int64)
            for shape, exponent in zip(kind.form.shape.levels, plan.exponents, strict=True):
                added += made(kind.chains[place, at : at + shape.constants]) << exponent
                at += shape.constants
            own = folded[channels] * plan.multiplier + plan.constant
            np.testing.assert_array_equal(added[: len(own)], own)
