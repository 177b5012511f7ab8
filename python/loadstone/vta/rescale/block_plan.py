# SPDX-License-Identifier: Apache-2.0
"""From the integers that a search found to the plans of blocks.

In:   runs of a block's channels, what was found for each.
Out:  DigitPlans and PartPlans, not yet proven.
Next: plan.py and near.py prove it, and take the cheapest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadstone.vta.rescale.levels import constant_parts, split_constant, split_levels
from loadstone.vta.rescale.proof import Chain, DigitPlan, Int8Array, Level, PartPlan
from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import Found

__all__ = ["LAST_SHIFT", "Setting", "digit_plan", "digit_plans", "part_plan"]

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
    """As digit_plans, of one block. left: (lanes,)."""
    (plan,) = digit_plans(runs, setting, left, found, [(0, len(left))], block)
    return plan


def digit_plans(
    runs: Runs,
    setting: Setting,
    left: IntArray,
    found: Found,
    spans: Sequence[tuple[int, int]],
    block: int,
) -> list[DigitPlan | None]:
    """The lanes of each block under one spacing of levels, not yet proven; None where shifts are
    too far apart. left: (lanes,) of all blocks, as DigitForm has it. spans: of each block, its
    first lane and the one behind its last: neighbours, from 0 on."""
    count, dead = setting.digits, runs.constant
    starts, lengths = [first for first, _ in spans], [last - first for first, last in spans]
    spacings = np.minimum.reduceat(np.where(dead, 8 * count, found.shift), starts)
    spacings = np.minimum(spacings, 8 * count)
    commons = np.maximum.reduceat(left, starts)
    spacing, common = np.repeat(spacings, lengths), np.repeat(commons, lengths)
    multipliers = np.where(dead, 0, found.multipliers)
    multipliers[1] = np.where(dead, 1 << spacing, multipliers[1])
    parts = [*multipliers]
    if setting.signed:
        parts.append(np.where(dead, 0, found.sign))
    parts[-1] = parts[-1] - 1  # the last digit still stands in the accumulator
    constant = np.where(dead, 0, found.constant)
    offset = np.where(dead, runs.value[:, 0] * 256 >> common, found.offset)
    shift = np.where(dead, 0, found.shift - spacing)
    x = np.concatenate([runs.first[:, :1], runs.last[:, -1:]], axis=1) + offset[:, None]
    x = np.where(dead[:, None], offset[:, None], x) << left[:, None]
    x = (x + _BELOW[count]) >> 8 * (count - 1)
    outside = np.any((x < -128) | (x > 127), axis=1)
    levels = _block_levels(np.array(parts), spacings, spans, count)
    plans: list[DigitPlan | None] = []
    for number, (first, last) in enumerate(spans):
        lanes = slice(first, last)
        if shift[lanes].max() > LAST_SHIFT:
            plans.append(None)
            continue
        exponents = _exponents(count, int(spacings[number]))
        constants = split_constant(constant[lanes], exponents, block)
        steps = np.diff(exponents, prepend=0).tolist()
        chain = tuple(
            Level(step, products, () if own is None else tuple(constant_parts(own, block)))
            for step, products, own in zip(steps, levels[number], constants, strict=True)
        )
        plans.append(
            DigitPlan(
                offset[lanes],
                int(commons[number]),
                common[lanes] - left[lanes],
                count,
                bool(outside[lanes].any()),
                setting.signed,
                dead[lanes],
                Chain(chain, shift[lanes], runs.low, runs.high),
            )
        )
    return plans


def _exponents(count: int, spacing: int) -> tuple[int, ...]:
    """Of the levels for so many digits: bytes as long as they are below the last one."""
    return (*range(0, spacing, 8)[:count], spacing)


def _block_levels(
    parts: IntArray, spacings: IntArray, spans: Sequence[tuple[int, int]], count: int
) -> list[list[tuple[tuple[int, Int8Array], ...]]]:
    """The products of each block's levels: (number of a digit, its multiplier in each lane). parts:
    (digits, lanes). Blocks of one spacing are split together."""
    levels: list[list[tuple[tuple[int, Int8Array], ...]]] = [[] for _ in spans]
    for spacing in np.unique(spacings).tolist():
        numbers = np.flatnonzero(spacings == spacing).tolist()
        lanes = np.concatenate([np.arange(*spans[number]) for number in numbers])
        starts = np.cumsum([0, *(spans[number][1] - spans[number][0] for number in numbers)])
        for steps in split_levels(parts[:, lanes], _exponents(count, spacing)):
            # Of what the lanes take together, a block has the steps that are not nothing.
            there = [np.logical_or.reduceat(step != 0, starts[:-1], axis=1) for step in steps]
            for at, number in enumerate(numbers):
                own = slice(starts[at], starts[at + 1])
                levels[number].append(
                    tuple(
                        (digit, step[digit, own])
                        for digit in range(len(parts))
                        for step, some in zip(steps, there, strict=True)
                        if some[digit, at]
                    )
                )
    return levels


def part_plan(runs: Runs, parts: int, found: Found, limit: IntArray) -> PartPlan:
    """The lanes of a block whose weights are multiplied and cut into so many parts, not yet proven.
    limit: (lanes,) the largest multiplier of each."""
    dead = runs.constant
    multiplier, constant, shift = found.multipliers[0].copy(), found.constant, found.shift
    # At least the shift that the parts make.
    for _ in range(8 * (parts - 1)):
        low = ~dead & (shift < 8 * (parts - 1)) & (2 * multiplier <= limit)
        if not low.any():
            break
        multiplier = np.where(low, 2 * multiplier, multiplier)
        constant = np.where(low, 2 * constant, constant)
        shift = np.where(low, shift + 1, shift)
    spacing = int(min(shift[~dead].min(), 8 * (parts - 1))) if not dead.all() else 8 * (parts - 1)
    exponents = (*range(0, spacing, 8)[: parts - 1], spacing)
    return PartPlan(
        np.where(dead, 0, multiplier),
        np.where(dead, runs.value[:, 0] << spacing, constant),
        exponents,
        np.where(dead, 0, shift - spacing),
        runs.low,
        runs.high,
        dead,
    )
