# SPDX-License-Identifier: Apache-2.0
"""What a plan costs, and what it is called.

In:   a DigitPlan or a PartPlan (proof.py).
Out:  `tail_steps` of the compute stage for a tile of output; `name_of` the form, for people.
Next: plan.py takes the cheapest plan of each block.

A GEMM step or an ALU step by an immediate counts one, an ALU step by a tile two.
"""

from __future__ import annotations

import numpy as np

from loadstone.vta.rescale.levels import split_constant
from loadstone.vta.rescale.proof import Chain, DigitPlan, PartPlan
from loadstone.vta.rescale.runs import IntArray

__all__ = ["BlockPlan", "name_of", "tail_steps"]

BlockPlan = DigitPlan | PartPlan


def name_of(plan: BlockPlan) -> str:
    """D2, D3, with a sign digit D2+s, with two stairs D3/2; P2 to P5."""
    if isinstance(plan, PartPlan):
        return f"P{len(plan.exponents)}"
    stairs = f"/{len(plan.chain.stairs)}" if plan.chain.stairs else ""
    return f"D{plan.digits}{'+s' if plan.signed else ''}{stairs}"


def tail_steps(plan: BlockPlan, sum_steps: int, block: int) -> int:
    """Steps of the compute stage for a tile of output, the clearing of its accumulator and the sum
    among them."""
    if isinstance(plan, PartPlan):
        constants = split_constant(plan.constant, plan.exponents, block)
        count = 1 + len(plan.exponents) * (sum_steps + 1) - 1
        count += max(1, sum(level is not None for level in constants))
        return count + _shift_steps(plan.shift) + 2
    chain = plan.chain
    split = 2 * (plan.digits - 1) + (2 if plan.clamped else 0) + plan.signed
    before = (1 if plan.left else 0) + (2 if plan.right.any() else 0)
    levels = (*chain.levels, *chain.upper)
    added = sum(len(level.products) + len(level.constants) for level in levels)
    shifts = sum(level.shift > 0 for level in levels)
    last = _stair_steps(chain) if chain.stairs else _shift_steps(chain.shift)
    return 2 + sum_steps + before + split + added + shifts + last + 2


def _stair_steps(chain: Chain) -> int:
    """Clear a second tile, add both; the same for each stair but the last, whose sum stands there;
    from the third on each is added to those before."""
    count = len(chain.stairs)
    total = 3 * count + 2 * max(0, count - 1)
    for stair in chain.stairs:
        total += len(stair.constants) + (stair.sign is not None) + 2 + (stair.add != 0)
        total += (stair.low is not None) + (stair.high is not None)
    return total


def _shift_steps(shift: IntArray) -> int:
    return 2 if np.any(shift != shift[0]) else int(shift[0] > 0)
