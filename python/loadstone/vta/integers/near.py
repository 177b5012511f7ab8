# SPDX-License-Identifier: Apache-2.0
"""Cheaper forms for outputs that may be one level off: fewer digits of a coarser accumulator.

In:   runs of the channels of a layer (runs.py), the device's lanes.
Out:  `NearPlanner`, which gives plans as plan.py does; `differing`: how many outputs differ.
Next: operators/rescaled_layer.py takes it where --rounding near was said.

    x = (acc + offset) >> s = d0 + 256 d1        two digits always do: what s bits lose is little
                                                 where 16 bits span all outputs

The bound is proven as exactness is: at the first and the last accumulator of every run the device's
output is at most one from the rule's, and neither decreases. Blocks for which no such form is
proven get an exact one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.block_plan import Setting, digit_plan
from loadstone.vta.integers.digit_search import DigitForm, search_digits
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.proof import DigitPlan, outputs, prove_digits
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.steps import BlockPlan, tail_steps

__all__ = ["NearPlanner", "differing"]

_TWO = Setting(2, False, None)
#: Bits that the accumulator may lose; one level is at least so many steps of what is left.
_MOST_LOST, _STEPS_OF_A_LEVEL = 12, 8
#: A multiplier that is one product.
_ONE_PRODUCT = 127
#: The shift of two levels.
_LEVELS = 16
#: After the first count of lost bits that does, so many more are tried: they may need no clamp.
_MORE = 3
#: Bits that are lost, and the last shift of all lanes, or None.
_Setting: TypeAlias = tuple[int, int | None]


class NearPlanner:
    """As plan.Planner, for outputs at most one level off."""

    def __init__(self, runs: Runs, block: int, widest: IntArray) -> None:
        """widest: as Planner takes it."""
        self.exact, self.block, self.widest = runs, block, widest
        count = len(runs.scale)
        blocks = [np.arange(at, min(at + block, count)) for at in range(0, count, block)]
        largest = float(runs.scale[~runs.constant].max(initial=0.0))
        found = [_plans(_common(runs, channels), largest, block) for channels in blocks]
        self.near: list[DigitPlan | None] = _chosen(found, block)
        self.rest: Planner | None = None
        if any(plan is None for plan in self.near):
            self.rest = Planner(runs, block, widest)

    def lacking(self, sum_steps: int) -> list[int]:
        """As Planner.lacking."""
        rest = [] if self.rest is None else self.rest.lacking(sum_steps)
        return [number for number in rest if self.near[number] is None]

    def plans(self, sum_steps: int) -> list[BlockPlan | None]:
        """As Planner.plans."""
        rest = [None] * len(self.near) if self.rest is None else self.rest.plans(sum_steps)
        return [near or exact for near, exact in zip(self.near, rest, strict=True)]


def _common(runs: Runs, channels: IntArray) -> Runs:
    """Of one block, with room for error. Channels of one scale are taken together, so that they get
    the same integers, which are loaded once."""
    own = runs.take(channels)
    if runs.alike is not None and runs.member is not None and not own.constant.any():
        own = runs.alike.take(runs.member[channels])
    return replace(own, tolerance=1)


def _plans(runs: Runs, widest: float, block: int) -> dict[_Setting, DigitPlan]:
    """Of one block, those that are proven. widest: the largest scale of the layer."""
    live = ~runs.constant
    largest = float(runs.scale[live].max(initial=0.0))
    found: dict[_Setting, DigitPlan] = {}
    for lost in range(_MOST_LOST):
        if lost and largest * 2**lost * _STEPS_OF_A_LEVEL > 1:
            break
        coarse = replace(
            runs,
            first=runs.first >> lost,
            last=runs.last >> lost,
            scale=runs.scale * 2.0**lost,
        )
        if len({number for number, _ in found}) > _MORE:
            break
        for shift in _shifts(widest * 2.0**lost):
            plan = _plan(coarse, shift, block)
            if plan is None:
                continue
            plan = replace(plan, offset=plan.offset << lost, left=-lost)
            if prove_digits(plan, runs).all():
                found[lost, shift] = plan
    return found


def _shifts(largest: float) -> list[int | None]:
    """Last shifts to try: each lane's own; of all lanes, the one at which the lowest multiplier is
    one product, and that of the levels. largest: scale of the layer."""
    if not largest:
        return [None]
    bits = int(np.floor(np.log2(_ONE_PRODUCT / largest)))
    return [None, *sorted({shift for shift in (bits, _LEVELS) if 8 <= shift <= bits + 7})]


def _plan(runs: Runs, shift: int | None, block: int) -> DigitPlan | None:
    """Of one block, not yet proven: each lane has its own last shift, or all have one."""
    none = np.zeros(len(runs.scale), np.int64)
    last = None if shift is None else none + shift
    result = search_digits(runs, DigitForm(2, False, none, last))
    if not (result.ok | runs.constant).all():
        return None
    return digit_plan(runs, _TWO, none, result, block)


def _chosen(found: list[dict[_Setting, DigitPlan]], block: int) -> list[DigitPlan | None]:
    """The cheapest of each block; where one setting does for all, and costs each of them hardly
    more, that: one kernel then does them all. Of settings that cost the same, the one that loses
    fewest bits."""

    def cost(plan: DigitPlan) -> int:
        return tail_steps(plan, 0, block)

    best = [min(plans.values(), key=cost, default=None) for plans in found]
    least = sum(cost(plan) for plan in best if plan is not None)
    shared = [setting for setting in found[0] if all(setting in plans for plans in found)]
    totals = {setting: sum(cost(plans[setting]) for plans in found) for setting in shared}
    setting = min(totals, key=totals.__getitem__, default=None)
    if setting is None or totals[setting] > least + len(found):
        return list(best)
    return [plans[setting] for plans in found]


def differing(plan: BlockPlan, runs: Runs) -> NDArray[np.float64]:
    """(lanes,): the share of the accumulators between the first and the last for which the device's
    output is not the rule's. runs: of the lanes of the plan."""
    levels = np.arange(runs.low + 1, runs.high + 1)
    least, most = runs.first[:, :1], runs.last[:, -1:]
    below = np.broadcast_to(least - 1, (len(least), len(levels))).copy()
    reached = np.broadcast_to(most + 1, below.shape).copy()
    while (reached - below > 1).any():  # neither rule nor device ever decreases
        middle = (below + reached) >> 1
        enough = outputs(plan, np.clip(middle, least, most)) >= levels
        open_ = reached - below > 1
        reached = np.where(open_ & enough, middle, reached)
        below = np.where(open_ & ~enough, middle, below)
    rule = np.array(
        [
            np.append(first, last[-1] + 1)[np.searchsorted(value, levels)]
            for first, last, value in zip(runs.first, runs.last, runs.value, strict=True)
        ]
    )
    apart = np.abs(reached - rule).sum(axis=1)
    return np.asarray(apart / (most - least + 1)[:, 0], np.float64)
