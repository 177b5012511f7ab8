# SPDX-License-Identifier: Apache-2.0
"""Whether a plan's integers give a rule's output, for every accumulator: a judge of its own.

In:   the integers that the device will use (weights of each level, shifts, clamps), and the runs of
      the rule.
Out:  for each lane whether it is proven.
Next: plan.py gives out nothing else.

It knows nothing of how the integers were found. It does what the device does with them, at the
first and the last accumulator of every run, and shows that what lies between cannot be otherwise,
because no multiplier is too small for what the digits below it lose on a carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import INT32_MAX, INT32_MIN
from loadstone.vta.integers.runs import IntArray, Runs

__all__ = [
    "Chain",
    "DigitPlan",
    "Level",
    "PartPlan",
    "Stair",
    "outputs",
    "prove_digits",
    "prove_parts",
]

Bools = NDArray[np.bool_]
Int8Array = NDArray[np.int8]
#: Of 32 or of 64 bits.
Integers: TypeAlias = "NDArray[np.signedinteger[Any]]"  # NumPy 1.21 cannot write it
#: From here down the top digit is negative, for each count of digits.
_HALF = {2: 128, 3: 128 + 128 * 256}
#: A shift of 32 bits, and all shifts of a chain together: what 64 bits then hold is no more than
#: what the device computes.
_MOST_SHIFT = 31


@dataclass(frozen=True, eq=False)
class Level:
    """One level of a chain: a shift of the sum so far, then what is added to it.

    products: (number of a digit, its multiplier in each lane); constants: (lanes,) each.
    """

    shift: int
    products: tuple[tuple[int, Int8Array], ...]
    constants: tuple[IntArray, ...]


@dataclass(frozen=True, eq=False)
class Stair:
    """One of several floors whose sum is the output: those of even outputs, say, below 64.

    constants: (lanes,) each, added to the sum. sign: (lanes,) what the sign digit is multiplied by;
    None: nothing. shifts: of all lanes, with `add` between them. low, high: a clamp, or None.
    """

    constants: tuple[IntArray, ...]
    sign: Int8Array | None
    shifts: tuple[int, int]
    add: int
    low: int | None
    high: int | None

    @property
    def shape(self) -> tuple[object, ...]:
        """What stairs of one kernel have in common."""
        return (self.sign is not None, self.shifts, self.add, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Chain:
    """Levels, from the lowest; then a shift of each lane, and a clamp.

    upper: levels of a second accumulator, from the highest, each after a shift to the left; it is
    added to the first. stairs: floors of what is then there, in place of one shift.
    """

    levels: tuple[Level, ...]
    shift: IntArray
    low: int
    high: int
    upper: tuple[Level, ...] = ()
    stairs: tuple[Stair, ...] = ()

    @property
    def exponents(self) -> tuple[int, ...]:
        """Of each level: how far the lowest one has been shifted there."""
        return tuple(np.cumsum([level.shift for level in self.levels]).tolist())

    @property
    def weighted_levels(self) -> list[tuple[int, Level]]:
        """All levels with their exponents."""
        pairs = list(zip(self.exponents, self.levels, strict=True))
        exponent = self.exponents[-1]
        for level in reversed(self.upper):
            pairs.append((exponent, level))
            exponent += level.shift
        return pairs


@dataclass(frozen=True, eq=False)
class DigitPlan:
    """A block of lanes whose accumulators are split into digits.

    offset: added to the accumulator. left, right: what shifts it before it is split: all lanes to
    the left (or, below 0, to the right), then each to the right. digits: without the sign digit.
    clamped: the top digit is held to a byte. signed: one more digit, -1 where the top one is
    negative. dead: lanes whose weights and bias are zeroed. The chain begins with the last digit,
    which still stands in the accumulator.
    """

    offset: IntArray
    left: int
    right: IntArray
    digits: int
    clamped: bool
    signed: bool
    dead: Bools
    chain: Chain

    @property
    def stored(self) -> int:
        """Digits that go through memory."""
        return self.digits + self.signed


@dataclass(frozen=True, eq=False)
class PartPlan:
    """A block of lanes whose weights are multiplied: the sum is made once for each part.

    multiplier: (lanes,) of weights and bias. constant: (lanes,) added to that. exponents: of the
    parts. dead: lanes whose weights are zeroed.
    """

    multiplier: IntArray
    constant: IntArray
    exponents: tuple[int, ...]
    shift: IntArray
    low: int
    high: int
    dead: Bools


def prove_digits(plan: DigitPlan, runs: Runs) -> Bools:
    """(lanes,): whether the lane gives the rule's output, or one within the runs' tolerance,
    wherever its accumulator can be. runs: of the lanes of the plan, in order."""
    if not _has_meaning(plan):
        return np.zeros(len(plan.dead), np.bool_)
    if plan.signed:  # the sign digit may change within a run: both sides of that are ends, too
        runs = runs.cut(-plan.offset - (_HALF[plan.digits] >> plan.left))
    # Runs ascend: what fits at the first and the last accumulator fits between them.
    reach = np.where(plan.dead, 0, np.array([runs.first[:, 0], runs.last[:, -1]]))
    fits = (np.abs(reach) <= INT32_MAX).all(axis=0) & (np.abs(plan.offset) <= INT32_MAX // 2)
    reach = (reach + plan.offset) << max(0, plan.left)
    fits &= (np.abs(reach) <= INT32_MAX - 256).all(axis=0)
    fits &= _is_shift(plan.right) & _is_shift(plan.chain.shift)
    safe = _safe(plan)
    # Where all of it fits, 32 bits say the same as 64, in less time.
    narrow = bool((fits & safe).all())
    start = _start(plan, _side_by_side(runs.first, runs.last, narrow))
    wanted = _side_by_side(runs.value, runs.value, narrow)
    digits, exact = _split(plan, start)
    value = _run(plan.chain, digits)
    alike = np.abs(value - wanted) <= runs.tolerance if runs.tolerance else value == wanted
    proven = fits & safe & (plan.dead | _monotone(plan))
    if not exact.all():
        proven &= _saturated(plan, runs, (~exact & (start < 0), ~exact & (start >= 0)))
    proven &= alike.all(axis=1)
    if plan.signed:
        at_first, at_last = np.split(digits[-1], 2, axis=1)
        proven &= (at_first == at_last).all(axis=1)
    return np.asarray(proven, np.bool_)


def _has_meaning(plan: DigitPlan) -> bool:
    """Whether all lanes' shifts are some, and each digit that is used is there. A run can be cut
    where the sign digit changes only as long as nothing but a lane's own shift loses bits."""
    chain = plan.chain
    if plan.signed and plan.left < 0:
        return False
    if not plan.signed and any(stair.sign is not None for stair in chain.stairs):
        return False
    shifts = [abs(plan.left), *(level.shift for level in (*chain.levels, *chain.upper))]
    shifts += [shift for stair in chain.stairs for shift in stair.shifts]
    together = sum(level.shift for level in (*chain.levels, *chain.upper))
    return min(shifts) >= 0 and max(*shifts, together) <= _MOST_SHIFT


def _is_shift(lanes: IntArray) -> Bools:
    """(lanes,): whether a shift of each lane is one."""
    return np.asarray((lanes >= 0) & (lanes <= _MOST_SHIFT))


def _side_by_side(one: IntArray, other: IntArray, narrow: bool) -> Integers:
    """(lanes, n) each, in 32 bits or in 64."""
    kind = np.int32 if narrow else np.int64
    return np.concatenate([one, other], axis=1, dtype=kind, casting="same_kind")


def _start(plan: DigitPlan, acc: Integers) -> Integers:
    """What is split into digits, of accumulators (lanes, n)."""
    acc[plan.dead] = 0
    acc += plan.offset.astype(acc.dtype)[:, None]
    if plan.left:
        acc = acc << plan.left if plan.left > 0 else acc >> -plan.left
    if plan.right.any():
        acc = acc >> plan.right.astype(acc.dtype)[:, None]
    return acc


def outputs(plan: DigitPlan | PartPlan, acc: IntArray) -> IntArray:
    """What the device makes of accumulators (lanes, n)."""
    if isinstance(plan, PartPlan):
        acc = np.where(plan.dead[:, None], 0, acc)
        shift = (plan.exponents[-1] + plan.shift)[:, None]
        total = (acc * plan.multiplier[:, None] + plan.constant[:, None]) >> shift
        return np.asarray(_held(total, plan.low, plan.high), np.int64)
    digits, _ = _split(plan, _start(plan, acc.copy()))
    return np.asarray(_run(plan.chain, digits), np.int64)


def _split(plan: DigitPlan, x: Integers) -> tuple[list[Integers], Bools]:
    """The bytes that the device stores, and where no clamp changed the top one. Where the top digit
    does not fit a byte and nothing clamps it, it is wrapped as the store does it."""
    digits = []
    for _ in range(plan.digits - 1):
        digits.append(_byte(x))
        x = (x + 128) >> 8
    digits.append(_held(x, -128, 127) if plan.clamped else _byte(x))
    exact = digits[-1] == x
    if plan.signed:
        digits.append(_held(x, -1, 0))
    return digits, exact


def _held(x: Integers, low: int, high: int) -> Integers:
    return np.asarray(x.clip(low, high))


def _byte(x: Integers) -> Integers:
    """The low eight bits, as a store keeps them."""
    return x.astype(np.int8).astype(x.dtype)


def _run(chain: Chain, digits: Sequence[Integers]) -> Integers:
    """What the device makes of digits (lanes, n), where no sum leaves 32 bits."""
    total = digits[-1]
    for level in chain.levels:
        total = _added(total >> level.shift, level, digits)
    if chain.upper:
        upper = np.zeros_like(total)
        for level in chain.upper:
            upper = _added(upper << level.shift, level, digits)
        total = total + upper
    if chain.stairs:
        floors = [_stair(stair, total, digits[-1]) for stair in chain.stairs]
        total = sum(floors[1:], floors[0])
    elif chain.shift.any():
        total = total >> chain.shift.astype(total.dtype)[:, None]
    return _held(total, chain.low, chain.high)


def _added(total: Integers, level: Level, digits: Sequence[Integers]) -> Integers:
    """The sum, which is changed, after a level's products and constants."""
    for digit, weights in level.products:
        total += digits[digit] * weights.astype(total.dtype)[:, None]
    for constant in level.constants:
        total += constant.astype(total.dtype)[:, None]
    return total


def _safe(plan: DigitPlan) -> Bools:
    """(lanes,): whether no partial sum of the chain can leave 32 bits, whatever bytes its digits
    are: inside a run they may be any, so that its ends say nothing of that."""
    chain, safe = plan.chain, np.ones(len(plan.dead), np.bool_)
    most = np.full(len(safe), 128, np.int64)  # of the last digit, which stands there
    for level in chain.levels:
        most = _floor_reach(most, level.shift) + _reach(level)
        safe &= most <= INT32_MAX
    upper = np.zeros(len(safe), np.int64)
    for level in chain.upper:
        upper = (upper << level.shift) + _reach(level)
    most = most + upper  # more than any of the sums before it
    safe &= most <= INT32_MAX
    floors = np.zeros(len(safe), np.int64)
    for stair in chain.stairs:
        own = most + _stair_reach(stair)
        safe &= own <= INT32_MAX
        own = _floor_reach(own, stair.shifts[0]) + abs(stair.add)
        safe &= own <= INT32_MAX
        own = _floor_reach(own, stair.shifts[1])
        # What is held on one side of 0 may be further from it than it was.
        if stair.low is not None:
            own = np.maximum(own, stair.low)
        if stair.high is not None:
            own = np.maximum(own, -stair.high)
        floors = floors + own
    return safe & (floors <= INT32_MAX)


def _floor_reach(most: IntArray, shift: int) -> IntArray:
    """The largest magnitude behind a shift to the right of values up to one: floors of negative
    values are further from 0."""
    return -(-most >> shift)


def _reach(level: Level) -> IntArray:
    """(lanes,): no partial sum of what a level adds has a larger magnitude."""
    products = sum(128 * np.abs(weights.astype(np.int64)) for _, weights in level.products)
    return np.asarray(products + sum(np.abs(constant) for constant in level.constants), np.int64)


def _stair_reach(stair: Stair) -> IntArray | int:
    """(lanes,): the same of what a stair adds to the sum; the sign digit is 0 or -1."""
    constants: IntArray | int = sum(np.abs(constant) for constant in stair.constants)
    return constants if stair.sign is None else constants + np.abs(stair.sign.astype(np.int64))


def _stair(stair: Stair, total: Integers, sign: Integers) -> Integers:
    """What one stair makes of the sum (lanes, n)."""
    for constant in stair.constants:
        total = total + constant[:, None]
    if stair.sign is not None:
        total = total + sign * stair.sign.astype(np.int64)[:, None]
    total = ((total >> stair.shifts[0]) + stair.add) >> stair.shifts[1]
    low = INT32_MIN if stair.low is None else stair.low
    high = INT32_MAX if stair.high is None else stair.high
    return _held(total, low, high)


def _multipliers(plan: DigitPlan) -> list[IntArray]:
    """(lanes,) of each stored digit: what the chain multiplies it by in all."""
    total = [np.zeros(len(plan.offset), np.int64) for _ in range(plan.stored)]
    total[-1] += 1
    for exponent, level in plan.chain.weighted_levels:
        for digit, weights in level.products:
            total[digit] = total[digit] + (weights.astype(np.int64) << exponent)
    return total


def _monotone(plan: DigitPlan) -> Bools:
    """Whether the result never decreases within a sign: a carry adds one to a digit, and takes 255
    from each of those below it. Between the signs runs end, so both sides are looked at."""
    below = np.zeros(len(plan.offset), np.int64)
    rises = np.ones(len(plan.offset), np.bool_)
    for multiplier in _multipliers(plan)[: plan.digits]:
        rises &= multiplier >= 255 * below
        below = below + multiplier
    return rises


def _saturated(plan: DigitPlan, runs: Runs, clamped: tuple[Bools, Bools]) -> Bools:
    """Whether the output is at its clamp wherever the top digit is: the lower digits go on there,
    so that the worst of them must give it, too. clamped: the ends of runs at which the top digit
    is, at the low end, and at the high one."""
    if not plan.clamped:
        return np.asarray(~(clamped[0] | clamped[1]).any(axis=1))
    count = len(plan.dead)
    lanes, good = np.zeros((count, 1), np.int64), np.ones(count, np.bool_)
    for side, top, lower, value in zip(
        clamped, (-128, 127), (127, -128), (runs.low, runs.high), strict=True
    ):
        digits = [lanes + lower for _ in range(plan.digits - 1)] + [lanes + top]
        if plan.signed:
            digits.append(lanes + (-1 if top < 0 else 0))
        worst = _run(plan.chain, digits)
        good &= ~side.any(axis=1) | (worst[:, 0] == value)
    return good


def prove_parts(plan: PartPlan, runs: Runs) -> Bools:
    """(lanes,): as prove_digits, for the sum times a multiplier. That the parts of the weights add
    up to the multiplied weights is checked where they are made."""
    total = _side_by_side(runs.first, runs.last, False)
    total[plan.dead] = 0
    # 64 bits hold products of 32 bits, and as large a constant.
    held = ((total >= INT32_MIN) & (total <= INT32_MAX)).all(axis=1)
    held &= np.abs(plan.constant) <= 1 << 62
    held &= (plan.multiplier >= 0) & (plan.multiplier <= INT32_MAX)
    held &= _is_shift(plan.shift) & (0 <= plan.exponents[-1] <= _MOST_SHIFT)
    total *= plan.multiplier[:, None]
    total += plan.constant[:, None]
    # Runs ascend, and so do their products: what fits at both ends fits between them.
    ends = total[:, [0, -1]] >> plan.exponents[-1]
    fits = ((ends >= INT32_MIN) & (ends <= INT32_MAX)).all(axis=1)
    # Floors compose: the levels' shifts, and then the lane's, are one shift.
    total >>= (plan.exponents[-1] + plan.shift)[:, None]
    value = _held(total, plan.low, plan.high)
    alike = (value == _side_by_side(runs.value, runs.value, False)).all(axis=1)
    return np.asarray(held & fits & alike)
