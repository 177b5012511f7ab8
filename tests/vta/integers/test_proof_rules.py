# SPDX-License-Identifier: Apache-2.0
"""vta/integers/proof.py: plans that one rule alone refuses, and what VTA makes of them; plans that
are right and must not be refused; drawn plans that are right at all ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.numerics import INT32_MAX
from loadstone.vta.integers.proof import DigitPlan, prove_digits
from loadstone.vta.integers.proof import outputs as judged
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.steps import BlockPlan
from tests.repeat import times
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
    two_levels,
)

#: A plan and runs that all rules but one accept, and an accumulator at which VTA gives another
#: output than they say.
COUNTEREXAMPLES: dict[str, tuple[BlockPlan, Runs, int]] = {
    # 2^24 << 8 is 2^32, of which 32 bits keep 0.
    "fits": (line(left=8), at(1 << 24, 127), 1 << 24),
    # 1 + (2^31 - 1) is -2^31.
    "safe": (line(constant=INT32_MAX), at(1, 127), 1),
    # 0 at both ends of the run; 127 * 100 >> 13 is 1.
    "monotone": (line((100, 1), shift=13), runs_of_ends((0, 256, 0)), 127),
    # 127 at both ends of the run; between, the lower digit is -128, and 254 - 128 is 126.
    "a carry": (line((1, 254)), runs_of_ends((127, 129, 127)), 128),
    # 5 at both ends of the run, where the middle digit is 5: it is 6 between, and 7 ...
    "dead": (
        line((0, 256, 0), shift=8, offset=np.array([5 * 256])),
        runs_of_ends((0, 1 << 16, 5)),
        256,
    ),
    # The top digit is clamped to 127, and the lower one is -128: 127 * 256 - 128 - 32384 is 0.
    "what a clamp leaves": (line(constant=-WORST), at(TOP + 1, 127), TOP + 1),
    # The same below: -128 * 256 + 127 + 32641 is 0.
    "what a clamp leaves below": (line(constant=-WORST_BELOW), at(BOTTOM - 1, -128), BOTTOM - 1),
    # Nothing clamps the top digit: 65,536 further on the two digits are the same again.
    "a top digit that wraps": (line(clamped=False), runs_of_ends((127, 127 + 65536, 127)), 40_000),
    "a top digit that wraps below": (
        line(clamped=False),
        runs_of_ends((-128 - 65536, -128, -128)),
        -40_000,
    ),
    # Nothing rises here, so that -128 is not the worst of the lower digit: -127 + 22 is left.
    "a dead lane that is clamped": (
        line((-1, 0), 22, offset=np.array([TOP + 256]), dead=np.array([True])),
        at(0, 127),
        0,
    ),
    # The accumulator is halved before it is split, so that the sign digit does not change where the
    # run was cut: 0 at both ends of the run, and there, but 3 between.
    "the sign digit": (
        line((0, 1), sign=-4, right=np.array([1])),
        runs_of_ends((-2048, 100, 0)),
        -300,
    ),
}


@pytest.mark.parametrize("rule", COUNTEREXAMPLES)
def test_what_one_rule_alone_refuses_is_wrong(rule: str) -> None:
    plan, runs, acc = COUNTEREXAMPLES[rule]
    assert not proven(plan, runs)
    where = np.array([acc])
    assert device(plan, 0, where) != outputs(runs, 0, where)


# --- what is right, and must not be refused -------------------------------------------------------
#: Plans that are right, each by a rule that is easily too strict.
RIGHT: dict[str, tuple[BlockPlan, Runs]] = {
    # Of a pruned channel nothing is summed, whatever its accumulators would have been.
    "a dead lane": (
        line((1, 256, 0), offset=np.array([5]), dead=np.array([True])),
        runs_of_ends((-(1 << 40), 1 << 40, 5)),
    ),
    "a dead lane in parts that ends a level": (
        parts(1, (5 << 8) + 255, dead=True),
        runs_of_ends((-(1 << 40), 1 << 40, 5)),
    ),
    "a dead lane in parts that begins a level": (
        parts(1, 5 << 8, dead=True),
        runs_of_ends((-(1 << 31), (1 << 31) - 1, 5)),
    ),
    # A carry that the next multiplier just makes up for.
    "a carry of nothing": (line((1, 255)), runs_of_ends((127, 128, 127))),
    # Both clamps, and what lies between them.
    "a clamped top digit": (
        line(constant=128, shift=8),
        runs_of_ends((-(1 << 20), -32641, -128), (-128, 127, 0), (32384, 1 << 20, 127)),
    ),
    # What the other clamp would leave is nothing: no run goes there.
    "a top digit that is clamped above alone": (line(constant=1000, shift=8), at(TOP + 1000, 127)),
    "a top digit that is clamped below alone": (
        line(constant=-1000, shift=8),
        at(BOTTOM - 1000, -128),
    ),
    "parts": (parts(3), runs_of_ends((-300, -257, -4), (-256, -172, -3), (0, 85, 0))),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_proven(name: str) -> None:
    plan, runs = RIGHT[name]
    assert proven(plan, runs)
    ends = np.unique([runs.first, runs.last])
    np.testing.assert_array_equal(device(plan, 0, ends), outputs(runs, 0, ends))


def test_the_sign_digit_is_that_of_the_device_wherever_the_top_digit_wraps() -> None:
    """Nothing clamps the top digit, so that it is 100, then wraps; its sign does not."""
    plan = line(sign=7, clamped=False)
    acc = np.array([-(1 << 20), -300 << 8, -200 << 8, -1, 0, 100 << 8, 200 << 8, 300 << 8, 1 << 20])
    np.testing.assert_array_equal(judged(plan, acc[None]), device(plan, 0, acc)[None])


@pytest.mark.parametrize("exponents", [(0,), (0, 8), (0, 8, 16)])
@pytest.mark.parametrize("dead", [False, True])
def test_outputs_of_parts_are_what_the_device_makes(exponents: tuple[int, ...], dead: bool) -> None:
    plan, acc = replace(parts(300, 777, 1, dead), exponents=exponents), np.arange(-300, 300)
    np.testing.assert_array_equal(judged(plan, acc[None]), device(plan, 0, acc)[None])


def test_a_sign_that_no_digit_says_is_not_proven() -> None:
    """A stair multiplies what no plan without a sign digit stores."""
    signed = replace(stair(), sign=np.array([0], np.int8))
    chain = chain_of(levels((0, 5)), stairs=(signed,))
    assert proven(line(sign=0, chain=chain), at(0, 5))
    assert not proven(line(chain=chain), at(0, 5))


def right_at_ends(made: IntArray, first: int) -> Runs:
    """Runs of neighbouring accumulators, from `first` on, that are right at both ends: each as long
    as that goes. made: what VTA gives."""
    ends, begin = [], 0
    while begin < len(made):
        last = int(np.flatnonzero(made == made[begin])[-1])
        ends.append((first + begin, first + last, int(made[begin])))
        begin = last + 1
    return runs_of_ends(*ends)


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("left", [0, 1, 3])
@pytest.mark.parametrize("digits", [2, 3])
def test_a_sign_digit_may_change_within_a_run(digits: int, left: int, offset: int) -> None:
    """Both sides of where it changes become ends. The digit itself is multiplied by nothing."""
    plan = line(
        (64, 64 << 8, 64 << 16)[:digits],
        sign=0,
        exponents=tuple(range(0, 8 * digits, 8)),
        shift=6,
        left=left,
        offset=np.array([offset]),
    )
    change = -((128, 128 + 128 * 256)[digits - 2] >> left) - offset
    acc = np.arange(change - 2000, 1000)
    assert proven(plan, right_at_ends(device(plan, 0, acc), int(acc[0])))


def drawn(rng: np.random.Generator, middle: int) -> DigitPlan:
    """A plan whose multipliers are about large enough for their carries, and whose output is about
    0 where the accumulator is `middle`."""
    multipliers = [int(2 ** rng.uniform(0, 12)) - 2]
    exponents = tuple(range(0, int(rng.choice([16, 24])), 8))
    for _ in exponents[1:]:
        lacks = int(rng.choice([0, 0, 1, -1, -rng.integers(1 << 10), -rng.integers(1 << 16)]))
        multipliers.append(255 * sum(multipliers) + lacks)
    signed = bool(rng.integers(2))
    offset = int(rng.integers(-2000, 2000))
    left, right = int(rng.integers(0 if signed else -2, 3)), int(rng.integers(2))
    x = int((middle + offset) * 2.0 ** (left - right))
    level = -(x * multipliers[-1] >> exponents[-1])
    plan = line(
        multipliers,
        level + int(rng.integers(-(1 << 16), 1 << 16)),
        shift=int(rng.integers(0, 6)),
        exponents=exponents,
        sign=int(rng.integers(-100, 100)) if signed else None,
        offset=np.array([offset]),
        left=left,
        right=np.array([right]),
        clamped=bool(rng.integers(2)),
    )
    if rng.integers(3):
        return plan
    floors = tuple(
        replace(
            stair(int(rng.integers(-999, 999)), (int(rng.integers(1, 9)), 2), int(rng.integers(9))),
            sign=rng.integers(-100, 100, 1).astype(np.int8) if signed else None,
            low=int(rng.integers(-90, 0)) if rng.integers(2) else None,
            high=int(rng.integers(0, 200)) if rng.integers(2) else None,
        )
        for _ in range(2)
    )
    upper = two_levels(int(rng.integers(200, 300))) if rng.integers(2) else ()
    return replace(plan, chain=replace(plan.chain, upper=upper, stairs=floors))


def test_drawn_plans_that_are_right_at_all_ends_are_proven_only_where_they_are_right() -> None:
    """Most of these are wrong somewhere between, and few are so by much."""
    rng = np.random.default_rng(0)
    right = refused = 0
    for _ in range(times(1000, 40_000)):
        first = int(rng.choice([-40_000, -4000, -200, 0, 30_000])) + int(rng.integers(2000))
        plan = drawn(rng, first + 600)
        acc = np.arange(first, first + 1200)
        made = device(plan, 0, acc)
        runs = right_at_ends(made, first)
        wrong = bool((made != outputs(runs, 0, acc)).any())
        if plan.clamped or plan.digits > 2:  # no digit is more than a byte
            np.testing.assert_array_equal(judged(plan, acc[None]), made[None])
        if proven(plan, runs):
            assert not wrong
            right += 1
        refused += wrong
    assert right > 150
    assert refused > 60


# --- lanes ----------------------------------------------------------------------------------------
def side_by_side(some: Sequence[Any]) -> Any:
    """Plans or runs of one lane in common arrays: of one form, that of the first."""
    first = some[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(some)
    if isinstance(first, tuple):
        return tuple(side_by_side(each) for each in zip(*some, strict=True))
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [f.name for f in dataclasses.fields(first)]
        values = {n: side_by_side([getattr(each, n) for each in some]) for n in names}
        return replace(first, **values)  # type: ignore[type-var]
    return first


@pytest.mark.parametrize("left", [-1, 0, 8])
def test_lanes_know_nothing_of_each_other(left: int) -> None:
    """Each is judged as if it were alone: those that are proven beside those that one rule alone
    refuses."""
    plans, runs = [], []
    changes: list[tuple[dict[str, Any], IntArray]] = [
        ({}, np.array([0, 3])),
        ({"right": np.array([1])}, np.array([-8, 9])),
        ({"right": np.array([3])}, np.array([-64, 64])),
        ({"right": np.array([-1])}, np.array([0, 1])),
        ({"offset": np.array([INT32_MAX])}, np.array([0, 1])),
        ({"offset": np.array([-100])}, np.array([-5, 5])),
        ({"dead": np.array([True]), "offset": np.array([7])}, np.array([-9, 9])),
        ({}, np.array([INT32_MAX - 1, INT32_MAX])),
        ({}, np.array([-INT32_MAX - 1, -INT32_MAX])),
        ({"chain": line((1, 254)).chain}, np.array([0, 300])),
        ({"chain": line((1, 255), shift=5).chain}, np.array([-7, 0])),
        ({"chain": line((1, 255), shift=-1).chain}, np.array([0, 1])),
    ]
    for fields, acc in changes:
        plan = line((1, 255), left=left, **fields)
        made = device(plan, 0, acc)
        for value in (made, made + np.array([0, 1])):  # the second is wrong at its end
            plans.append(plan)
            ends = ((int(a), int(a), int(v)) for a, v in zip(acc, value, strict=True))
            runs.append(runs_of_ends(*ends))
    alone = [proven(plan, its) for plan, its in zip(plans, runs, strict=True)]
    assert 6 <= sum(alone) <= len(alone) - 12
    assert prove_digits(side_by_side(plans), side_by_side(runs)).tolist() == alone
    for k in range(len(plans)):  # and whatever the others are, those of its half are
        others = [plans[k], *plans[: k // 2]], [runs[k], *runs[: k // 2]]
        assert prove_digits(side_by_side(others[0]), side_by_side(others[1]))[0] == alone[k]
