# SPDX-License-Identifier: Apache-2.0
"""vta/integers/plan.py: every form, against the rule on every accumulator, done byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.integers.joined import JoinedPlan, prove_blocks
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.proof import DigitPlan
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.steps import BlockPlan, name_of, tail_steps
from tests.repeat import times
from tests.vta.integers.made import device, made_runs, outputs, plan_of

quick = settings(max_examples=times(6, 60), deadline=None, derandomize=True)


def check_everywhere(plan: BlockPlan, runs: Runs) -> None:
    """The device's arithmetic on every accumulator of every lane."""
    for lane in range(len(runs.scale)):
        acc = np.arange(runs.first[lane, 0], runs.last[lane, -1] + 1)
        got = device(plan, lane, acc)
        np.testing.assert_array_equal(got, outputs(runs, lane, acc), name_of(plan))


@given(st.integers(0, 2**32 - 1), st.sampled_from(["double", "float32"]), st.booleans())
@quick
def test_plans_are_exact_on_every_accumulator(seed: int, rule: str, one_sided: bool) -> None:
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.001, 0.02) * 2.0 ** rng.uniform(0, 2, 3)
    zero_point = -128 if one_sided else int(rng.integers(-30, 30))
    runs = made_runs(scale, (-70_000, 90_000), rule, zero_point)
    plan = plan_of(runs)
    assert plan is not None
    check_everywhere(plan, runs)


@pytest.mark.parametrize(
    ("name", "scale", "zero_point", "reach", "sum_steps"),
    [
        ("D2", 0.011, -128, 40_000, 1000),
        ("D2+s", 0.02, 3, 9_000, 1000),
        ("D3", 0.0017, -128, 200_000, 1000),
        ("D3+s", 0.0017, 3, 200_000, 1000),
        ("P4", 0.0017, -128, 200_000, 1),
    ],
)
def test_every_form_is_chosen_where_it_is_due(
    name: str, scale: float, zero_point: int, reach: int, sum_steps: int
) -> None:
    runs = made_runs(np.array([scale, scale * 1.1]), (-reach, reach), "double", zero_point)
    plan = plan_of(runs, sum_steps)
    assert plan is not None
    assert name_of(plan) == name
    check_everywhere(plan, runs)


def test_lanes_of_unlike_scales_go_to_the_left_alike_and_share_the_shift_of_the_levels() -> None:
    """Without a tile of shifts on either side, and without a product of the third digit at the
    lowest level, where the digit stands in the accumulator: eight products, three shifts."""
    runs = made_runs(np.linspace(0.003, 0.0102, 16), (-8_000, 150_000), "double", -128)
    plan = plan_of(runs)
    assert isinstance(plan, DigitPlan)
    assert plan.left == 3
    assert not plan.right.any()
    assert not plan.chain.shift.any()
    assert [level.shift for level in plan.chain.levels] == [0, 8, 8, 8]
    assert [[digit for digit, _ in level.products] for level in plan.chain.levels] == [
        [0, 1],
        [0, 1, 2],
        [1, 2],
        [2],
    ]
    check_everywhere(plan, runs)


def test_lanes_of_far_scales_and_lanes_with_one_output_share_a_block() -> None:
    scale = np.array([0.0005, 0.02, 1e-9, 0.003])
    runs = made_runs(scale, (-150_000, 150_000), "double", -128)
    assert runs.constant.tolist() == [False, False, True, False]
    plan = plan_of(runs)
    assert plan is not None
    assert plan.dead.tolist() == [False, False, True, False]
    check_everywhere(plan, runs)


def test_one_breakpoint_does_not_prove_what_lies_beyond_it() -> None:
    """A channel with two outputs: only the ends of its runs say where the next ones would begin."""
    runs = made_runs(np.array([0.0101]), (0, 100), "double", 0)
    assert len(np.unique(runs.value)) == 2
    plan = plan_of(runs)
    assert plan is not None
    check_everywhere(plan, runs)
    far = made_runs(np.array([0.0101]), (0, 160), "double", 0)
    assert len(np.unique(far.value)) == 3


@pytest.mark.parametrize("refusals", [0, 1, 9])
def test_offers_are_proven_from_the_cheapest_on(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One shift for all lanes, their own, nothing: whatever is refused is not used."""
    runs = made_runs(np.linspace(0.009, 0.02, 16), (-5, 20_000), "double", -128)
    steps = []

    def prove(offers: list[tuple[JoinedPlan, int]], *rest: Any) -> list[bool]:
        ((joined, place),) = offers
        steps.append(joined.steps[place])
        return [len(steps) > refusals and proven for proven in prove_blocks(offers, *rest)]

    monkeypatch.setattr("loadstone.vta.integers.plan.prove_blocks", prove)
    (best,) = Planner(runs, 16, np.full(16, 127)).best
    assert steps == sorted(set(steps))
    assert len(steps) == min(refusals + 1, 2)
    assert (best is None) == (refusals > 1)
    if best is not None:
        assert tail_steps(best, 0, 16) == steps[-1]
        check_everywhere(best, runs)


@pytest.mark.parametrize("rule", ["double", "float32"])
@pytest.mark.parametrize("seed", range(times(2, 20)))
def test_what_was_asked_before_changes_no_plan(seed: int, rule: str) -> None:
    """Short sums leave digits unsearched; long ones need them. Any order gives the same forms."""
    rng = np.random.default_rng(seed)
    runs = made_runs(rng.uniform(0.0005, 0.002, 48), (-5, 240_000), rule, -128)
    widest = np.full(48, 100)
    sums = (1, 2, 3, 9, 1000)

    def forms(planner: Planner, sum_steps: int) -> list[tuple[str, int]]:
        plans = [plan for plan in planner.plans(sum_steps) if plan is not None]
        return [(name_of(plan), tail_steps(plan, sum_steps, 16)) for plan in plans]

    alone = {steps: forms(Planner(runs, 16, widest), steps) for steps in sums}
    lacking = Planner(runs, 16, widest).lacking(1000)
    for order in (sums, sums[::-1]):
        planner = Planner(runs, 16, widest)
        assert planner.lacking(order[0]) == lacking
        assert {steps: forms(planner, steps) for steps in order} == alone
    lazy = Planner(runs, 16, widest)
    names = {name for name, _ in forms(lazy, 1)}
    assert (names == {"P4"}) == (lazy.unsearched == {0, 1, 2}) == (rule == "double")
