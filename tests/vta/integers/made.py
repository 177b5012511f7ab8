# SPDX-License-Identifier: Apache-2.0
"""Runs of made rules, and the device's arithmetic on bytes: shared by the tests of
vta/integers/."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import quantize_multiplier, requantize_double, requantize_float32
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.proof import Level, PartPlan, Stair
from loadstone.vta.integers.runs import IntArray, Runs, runs_of_rule
from loadstone.vta.integers.steps import BlockPlan

#: Of `tied_layer`.
TIED_LANES = 16


def made_runs(
    scale: NDArray[np.float64], reach: tuple[int, int], rule: str, zero_point: int
) -> Runs:
    """Channels that all reach the same accumulators."""
    multiplier, shift = (lane[:, None] for lane in quantize_multiplier(scale))
    factor = scale.astype(np.float32)[:, None]

    def double(acc: IntArray) -> IntArray:
        return requantize_double(acc, multiplier, shift).astype(np.int64)

    def float32(acc: IntArray) -> IntArray:
        return requantize_float32(acc, factor).astype(np.int64)

    op: Any = SimpleNamespace(output=SimpleNamespace(zero_point=zero_point), low=-128, high=127)
    ends = [np.full(len(scale), end, np.int64) for end in reach]
    if rule == "double":
        return runs_of_rule(double, (ends[0], ends[1]), scale, op)
    runs = runs_of_rule(float32, (ends[0], ends[1]), scale.astype(np.float32), op)
    return replace(runs, ties_to_even=True)


def plan_of(runs: Runs, sum_steps: int = 1000) -> BlockPlan | None:
    """Of one block. sum_steps: 1 makes P cheapest."""
    (plan,) = Planner(runs, 16, np.full(len(runs.scale), 127)).plans(sum_steps)
    return plan


def outputs(runs: Runs, lane: int, acc: IntArray) -> IntArray:
    """What the runs say of accumulators."""
    number = np.searchsorted(runs.first[lane], acc, side="right") - 1
    return np.asarray(runs.value[lane][number])


def device(plan: BlockPlan, lane: int, acc: IntArray) -> IntArray:
    """What VTA makes of a lane's accumulators: 32-bit sums, stores that keep the low byte."""
    if plan.dead[lane]:
        acc = 0 * acc
    if isinstance(plan, PartPlan):
        return _parts(plan, lane, acc)
    x = (acc + plan.offset[lane]).astype(np.int32)
    x = (x << np.int32(max(0, plan.left))) >> np.int32(plan.right[lane] + max(0, -plan.left))
    stored = [x.astype(np.int8)]
    for digit in range(1, plan.digits):
        x = (x + np.int32(128)) >> np.int32(8)
        if digit + 1 == plan.digits and plan.clamped:
            x = np.minimum(np.maximum(x, np.int32(-128)), np.int32(127))
        stored.append(x.astype(np.int8))
    if plan.signed:
        x = np.maximum(np.minimum(x, np.int32(0)), np.int32(-1))
        stored.append(x.astype(np.int8))
    chain = plan.chain
    for level in chain.levels:
        x = _plus(x >> np.int32(level.shift), level, stored, lane)
    if chain.upper:
        upper = 0 * x
        for level in chain.upper:
            upper = _plus(upper << np.int32(level.shift), level, stored, lane)
        x = x + upper
    if chain.stairs:
        floors = [_stair(x, stair, stored, lane) for stair in chain.stairs]
        x = sum(floors[1:], floors[0])
    else:
        x = x >> np.int32(chain.shift[lane])
    assert x.dtype == np.int32
    return np.clip(x, chain.low, chain.high).astype(np.int64)


def _plus(x: NDArray[np.int32], level: Level, stored: list[Any], lane: int) -> NDArray[np.int32]:
    for number, weights in level.products:
        x = x + stored[number].astype(np.int32) * np.int32(weights[lane])
    for constant in level.constants:
        x = x + np.int32(constant[lane])
    return np.asarray(x, np.int32)


def _stair(x: NDArray[np.int32], stair: Stair, stored: list[Any], lane: int) -> NDArray[np.int32]:
    for constant in stair.constants:
        x = x + np.int32(constant[lane])
    if stair.sign is not None:
        x = x + stored[-1].astype(np.int32) * np.int32(stair.sign[lane])
    x = ((x >> np.int32(stair.shifts[0])) + np.int32(stair.add)) >> np.int32(stair.shifts[1])
    x = x if stair.low is None else np.maximum(x, np.int32(stair.low))
    x = x if stair.high is None else np.minimum(x, np.int32(stair.high))
    return np.asarray(x, np.int32)


def _parts(plan: PartPlan, lane: int, acc: IntArray) -> IntArray:
    """The sum of the products of all parts; floors compose, so the levels are one shift."""
    total = acc * plan.multiplier[lane] + plan.constant[lane]
    total = total >> (plan.exponents[-1] + plan.shift[lane])
    return np.clip(total, plan.low, plan.high)


def tied_layer(seed: int, zero_point: int = -128, scale: float = 2.0**-14) -> Runs:
    """A block whose outputs lie so far apart that float32 rounds many products onto ties."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(scale / 2, scale, TIED_LANES)
    reach = int(260 / scale)
    return made_runs(scales, (-reach, reach), "float32", zero_point)
