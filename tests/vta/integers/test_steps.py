# SPDX-License-Identifier: Apache-2.0
"""vta/integers/steps.py: cycles of each form behind a sum, counted by hand, and its name."""

from __future__ import annotations

import numpy as np

from loadstone.vta.integers.proof import Chain, DigitPlan, Level, PartPlan, Stair
from loadstone.vta.integers.steps import name_of, tail_steps

ONE = np.ones(16, np.int8)
NONE = np.zeros(16, np.int64)
ALIVE = np.zeros(16, np.bool_)


def digits(chain: Chain, count: int = 2, **of: bool) -> DigitPlan:
    return DigitPlan(
        NONE, 0, NONE, count, of.get("clamped", False), of.get("signed", False), ALIVE, chain
    )


def test_two_digits() -> None:
    levels = (
        Level(0, ((0, ONE), (1, ONE)), (NONE + 5,)),
        Level(8, ((0, ONE), (1, ONE)), ()),
        Level(8, ((1, ONE),), ()),
    )
    plan = digits(Chain(levels, NONE + 6, -128, 127), clamped=True)
    # Clear and bias; add, shift, clamp of the digit; 5 products and a constant; shifts; clamp.
    assert tail_steps(plan, 9, 16) == 2 + 9 + 4 + 6 + 2 + 1 + 2
    assert name_of(plan) == "D2"
    apart = digits(Chain(levels, np.arange(16), -128, 127))
    assert tail_steps(apart, 9, 16) == 2 + 9 + 2 + 6 + 2 + 2 + 2  # the last shift is a tile


def test_stairs_are_a_tile_and_an_addition_each() -> None:
    stair = Stair((), None, (15, 1), 0, None, None)
    chain = Chain((Level(0, ((0, ONE),), ()),), NONE, -128, 127, stairs=(stair, stair))
    plan = digits(chain, 3, signed=True)
    assert name_of(plan) == "D3+s/2"
    without = digits(Chain(chain.levels, NONE, -128, 127), 3, signed=True)
    # Clear and add the upper levels; clear, copy and add a stair; two shifts of each stair.
    assert tail_steps(plan, 0, 16) - tail_steps(without, 0, 16) == 3 + 5 + 2 * 2


def test_parts_repeat_the_sum() -> None:
    plan = PartPlan(NONE + 3, NONE + 1, (0, 8, 16, 24), NONE, -128, 127, ALIVE)
    assert name_of(plan) == "P4"
    assert tail_steps(plan, 5, 16) - tail_steps(plan, 4, 16) == 4
