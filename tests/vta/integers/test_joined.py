# SPDX-License-Identifier: Apache-2.0
"""vta/integers/joined.py: blocks side by side are what they are alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.integers.block_plan import Setting, digit_plans, part_plans
from loadstone.vta.integers.digit_search import DigitForm, search_digits
from loadstone.vta.integers.joined import JoinedPlan, prove_blocks
from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.proof import DigitPlan, prove_digits, prove_parts
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.search import search_parts
from loadstone.vta.integers.steps import tail_steps
from tests.vta.integers.made import made_runs

LANES = Lanes.of(range(7), 16, 101)


def _layer() -> tuple[Runs, list[JoinedPlan]]:
    """Of several kinds: shifts of lanes and of blocks, lanes with one output, a shorter block."""
    scale = np.random.default_rng(3).uniform(0.001, 0.09, 101)
    scale[:32] = np.linspace(0.0011, 0.0019, 32)
    scale[40] = 1e-9
    runs = made_runs(scale, (-60_000, 90_000), "double", -128)
    left = np.zeros(101, np.int64)
    found = search_digits(runs, DigitForm(3, False, left))
    plans = digit_plans(runs, LANES, Setting(3, False, None), left, found, 16)
    limit = np.full(101, 127 * (256**4 - 1) // 255 // 127)
    found = search_parts(runs, limit, 24 + 15)
    return runs, plans + part_plans(runs, LANES, 4, found, limit, 16)


def test_blocks_are_proven_together_as_alone() -> None:
    runs, plans = _layer()
    for joined in plans:
        places = range(len(joined.lanes.numbers))
        offers = [(joined, place) for place in places]
        assert prove_blocks(offers, runs) == [True for _ in places]
        for place in places:
            for change in (1, 1 << 30):
                lane = joined.lanes.starts[place] + 3
                name = "offset" if isinstance(joined.plan, DigitPlan) else "constant"
                spoiled = getattr(joined.plan, name) + change * (
                    np.arange(len(joined.lanes.channels)) == lane
                )
                wrong = replace(joined, plan=replace(joined.plan, **{name: spoiled}))
                own, plan = runs.take(joined.lanes.some([place])[0].channels), wrong.plan_of(place)
                prove = prove_digits if isinstance(plan, DigitPlan) else prove_parts
                alone = bool(prove(plan, own).all())  # type: ignore[operator]
                assert not alone or change == 1
                # In any order, beside what is right.
                asked = [(wrong, place), *((joined, other) for other in places if other != place)]
                assert prove_blocks(asked, runs) == [alone] + [True] * (len(places) - 1)
                mixed = [(wrong, other) for other in reversed(places)]
                said = [other != place or alone for other in reversed(places)]
                assert prove_blocks(mixed, runs) == said


def test_what_a_block_costs_beside_others_is_what_it_costs_alone() -> None:
    _, plans = _layer()
    for joined in plans:
        alone = [tail_steps(joined.plan_of(at), 0, 16) for at in range(len(joined.steps))]
        assert joined.steps == alone
    assert len({steps for joined in plans for steps in joined.steps}) > 2


def test_kinds_are_several() -> None:
    """So that what is joined is not all, and not alone."""
    _, plans = _layer()
    digits = [joined for joined in plans if isinstance(joined.plan, DigitPlan)]
    assert sorted(number for joined in digits for number in joined.lanes.numbers) == list(range(7))
    assert 1 < len(digits) < 7
    products = {
        tuple(len(level.products) for level in plan.chain.levels)
        for joined in digits
        for place in range(len(joined.lanes.numbers))
        if isinstance(plan := joined.plan_of(place), DigitPlan)
    }
    assert len(products) > 1
