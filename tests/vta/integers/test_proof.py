# SPDX-License-Identifier: Apache-2.0
"""vta/integers/proof.py: what is spoiled by one is refused, or still right everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.vta.integers.proof import DigitPlan, PartPlan, prove_digits, prove_parts
from loadstone.vta.integers.steps import BlockPlan
from tests.repeat import times
from tests.vta.integers.made import device, made_runs, outputs, plan_of

quick = settings(max_examples=times(6, 60), deadline=None, derandomize=True)


@given(st.integers(0, 2**32 - 1))
@quick
def test_a_spoiled_integer_is_refused_or_still_right(seed: int) -> None:
    """The proof bites: one step of one multiplier, constant or shift, in either direction."""
    rng = np.random.default_rng(seed)
    zero_point = int(rng.choice([-128, 3]))
    sum_steps = int(rng.choice([1, 1000]))
    runs = made_runs(rng.uniform(0.002, 0.02, 2), (-60_000, 60_000), "double", zero_point)
    plan = plan_of(runs, sum_steps)
    assert plan is not None
    refused = 0
    for spoiled in spoilt(plan, rng):
        prove = prove_parts if isinstance(spoiled, PartPlan) else prove_digits
        proven = prove(spoiled, runs)  # type: ignore[arg-type]
        for lane in np.flatnonzero(proven):
            acc = np.arange(runs.first[lane, 0], runs.last[lane, -1] + 1)
            np.testing.assert_array_equal(
                device(spoiled, int(lane), acc), outputs(runs, int(lane), acc)
            )
        refused += int((~proven).sum())
    assert refused, "nothing of what was spoiled mattered"


def spoilt(plan: BlockPlan, rng: np.random.Generator) -> list[BlockPlan]:
    """The plan with one integer of one lane changed."""
    lane = int(rng.integers(len(plan.dead)))
    step = int(rng.choice([-1, 1]))
    if isinstance(plan, PartPlan):
        return [
            replace(plan, multiplier=bumped(plan.multiplier, lane, step)),
            replace(plan, multiplier=bumped(plan.multiplier, lane, 64 * step)),
            replace(plan, shift=bumped(plan.shift, lane, 1)),
        ]
    result: list[BlockPlan] = [
        replace(plan, offset=bumped(plan.offset, lane, step)),
        replace(plan, chain=replace(plan.chain, shift=bumped(plan.chain.shift, lane, 1))),
    ]
    for number, level in enumerate(plan.chain.levels):
        for which, (digit, weights) in enumerate(level.products):
            changed = bumped(weights, lane, step if weights[lane] < 127 else -1)
            products = list(level.products)
            products[which] = (digit, changed)
            levels = list(plan.chain.levels)
            levels[number] = replace(level, products=tuple(products))
            result.append(replace(plan, chain=replace(plan.chain, levels=tuple(levels))))
    return result


def bumped(values: NDArray[Any], lane: int, step: int) -> NDArray[Any]:
    changed = values.copy()
    changed[lane] += step
    return changed


def test_a_form_without_the_clamp_that_it_needs_is_refused() -> None:
    runs = made_runs(np.array([0.011]), (-90_000, 90_000), "double", -128)
    plan = plan_of(runs)
    assert isinstance(plan, DigitPlan)
    assert plan.clamped
    assert prove_digits(plan, runs).all()
    assert not prove_digits(replace(plan, clamped=False), runs).any()


def test_a_multiplier_too_small_for_its_carries_is_refused() -> None:
    """Right at the ends of its runs, but not proven to rise between them."""
    runs = made_runs(np.array([0.0101]), (0, 100), "double", 0)
    plan = plan_of(runs)
    assert isinstance(plan, DigitPlan)
    assert prove_digits(plan, runs).all()
    falling = []
    for level in plan.chain.levels:
        products = tuple((digit, -weights) for digit, weights in level.products)
        falling.append(replace(level, products=products))
    spoiled = replace(plan, chain=replace(plan.chain, levels=tuple(falling)))
    assert not prove_digits(spoiled, runs).any()
