# SPDX-License-Identifier: Apache-2.0
"""Plans of many blocks side by side: NumPy's cost of a call is paid once for several.

In:   what blocks of one form have in common, and the integers of all their lanes (block_plan.py).
Out:  `JoinedPlan`: what each block costs, and its plan; `prove_blocks`: whether that is proven.
Next: plan.py takes the cheapest that is proven.

A proof looks at each lane on its own. So plans that differ in their integers alone are one plan of
more lanes; where one block has a product or a constant more than another, that is zero there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.proof import (
    Chain,
    DigitPlan,
    Level,
    PartPlan,
    prove_digits,
    prove_parts,
)
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.steps import BlockPlan, block_steps, present

__all__ = ["JoinedPlan", "prove_blocks"]

#: So many blocks are proven together: their ends still fit the processor's cache.
_TOGETHER = 8


@dataclass(frozen=True, eq=False)
class JoinedPlan:
    """lanes: of some blocks whose plans differ in their integers alone. plan: of all of them.
    block: lanes of the device."""

    lanes: Lanes
    plan: BlockPlan
    block: int

    @cached_property
    def steps(self) -> list[int]:
        """Of each block, as tail_steps without a sum."""
        steps: list[int] = block_steps(self.plan, self._present, self.lanes).tolist()
        return steps

    @cached_property
    def _present(self) -> NDArray[np.bool_]:
        return present(self.plan, self.lanes, self.block)

    def some(self, places: Sequence[int]) -> tuple[Lanes, BlockPlan]:
        """The plan of the blocks in some places."""
        lanes, own = self.lanes.some(places)
        return lanes, self._of(own, places)

    def plan_of(self, place: int) -> BlockPlan:
        """The plan of one block."""
        return self._of(slice(*self.lanes.ends[place : place + 2]), [place])

    def _of(self, lanes: IntArray | slice, places: Sequence[int]) -> BlockPlan:
        plan = self.plan
        if isinstance(plan, PartPlan):
            multiplier, constant = plan.multiplier[lanes], plan.constant[lanes]
            last = (plan.shift[lanes], plan.low, plan.high, plan.dead[lanes])
            return PartPlan(multiplier, constant, plan.exponents, *last)
        # Of the products and constants, those that one of the blocks has.
        kept = iter(np.logical_or.reduce(self._present[:, places], axis=1).tolist())
        levels = tuple(
            Level(
                level.shift,
                tuple((digit, weights[lanes]) for digit, weights in level.products if next(kept)),
                tuple(constant[lanes] for constant in level.constants if next(kept)),
            )
            for level in plan.chain.levels
        )
        return DigitPlan(
            plan.offset[lanes],
            plan.left,
            plan.right[lanes],
            plan.digits,
            plan.clamped,
            plan.signed,
            plan.dead[lanes],
            Chain(levels, plan.chain.shift[lanes], plan.chain.low, plan.chain.high),
        )


def prove_blocks(offers: Sequence[tuple[JoinedPlan, int]], runs: Runs) -> list[bool]:
    """Whether every lane of each block is proven, as prove_digits and prove_parts say it. offers:
    joined plans and places of blocks in them. Those of one plan are proven side by side."""
    proven: dict[tuple[JoinedPlan, int], bool] = {}
    for joined in dict.fromkeys(joined for joined, _ in offers):
        places = sorted(place for own, place in offers if own is joined)
        for at in range(0, len(places), _TOGETHER):
            some = places[at : at + _TOGETHER]
            lanes, plan = joined.some(some)
            own = runs.take(lanes.channels)
            good = (
                prove_digits(plan, own) if isinstance(plan, DigitPlan) else prove_parts(plan, own)
            )
            for place, bad in zip(some, lanes.any(~good).tolist(), strict=True):
                proven[joined, place] = not bad
    return [proven[offer] for offer in offers]
