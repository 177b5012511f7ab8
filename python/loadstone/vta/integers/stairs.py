# SPDX-License-Identifier: Apache-2.0
"""Forms that round half to even in float32: a sum of several floors of one fine sum.

In:   runs of the channels of some blocks (runs.py).
Out:  `DigitPlan`s whose chains end in stairs, not yet proven.
Next: plan.py proves them and compares their costs.

float32(acc * scale) falls onto a tie wherever the product is within half a place of it, and a tie
goes to the even side. So the accumulator at which the output becomes n is that of a straight line,
moved up where n is odd... by what a place of float32 is worth between two powers of two. No line
gives both. But

    y = d0 M0 + d1 M1 + d2 M2 + constant        as fine as 32 bits allow
    output = (y >> u + 1) + (y + d + 2^u >> u + 1)     even and odd outputs each have a floor

and d is free for each channel. Where a place changes (at 64, 32, 16 ...) the constants do: at one
of these by the sign digit, which is -1 below, at the others by a stair on each side, held to its
own outputs. The lower part of y is summed from the lowest digit up, the rest from the highest down:

    S0 >> 8                              exactly floor((S0 + 256 S1 + 65536 S2 + 2^24 S3) / 256)
    ((S3 << 8) + S2 << 8) + S1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.vta.integers.levels import constant_limit, split_constant, split_levels
from loadstone.vta.integers.proof import Chain, DigitPlan, Level, Stair
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.stair_search import (
    DIGITS,
    HALF,
    LAST_SHIFT,
    LOST,
    Division,
    StairRange,
    StairSearch,
)

__all__ = ["stair_plans"]

_LEVELS = (0, 8, 16, 24)
_LARGEST_IMMEDIATE = (1 << 15) - 1


def stair_plans(
    runs: Runs,
    blocks: Sequence[IntArray],
    division: Division,
    block: int,
    *,
    patient: bool = False,
    largest: float | None = None,
) -> list[DigitPlan | None]:
    """A plan for each block of channels, of their numbers (lanes,); None where none was found.

    block: lanes of the device. patient: no block is given up early. largest: as StairSearch has it.
    """
    search = StairSearch(runs, blocks, division, largest)
    search.run(patient)
    return [
        _plan(search, channels, block) if (search.ok | runs.constant)[channels].all() else None
        for channels in blocks
    ]


def _plan(search: StairSearch, channels: IntArray, block: int) -> DigitPlan | None:
    """The plan of one block."""
    runs = search.runs.take(channels)
    dead, unit = runs.constant, int(search.unit[channels].max())
    signed = search.division.sign is not None
    last = np.where(dead, runs.value[:, 0] << unit, search.constants[-1, channels])
    parts = [np.where(dead, 0, row) for row in search.multipliers[:, channels]]
    if not signed:
        parts[-1] = parts[-1] - 1  # the last digit still stands in the accumulator
    split = [split_levels(part, _LEVELS) for part in parts]
    products = [
        tuple((digit, step) for digit, own in enumerate(split) for step in own[position])
        for position in range(len(_LEVELS))
    ]
    limit = constant_limit(block)
    constants = [
        (value,) if value is not None else () for value in split_constant(last, _LEVELS[:-1], block)
    ]
    if any(np.abs(value).max() > limit for own in constants for value in own):
        return None
    stairs = _stairs(search, channels, last, limit)
    if stairs is None:
        return None
    offset = np.where(dead, 0, search.offset[channels])
    x = np.concatenate([runs.first[:, :1], runs.last[:, -1:]], axis=1) + offset[:, None]
    left = int(search.left[channels].max())
    x = ((np.where(dead[:, None], 0, x) << left) + HALF) >> 16
    lowest, *upper = products
    chain = Chain(
        (Level(0, lowest, ()), Level(LOST, (), ())),
        np.zeros(len(channels), np.int64),
        runs.low,
        runs.high,
        tuple(
            Level(8 if position < 2 else 0, own, added)
            for position, (own, added) in reversed(
                list(enumerate(zip(upper, constants, strict=True)))
            )
        ),
        stairs,
    )
    clamped = bool(np.any((x < -128) | (x > 127)))
    return DigitPlan(offset, left, 0 * offset, DIGITS, clamped, signed, dead, chain)


def _stairs(
    search: StairSearch, channels: IntArray, last: IntArray, limit: int
) -> tuple[Stair, ...] | None:
    """The stairs of one block; None where a constant is none that one step can add. last: (lanes,)
    the constant of the last one, which is in the sum. limit: what one product of constants adds."""
    runs = search.runs.take(channels)
    dead, unit = runs.constant, int(search.unit[channels].max())
    signed = search.division.sign is not None
    stairs = []
    for number, step in enumerate(search.steps):
        difference = np.where(dead, 0, search.constants[number, channels] - last)
        sign = np.where(dead, 0, search.sign[number, channels])
        stair = _stair(step, runs, unit, (difference, sign if signed else None))
        held = np.abs(difference).max() <= limit and np.abs(sign).max() <= 127
        if not held or abs(stair.add) > _LARGEST_IMMEDIATE:
            return None
        stairs.append(stair)
    return tuple(stairs)


def _stair(
    step: StairRange, runs: Runs, unit: int, lanes: tuple[IntArray, IntArray | None]
) -> Stair:
    """lanes: what is added to y in this stair alone, and what the sign digit is multiplied by."""
    difference, sign = lanes
    first = min(LAST_SHIFT, unit)
    below = (step.low + step.parity) >> 1  # what the stair has at its lower edge
    inner = step.low > runs.low
    base = below if inner else 0
    return Stair(
        (difference,) if difference.any() else (),
        None if sign is None else sign.astype(np.int8),
        (first, unit + 1 - first),
        (step.parity << unit - first) - (base << unit + 1 - first),
        0 if inner else None,
        None if step.high == runs.high else ((step.high + step.parity) >> 1) - base,
    )
