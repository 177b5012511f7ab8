# SPDX-License-Identifier: Apache-2.0
"""Plans of one lane, and runs of one channel, made by hand: for the tests of vta/integers/proof.py.

In:   multipliers, constants, shifts; the ends of runs.
Out:  a DigitPlan or PartPlan, Runs, and whether the one is proven to give the other.
Next: test_proof_limits.py has a plan at each limit, test_proof_rules.py what one rule refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from loadstone.vta.integers.levels import split_levels
from loadstone.vta.integers.proof import (
    Chain,
    DigitPlan,
    Level,
    PartPlan,
    Stair,
    prove_digits,
    prove_parts,
)
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.steps import BlockPlan

#: What two digits hold, at most and at least; and the worst that a clamped top one leaves of that.
TOP, BOTTOM = 127 * 256 + 127, -128 * 256 - 128
WORST, WORST_BELOW = 127 * 256 - 128, -128 * 256 + 127


def proven(plan: BlockPlan, runs: Runs) -> bool:
    """Of one lane."""
    prove: Any = prove_parts if isinstance(plan, PartPlan) else prove_digits
    (verdict,) = prove(plan, runs).tolist()
    return bool(verdict)


def chain_of(first: Sequence[Level], shift: int = 0, **more: Any) -> Chain:
    return Chain(tuple(first), np.array([shift]), -128, 127, **more)


def line(
    multipliers: Sequence[int] = (1, 256),
    constant: int = 0,
    *,
    shift: int = 0,
    sign: int | None = None,
    exponents: tuple[int, ...] = (0,),
    chain: Chain | None = None,
    **changed: Any,
) -> DigitPlan:
    """A plan of one lane: clamp((d0 M0 + d1 M1 (+ d2 M2) + constant) >> exponents[-1] + shift).

    sign: what the sign digit is multiplied by. exponents: of its levels; the constant is added at
    the lowest. changed: other fields of the plan."""
    own = [*multipliers] if sign is None else [*multipliers, sign]
    own[-1] -= 1  # the last digit stands in the accumulator
    split = [split_levels(np.array([multiplier]), exponents) for multiplier in own]
    form = [
        Level(
            exponent - below,
            tuple((digit, step) for digit, steps in enumerate(split) for step in steps[position]),
            (np.array([constant]),) if constant and position == 0 else (),
        )
        for position, (below, exponent) in enumerate(pairwise((0, *exponents)))
    ]
    plan = DigitPlan(
        offset=np.array([0]),
        left=0,
        right=np.array([0]),
        digits=len(multipliers),
        clamped=True,
        signed=sign is not None,
        dead=np.array([False]),
        chain=chain or chain_of(form, shift),
    )
    return replace(plan, **changed)


def parts(multiplier: int, constant: int = 0, shift: int = 0, dead: bool = False) -> PartPlan:
    """A plan of one lane whose weights are multiplied, with 8 bits between its two parts."""
    lane = (np.array([multiplier]), np.array([constant]))
    return PartPlan(*lane, (0, 8), np.array([shift]), -128, 127, np.array([dead]))


def runs_of_ends(*ends: tuple[int, int, int], tolerance: int = 0) -> Runs:
    """One channel: first and last accumulator of each run, and its output."""
    columns = np.array(ends, np.int64).T[:, None, :]
    return Runs(*columns, np.array([1.0]), 0, -128, 127, tolerance=tolerance)


def at(acc: int, value: int, tolerance: int = 0) -> Runs:
    """One channel that has one accumulator."""
    return runs_of_ends((acc, acc, value), tolerance=tolerance)


def levels(*pairs: tuple[int, int]) -> list[Level]:
    """(shift, constant) of each."""
    return [Level(shift, (), (np.array([constant]),)) for shift, constant in pairs]


def two_levels(weight: int) -> tuple[Level, ...]:
    """2 d0 + (weight + 256) d1, the highest level first."""
    last = [2, 100, 100, weight - 200]
    products = [
        (digit, np.array([w], np.int8)) for digit, w in zip((0, 1, 1, 1), last, strict=True)
    ]
    return Level(0, ((1, np.array([1], np.int8)),), ()), Level(8, tuple(products), ())


def stairs(*each: Stair) -> DigitPlan:
    """Floors of 5 plus the top digit, of which the judge reckons with 133."""
    return line(chain=chain_of(levels((0, 5)), stairs=each))


def stair(constant: int = 0, shifts: tuple[int, int] = (0, 0), add: int = 0) -> Stair:
    return Stair((np.array([constant]),), None, shifts, add, None, None)
