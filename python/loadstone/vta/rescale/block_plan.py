# SPDX-License-Identifier: Apache-2.0
"""From the integers that a search found to the plan of one block.

In:   runs of a block's channels, what was found for each.
Out:  a DigitPlan or a PartPlan, not yet proven.
Next: plan.py and near.py prove it, and take the cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadstone.vta.rescale.levels import constant_parts, split_constant, split_levels
from loadstone.vta.rescale.proof import Chain, DigitPlan, Level, PartPlan
from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import Found

__all__ = ["LAST_SHIFT", "Setting", "digit_plan", "part_plan"]

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
    """The lanes of a block under one spacing of levels, not yet proven; None where shifts are too
    far apart. left: (lanes,) of the block, as DigitForm has it."""
    count, dead = setting.digits, runs.constant
    live = found.shift[~dead]
    spacing = int(min(live.min(), 8 * count)) if live.size else 8 * count
    exponents = (*range(0, spacing, 8)[:count], spacing)
    common = int(left.max())
    multipliers = np.where(dead, 0, found.multipliers)
    multipliers[1, dead] = 1 << spacing
    parts = [*multipliers]
    if setting.signed:
        parts.append(np.where(dead, 0, found.sign))
    parts[-1] = parts[-1] - 1  # the last digit still stands in the accumulator
    constant = np.where(dead, 0, found.constant)
    offset = np.where(dead, runs.value[:, 0] * 256 >> common, found.offset)
    shift = np.where(dead, 0, found.shift - spacing)
    if shift.max() > LAST_SHIFT:
        return None
    products = [split_levels(part, exponents) for part in parts]
    constants = split_constant(constant, exponents, block)
    levels = tuple(
        Level(
            0 if position == 0 else exponent - exponents[position - 1],
            tuple(
                (digit, step) for digit, split in enumerate(products) for step in split[position]
            ),
            () if constant is None else tuple(constant_parts(constant, block)),
        )
        for position, (exponent, constant) in enumerate(zip(exponents, constants, strict=True))
    )
    offsets = offset[:, None] << left[:, None]
    x = np.where(dead[:, None], 0, np.concatenate([runs.first[:, :1], runs.last[:, -1:]], axis=1))
    x = ((x << left[:, None]) + offsets + _BELOW[count]) >> 8 * (count - 1)
    return DigitPlan(
        offset,
        common,
        common - left,
        count,
        bool(np.any((x < -128) | (x > 127))),
        setting.signed,
        dead,
        Chain(levels, shift, runs.low, runs.high),
    )


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
