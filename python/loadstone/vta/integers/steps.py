# SPDX-License-Identifier: Apache-2.0
"""What a plan costs, and what it is called.

In:   a DigitPlan or a PartPlan (proof.py).
Out:  `tail_steps` of the compute stage for a tile of output; `name_of` the form, for people.
Next: plan.py takes the cheapest plan of each block.

A GEMM step or an ALU step by an immediate counts one, an ALU step by a tile two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.levels import split_constants
from loadstone.vta.integers.proof import Chain, DigitPlan, PartPlan
from loadstone.vta.integers.runs import IntArray

__all__ = ["BlockPlan", "block_steps", "name_of", "present", "sums_of", "tail_steps"]

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
    lanes = Lanes.of([0], block, len(plan.dead))
    (steps,) = block_steps(plan, present(plan, lanes, block), lanes)
    return int(steps) + sums_of(plan) * sum_steps


def sums_of(plan: BlockPlan) -> int:
    """How often the sum of a tile is made."""
    return len(plan.exponents) if isinstance(plan, PartPlan) else 1


def present(plan: BlockPlan, lanes: Lanes, block: int) -> NDArray[np.bool_]:
    """(products and constants, blocks), level by level: which of them a block of the plan has."""
    if isinstance(plan, PartPlan):
        return lanes.any(split_constants(plan.constant, lanes, plan.exponents, block) != 0)
    rows: list[NDArray[np.bool_]] = []
    for level in (*plan.chain.levels, *plan.chain.upper):
        rows += [lanes.any(weights) for _, weights in level.products]
        rows += [lanes.any(constant) for constant in level.constants]
    return np.array(rows, np.bool_).reshape(len(rows), len(lanes.numbers))


def block_steps(plan: BlockPlan, there: NDArray[np.bool_], lanes: Lanes) -> IntArray:
    """(blocks,): as tail_steps without a sum, of blocks whose plans differ in their integers alone.
    there: what `present` says."""
    added: IntArray = there.sum(axis=0)
    if isinstance(plan, PartPlan):
        return sums_of(plan) + np.maximum(1, added) + _shift_steps(plan.shift, lanes) + 2
    chain = plan.chain
    split = 2 * (plan.digits - 1) + (2 if plan.clamped else 0) + plan.signed
    before = (1 if plan.left else 0) + 2 * lanes.any(plan.right)
    shifts = sum(level.shift > 0 for level in (*chain.levels, *chain.upper))
    last = _stair_steps(chain) if chain.stairs else _shift_steps(chain.shift, lanes)
    return np.asarray(2 + before + split + added + shifts + last + 2, np.int64)


def _stair_steps(chain: Chain) -> int:
    """Clear a second tile, add both; the same for each stair but the last, whose sum stands there;
    from the third on each is added to those before."""
    count = len(chain.stairs)
    total = 3 * count + 2 * max(0, count - 1)
    for stair in chain.stairs:
        total += len(stair.constants) + (stair.sign is not None) + 2 + (stair.add != 0)
        total += (stair.low is not None) + (stair.high is not None)
    return total


def _shift_steps(shift: IntArray, lanes: Lanes) -> IntArray:
    """(blocks,): none, one by an immediate, or one by a tile."""
    least, most = lanes.least(shift), lanes.most(shift)
    return np.where(least == most, most > 0, 2)
