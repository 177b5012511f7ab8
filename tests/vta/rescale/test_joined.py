# SPDX-License-Identifier: Apache-2.0
"""vta/rescale/joined.py: blocks that are proven together are what they are alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.rescale.joined import prove_blocks
from loadstone.vta.rescale.plan import block_plans
from loadstone.vta.rescale.proof import DigitPlan, prove_digits
from loadstone.vta.rescale.runs import Runs
from tests.vta.rescale.made import made_runs

SPANS = [(at, min(at + 16, 101)) for at in range(0, 101, 16)]


def _layer() -> tuple[Runs, list[DigitPlan]]:
    """Of several kinds: shifts of lanes and of blocks, lanes with one output, a shorter block."""
    scale = np.random.default_rng(3).uniform(0.001, 0.09, 101)
    scale[:32] = np.linspace(0.0011, 0.0019, 32)
    scale[40] = 1e-9
    runs = made_runs(scale, (-60_000, 90_000), "double", -128)
    plans = block_plans(runs, 16, 1000, np.full(101, 127))
    return runs, [plan for plan in plans if isinstance(plan, DigitPlan)]


def test_blocks_are_proven_together_as_alone() -> None:
    runs, plans = _layer()
    assert len(plans) == len(SPANS)
    assert prove_blocks(plans, runs, SPANS) == [True] * len(plans)
    for number, plan in enumerate(plans):
        for lane in (0, 4):
            for change in (1, 40):
                offset = plan.offset + change * (np.arange(len(plan.offset)) == lane)
                spoiled = replace(plan, offset=offset)
                alone = bool(prove_digits(spoiled, runs.take(np.arange(*SPANS[number]))).all())
                wrong = [*plans[:number], spoiled, *plans[number + 1 :]]
                others = [True] * (len(plans) - 1)
                others.insert(number, alone)
                assert prove_blocks(wrong, runs, SPANS) == others
                assert not alone or change == 1


def test_kinds_are_several() -> None:
    """So that what is joined is not all, and not alone."""
    _, plans = _layer()
    products = {tuple(len(level.products) for level in plan.chain.levels) for plan in plans}
    exponents = [plan.chain.exponents for plan in plans]
    assert len(products) > 1
    assert 1 < len(set(exponents)) < len(plans)
