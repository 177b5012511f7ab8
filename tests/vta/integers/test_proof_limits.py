# SPDX-License-Identifier: Apache-2.0
"""vta/integers/proof.py, rule by rule: what lies one below a limit, at it, and one beyond."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from loadstone.numerics import INT32_MAX, INT32_MIN
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.steps import BlockPlan
from tests.vta.integers.made import device, outputs
from tests.vta.integers.plans import (
    BOTTOM,
    TOP,
    WORST,
    WORST_BELOW,
    at,
    chain_of,
    levels,
    line,
    parts,
    proven,
    runs_of_ends,
    stair,
    stairs,
    two_levels,
)

Case = Callable[[int], tuple[BlockPlan, Runs]]
HALF = INT32_MAX // 2
#: What the judge reckons with of the form (1, 256): 128 that stand there, and all products.
OF_LINE = 128 + 128 * 256

#: A plan for each rule, so many beyond its limit.
LIMITS: dict[str, Case] = {
    # fits: what stands in the accumulator until it is split
    "the last accumulator": lambda more: (
        line(offset=np.array([-1000])),
        at(INT32_MAX + more, 127),
    ),
    "the first accumulator": lambda more: (
        line(offset=np.array([1000])),
        at(-INT32_MAX - more, -128),
    ),
    "the offset": lambda more: (line(offset=np.array([HALF + more])), at(0, 127)),
    "the offset below 0": lambda more: (line(offset=np.array([-HALF - more])), at(0, -128)),
    "the last accumulator and its offset": lambda more: (
        line(offset=np.array([1000])),
        at(INT32_MAX - 1256 + more, 127),
    ),
    "the first accumulator and its offset": lambda more: (
        line(offset=np.array([-1000])),
        at(1256 - INT32_MAX - more, -128),
    ),
    "an accumulator that goes to the left": lambda more: (
        line(left=8),
        at((1 << 23) - 2 + more, 127),
    ),
    "an accumulator that goes to the right": lambda more: (
        line(left=-8),
        at(INT32_MAX - 256 + more, 127),
    ),
    "the last accumulator of several runs": lambda more: (
        line(offset=np.array([-1000])),
        runs_of_ends((1000, 1000, 0), (INT32_MAX + more, INT32_MAX + more, 127)),
    ),
    "the first accumulator of several runs": lambda more: (
        line(offset=np.array([1000])),
        runs_of_ends((-INT32_MAX - more, -INT32_MAX - more, -128), (-1000, -1000, 0)),
    ),
    "the offset of a dead lane that goes to the left": lambda more: (
        line(left=8, offset=np.array([(1 << 23) - 2 + more]), dead=np.array([True])),
        at(0, 127),
    ),
    "the last accumulator of several runs that goes to the left": lambda more: (
        line(left=8),
        runs_of_ends((0, 0, 0), ((1 << 23) - 2 + more, (1 << 23) - 2 + more, 127)),
    ),
    "the first accumulator of several runs that goes to the left": lambda more: (
        line(left=8),
        runs_of_ends((2 - (1 << 23) - more, 2 - (1 << 23) - more, -128), (0, 0, 0)),
    ),
    # shifts
    "a lane's shift before the split": lambda more: (line(right=np.array([-more])), at(0, 0)),
    "the most of a lane's shift": lambda more: (line(right=np.array([31 + more])), at(0, 0)),
    "a shift to the left": lambda more: (line(left=31 + more), at(0, 0)),
    "a shift to the right": lambda more: (line(left=-31 - more), at(0, 0)),
    "a shift to the right with a sign digit": lambda more: (line(sign=0, left=-more), at(0, 0)),
    "a level's shift": lambda more: (line(chain=chain_of(levels((-more, 0)))), at(0, 0)),
    "a shift of the second accumulator": lambda more: (
        line(chain=chain_of(levels((0, 0)), upper=levels((-more, 0)))),
        at(0, 0),
    ),
    "all levels' shifts": lambda more: (
        line(chain=chain_of(levels((0, 0), (16, 0), (15 + more, 0)))),
        at(0, 0),
    ),
    "shifts of both accumulators": lambda more: (
        line(chain=chain_of(levels((0, 0), (8, 0)), upper=levels((0, 0), (23 + more, 0)))),
        at(0, 0),
    ),
    "a stair's first shift": lambda more: (stairs(stair(-5, (-more, 1))), at(0, 0)),
    "a stair's second shift": lambda more: (stairs(stair(-5, (1, -more))), at(0, 0)),
    "the most of a stair's first shift": lambda more: (stairs(stair(0, (31 + more, 0))), at(0, 0)),
    "the most of a stair's second shift": lambda more: (stairs(stair(0, (0, 31 + more))), at(0, 0)),
    "the last shift": lambda more: (line(shift=-more), at(0, 0)),
    "the last shift of a dead lane": lambda more: (
        line(shift=-more, dead=np.array([True])),
        at(0, 0),
    ),
    "the most of the last shift": lambda more: (line(shift=31 + more), at(0, 0)),
    # safe: what stands there afterwards, whatever the digits are
    "a constant": lambda more: (line(constant=INT32_MAX - OF_LINE + more), at(0, 127)),
    "a constant below 0": lambda more: (line(constant=OF_LINE - INT32_MAX - more), at(0, -128)),
    "the level before the last": lambda more: (
        line(chain=chain_of(levels((0, INT32_MAX - 128 + more), (8, 0)))),
        at(0, 127),
    ),
    "what a shift leaves of the level below": lambda more: (
        line(chain=chain_of(levels((0, 1 << 20), (8, INT32_MAX - 4097 + more)))),
        at(0, 127),
    ),
    "the second accumulator": lambda more: (
        line(
            chain=chain_of(
                levels((0, 5)), upper=levels((0, 1 << 22), (8, INT32_MAX - (1 << 30) - 133 + more))
            )
        ),
        at(0, 127),
    ),
    "the second accumulator in front of stairs": lambda more: (
        line(
            chain=chain_of(
                levels((0, 5)),
                upper=levels((0, INT32_MAX - 133 + more)),
                stairs=(stair(),),
            )
        ),
        at(0, 127),
    ),
    "a stair's constant": lambda more: (
        stairs(stair(INT32_MAX - 133 + more, (1, 0))),
        at(0, 127),
    ),
    "a stair's sign": lambda more: (
        line(
            sign=0,
            chain=chain_of(
                levels((0, 5)),
                stairs=(
                    replace(
                        stair(INT32_MAX - 133 - 100 + more, (1, 0)), sign=np.array([-100], np.int8)
                    ),
                ),
            ),
        ),
        at(0, 127),
    ),
    "what is added between a stair's shifts": lambda more: (
        stairs(stair(0, (4, 1), INT32_MAX - 9 + more)),
        at(0, 127),
    ),
    "the sum of two stairs": lambda more: (
        stairs(stair(INT32_MAX - 266 + more), stair()),
        at(0, 127),
    ),
    "the sum of two stairs, one of which is shifted first": lambda more: (
        stairs(stair(INT32_MAX - 133 - 67 + more), stair(0, (1, 0))),
        at(0, 127),
    ),
    "the sum of two stairs, one of which is shifted last": lambda more: (
        stairs(stair(INT32_MAX - 133 - 67 + more), stair(0, (0, 1))),
        at(0, 127),
    ),
    "the sum of two stairs, one of which is held above": lambda more: (
        stairs(replace(stair(), low=INT32_MAX - 133 + more), stair()),
        at(0, 127),
    ),
    "the sum of two stairs, one of which is held below": lambda more: (
        stairs(replace(stair(), high=133 - INT32_MAX - more), stair()),
        at(0, -128),
    ),
    # monotone
    "the second multiplier": lambda more: (line((4, 255 * 4 - more)), at(0, 0)),
    "the third multiplier": lambda more: (line((1, 256, 255 * 257 - more)), at(0, 0)),
    "a multiplier of the second accumulator": lambda more: (
        line(chain=chain_of(levels((0, 0), (8, 0)), upper=two_levels(254 - more))),
        at(0, 0),
    ),
    "a lowest multiplier of 0": lambda more: (line((-more, 256)), at(0, 0)),
    "a top multiplier of 0": lambda more: (line((0, -more)), at(0, 0)),
    # what the output may be
    "one level above": lambda more: (line(), at(5, 6 + more, tolerance=1)),
    "one level below": lambda more: (line(), at(5, 4 - more, tolerance=1)),
    "the first end of a run": lambda more: (line(shift=3), runs_of_ends((8 - more, 15, 1))),
    "the last end of a run": lambda more: (line(shift=3), runs_of_ends((8, 15 + more, 1))),
    # what a byte holds
    "a top digit that nothing clamps": lambda more: (
        line(clamped=False),
        at(TOP + more, 127),
    ),
    "a top digit below 0 that nothing clamps": lambda more: (
        line(clamped=False),
        at(BOTTOM - more, -128),
    ),
    "the least behind a clamped top digit": lambda more: (
        line(constant=127 - WORST - more),
        at(TOP + 1000, 127),
    ),
    "the most behind one clamped below": lambda more: (
        line(constant=-128 - WORST_BELOW + more),
        at(BOTTOM - 1000, -128),
    ),
    "the least behind a clamped top digit, where the sign digit is 0": lambda more: (
        line(constant=127 - WORST - more, sign=1000),
        at(TOP + 1000, 127),
    ),
    "the most behind one clamped below, where the sign digit is -1": lambda more: (
        line(constant=1000 - 128 - WORST_BELOW + more, sign=1000),
        at(BOTTOM - 1000, -128),
    ),
    # weights that are multiplied
    "the sum in parts": lambda more: (parts(1, (INT32_MAX << 8) + 255 + more), at(0, 127)),
    "the sum in parts below 0": lambda more: (parts(1, (INT32_MIN << 8) - more), at(0, -128)),
    "the last of several sums in parts": lambda more: (
        parts(256),
        runs_of_ends((0, 0, 0), (INT32_MAX + more, INT32_MAX + more, 127)),
    ),
    "the first of several sums in parts": lambda more: (
        parts(256),
        runs_of_ends((INT32_MIN - more, INT32_MIN - more, -128), (0, 0, 0)),
    ),
    "the last of a run of sums in parts": lambda more: (
        parts(512),
        runs_of_ends((0, 0, 0), (1000, (1 << 30) - 1 + more, 127)),
    ),
    "the first of a run of sums in parts": lambda more: (
        parts(512),
        runs_of_ends((-(1 << 30) - more, -1000, -128), (0, 0, 0)),
    ),
    "the sum in three parts": lambda more: (
        replace(parts(1, (INT32_MAX << 16) + 65535 + more), exponents=(0, 8, 16)),
        at(0, 127),
    ),
    "the floor of three parts": lambda more: (
        replace(parts(1, (6 << 18) - 1 + more, 2), exponents=(0, 8, 16)),
        at(0, 5),
    ),
    "an accumulator in parts": lambda more: (parts(1), at(INT32_MAX + more, 127)),
    "an accumulator in parts below 0": lambda more: (parts(1), at(INT32_MIN - more, -128)),
    "the last accumulator in parts": lambda more: (
        parts(1),
        runs_of_ends((0, 0, 0), (INT32_MAX + more, INT32_MAX + more, 127)),
    ),
    "the first accumulator in parts": lambda more: (
        parts(1),
        runs_of_ends((INT32_MIN - more, INT32_MIN - more, -128), (0, 0, 0)),
    ),
    "the largest multiplier of weights": lambda more: (parts(INT32_MAX + more), at(0, 0)),
    "a constant in parts": lambda more: (
        replace(parts(1 << 30, (1 << 62) + more), exponents=(0, 31)),
        at(-1, 127),
    ),
    "a constant in parts below 0": lambda more: (
        replace(parts(1 << 30, -(1 << 62) - more), exponents=(0, 31)),
        at(1, -128),
    ),
    "an exponent of parts": lambda more: (replace(parts(1), exponents=(0, 31 + more)), at(0, 0)),
    "the least exponent of parts": lambda more: (replace(parts(1), exponents=(-more,)), at(0, 0)),
    "the most of the last shift of parts": lambda more: (parts(1, 0, 31 + more), at(0, 0)),
    "the first end of a run in parts": lambda more: (
        parts(256, shift=3),
        runs_of_ends((8 - more, 15, 1)),
    ),
    "the last end of a run in parts": lambda more: (
        parts(256, shift=3),
        runs_of_ends((8, 15 + more, 1)),
    ),
    "a multiplier of weights": lambda more: (parts(-more), at(0, 0)),
    "the last shift of parts": lambda more: (parts(256, 0, -more), at(0, 0)),
}


@pytest.mark.parametrize("rule", LIMITS)
def test_what_is_at_a_limit_is_proven_and_right_and_what_is_beyond_is_not(rule: str) -> None:
    below, within, beyond = (LIMITS[rule](more) for more in (-1, 0, 1))
    for plan, runs in (below, within):
        assert proven(plan, runs)
        acc = np.unique([runs.first, runs.last])
        apart = np.abs(device(plan, 0, acc) - outputs(runs, 0, acc))
        assert apart.max() <= runs.tolerance
    assert not proven(*beyond)
