# SPDX-License-Identifier: Apache-2.0
"""vta/integers/block_plan.py: integers of a search as levels of products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.integers.block_plan import (
    LAST_SHIFT,
    Setting,
    digit_plan,
    digit_plans,
    part_plans,
)
from loadstone.vta.integers.digit_search import DigitForm, search_digits
from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.levels import constant_tile
from loadstone.vta.integers.proof import DigitPlan, PartPlan
from loadstone.vta.integers.search import search_parts
from tests.vta.integers.made import made_runs

SCALES = np.linspace(0.0011, 0.0019, 16)
NONE = np.zeros(16, np.int64)


def test_products_and_constants_of_all_levels_add_up_to_what_was_found() -> None:
    runs = made_runs(SCALES, (-90_000, 90_000), "double", -128)
    found = search_digits(runs, DigitForm(3, False, NONE))
    plan = digit_plan(runs, Setting(3, False, None), NONE, found, 16)
    assert plan is not None
    exponent, total, constant = 0, [NONE.copy() for _ in range(3)], NONE.copy()
    for level in plan.chain.levels:
        exponent += level.shift
        for digit, weights in level.products:
            total[digit] += weights.astype(np.int64) << exponent
        constant += sum(level.constants, NONE) << exponent
    total[2] += 1  # the last digit stands in the accumulator
    np.testing.assert_array_equal(total, found.multipliers)
    np.testing.assert_array_equal(constant, found.constant)
    np.testing.assert_array_equal(exponent + plan.chain.shift, found.shift)


def test_each_constant_of_a_level_is_one_product() -> None:
    runs = made_runs(SCALES, (-90_000, 90_000), "double", -128)
    found = search_digits(runs, DigitForm(3, False, NONE))
    plan = digit_plan(runs, Setting(3, False, None), NONE, found, 16)
    assert plan is not None
    tile = constant_tile(16).astype(np.int64)
    most = 127 * int(tile[1:].sum())
    assert all(np.abs(c).max() <= most for level in plan.chain.levels for c in level.constants)


def test_lanes_whose_shifts_lie_too_far_apart_have_no_plan() -> None:
    runs = made_runs(SCALES, (-9_000, 9_000), "double", -128)
    found = search_digits(runs, DigitForm(3, False, NONE))
    setting = Setting(3, False, None)
    assert digit_plan(runs, setting, NONE, found, 16) is not None
    far = replace(found, shift=found.shift + np.where(np.arange(16) == 3, LAST_SHIFT + 1, 0))
    assert digit_plan(runs, setting, NONE, far, 16) is None


def test_blocks_side_by_side_are_what_they_are_alone() -> None:
    """Of one setting and search, with other spacings, lengths and counts of products."""
    scales = np.concatenate([SCALES, SCALES * 40, np.array([0.0011] * 16), SCALES[:5] * 1.3])
    runs = made_runs(scales, (-60_000, 90_000), "double", -128)
    left = np.zeros(len(scales), np.int64)
    found = search_digits(runs, DigitForm(3, False, left))
    lanes = Lanes.of(range(4), 16, len(scales))
    together = digit_plans(runs, lanes, Setting(3, False, None), left, found, 16)
    plans = {
        number: joined.plan_of(place)
        for joined in together
        for place, number in enumerate(joined.lanes.numbers)
    }
    assert sorted(plans) == [0, 1, 2, 3]
    for number, plan in plans.items():
        at = slice(16 * number, 16 * number + 16)
        own = (runs.take(at), Setting(3, False, None), left[at], found.take(at))
        alone = digit_plan(*own, 16)
        assert repr(plan) == repr(alone)
    digits = [plan for plan in plans.values() if isinstance(plan, DigitPlan)]
    assert len({plan.chain.exponents for plan in digits}) > 1
    products = {tuple(len(level.products) for level in plan.chain.levels) for plan in digits}
    assert len(products) > 1


def test_multipliers_of_parts_are_doubled_up_to_their_limit() -> None:
    runs = made_runs(SCALES, (-20_000, 20_000), "double", -128)
    limit = np.full(16, 127 * (256**4 - 1) // 255 // 100)
    found = search_parts(runs, limit // 64, 24 + LAST_SHIFT)
    (joined,) = part_plans(runs, Lanes.of([0], 16, 16), 4, found, limit, 16)
    plan = joined.plan_of(0)
    assert isinstance(plan, PartPlan)
    doubled = plan.multiplier // found.multipliers[0]
    assert (plan.multiplier <= limit).all()
    np.testing.assert_array_equal(plan.constant, found.constant * doubled)
    np.testing.assert_array_equal(
        plan.exponents[-1] + plan.shift, found.shift + np.log2(doubled).astype(np.int64)
    )
