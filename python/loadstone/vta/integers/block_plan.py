# SPDX-License-Identifier: Apache-2.0
"""From the integers that a search found to the plans of blocks.

In:   runs of a block's channels, what was found for each.
Out:  DigitPlans and PartPlans of blocks side by side, not yet proven.
Next: plan.py and near.py prove it, and take the cheapest.
"""

from __future__ import annotations

from collections.abc import ItemsView
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array
from loadstone.vta.integers.joined import JoinedPlan
from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.levels import constant_parts, split_constants, split_levels
from loadstone.vta.integers.proof import Chain, DigitPlan, Level, PartPlan
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.search import Found

__all__ = ["LAST_SHIFT", "Setting", "digit_plan", "digit_plans", "part_plans"]

#: What a lane may be shifted by at the end.
LAST_SHIFT = 15
#: Twice what lies below the middle of the top digit, for each count of digits.
_BELOW = {2: 128, 3: 128 + 128 * 256}


@dataclass(frozen=True)
class Setting:
    """What the lanes of a block share. extra: bits by which x is shifted to the left beyond what
    evens out the scales; None: no shift. even: instead, all lanes go to the left alike, as far as
    the largest scale of the layer or of the block wants it for one last shift, that of the levels.
    """

    digits: int
    signed: bool
    extra: int | None
    even: Literal["layer", "block"] | None = None


def digit_plan(
    runs: Runs, setting: Setting, left: IntArray, found: Found, block: int
) -> DigitPlan | None:
    """As digit_plans, of one block that has all channels of the runs; None where shifts are too far
    apart. left: (lanes,)."""
    lanes = Lanes.of([0], len(left), len(left))
    for joined in digit_plans(runs, lanes, setting, left, found, block):
        plan = joined.plan_of(0)
        assert isinstance(plan, DigitPlan)
        return plan
    return None


def digit_plans(
    runs: Runs, lanes: Lanes, setting: Setting, left: IntArray, found: Found, block: int
) -> list[JoinedPlan]:
    """The lanes of each block under one spacing of levels, not yet proven, without blocks whose
    shifts are too far apart. left: (lanes,), as DigitForm has it. found: of the lanes."""
    count, dead = setting.digits, runs.constant[lanes.channels]
    spacings = np.minimum(lanes.least(np.where(dead, 8 * count, found.shift)), 8 * count)
    commons = lanes.most(left)
    spacing, common = lanes.each(spacings), lanes.each(commons)
    multipliers = np.where(dead, 0, found.multipliers)
    multipliers[1] = np.where(dead, 1 << spacing, multipliers[1])
    parts = [*multipliers]
    if setting.signed:
        parts.append(np.where(dead, 0, found.sign))
    parts[-1] = parts[-1] - 1  # the last digit still stands in the accumulator
    constant = np.where(dead, 0, found.constant)
    offset = np.where(dead, runs.value[lanes.channels, 0] * 256 >> common, found.offset)
    shift = np.where(dead, 0, found.shift - spacing)
    x = np.array([runs.first[lanes.channels, 0], runs.last[lanes.channels, -1]]) + offset
    x = np.where(dead, offset, x) << left
    x = (x + _BELOW[count]) >> 8 * (count - 1)
    clamped = lanes.any(np.any((x < -128) | (x > 127), axis=0))
    near = lanes.most(shift) <= LAST_SHIFT
    plans = []
    for (own_spacing, own_left, held), places in _kinds(near, spacings, commons, clamped):
        some, own = lanes.some(places)
        exponents = (*range(0, own_spacing, 8)[:count], own_spacing)
        levels = _levels(np.array(parts)[:, own], constant[own], some, exponents, block)
        plan = DigitPlan(
            offset[own],
            own_left,
            own_left - left[own],
            count,
            bool(held),
            setting.signed,
            dead[own],
            Chain(levels, shift[own], runs.low, runs.high),
        )
        plans.append(JoinedPlan(some, plan, block))
    return plans


def _kinds(chosen: NDArray[np.bool_], *sides: Array) -> ItemsView[tuple[int, ...], list[int]]:
    """Of the blocks that are chosen, the places of those that have the same integers (blocks,) on
    all sides."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for place, kind in enumerate(zip(*(side.tolist() for side in sides), strict=True)):
        if chosen[place]:
            kinds.setdefault(kind, []).append(place)
    return kinds.items()


def _levels(
    parts: IntArray, constant: IntArray, lanes: Lanes, exponents: tuple[int, ...], block: int
) -> tuple[Level, ...]:
    """Of blocks of one spacing. parts: (digits, lanes). constant: (lanes,)."""
    shifts = [level - below for below, level in pairwise((0, *exponents))]
    products = split_levels(parts, exponents)
    constants = split_constants(constant, lanes, exponents, block)
    return tuple(
        Level(
            shift,
            tuple((digit, step[digit]) for digit in range(len(parts)) for step in steps),
            tuple(constant_parts(own, block)),
        )
        for shift, steps, own in zip(shifts, products, constants, strict=True)
    )


def part_plans(
    runs: Runs, lanes: Lanes, parts: int, found: Found, limit: IntArray, block: int
) -> list[JoinedPlan]:
    """The lanes of blocks whose weights are multiplied and cut into so many parts, not yet proven.
    limit: (lanes,) the largest multiplier of each."""
    dead = runs.constant[lanes.channels]
    multiplier, constant, shift = found.multipliers[0].copy(), found.constant, found.shift
    most = 8 * (parts - 1)
    # At least the shift that the parts make.
    for _ in range(most):
        low = ~dead & (shift < most) & (2 * multiplier <= limit)
        if not low.any():
            break
        multiplier = np.where(low, 2 * multiplier, multiplier)
        constant = np.where(low, 2 * constant, constant)
        shift = np.where(low, shift + 1, shift)
    spacings = np.minimum(lanes.least(np.where(dead, most, shift)), most)
    plans = []
    for (spacing,), places in _kinds(spacings >= 0, spacings):
        some, own = lanes.some(places)
        none = dead[own]
        plan = PartPlan(
            np.where(none, 0, multiplier[own]),
            np.where(none, runs.value[some.channels, 0] << spacing, constant[own]),
            (*range(0, spacing, 8)[: parts - 1], spacing),
            np.where(none, 0, shift[own] - spacing),
            runs.low,
            runs.high,
            none,
        )
        plans.append(JoinedPlan(some, plan, block))
    return plans
