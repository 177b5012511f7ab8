# SPDX-License-Identifier: Apache-2.0
"""vta/integers/near.py: at most one level off at every accumulator, and how many are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.integers import near
from loadstone.vta.integers.near import NearPlanner, differing
from loadstone.vta.integers.proof import DigitPlan, prove_digits
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.steps import tail_steps
from tests.vta.integers.made import device, made_runs, outputs, plan_of

WIDEST = np.full(3, 127)


def near_plan(runs: Runs) -> DigitPlan:
    planner = NearPlanner(runs, 16, WIDEST)
    (plan,) = planner.plans(1000)
    assert planner.lacking(1000) == []
    assert isinstance(plan, DigitPlan)
    return plan


@pytest.mark.parametrize(("rule", "zero_point"), [("double", -128), ("float32", 5)])
def test_every_output_is_at_most_one_level_off_and_as_many_differ_as_is_said(
    rule: str, zero_point: int
) -> None:
    runs = made_runs(np.array([0.0017, 0.00093, 0.0029]), (-250_000, 250_000), rule, zero_point)
    plan, exact = near_plan(runs), plan_of(runs)
    assert exact is not None
    assert tail_steps(plan, 0, 16) < tail_steps(exact, 0, 16)
    shares = differing(plan, runs)
    for lane in range(3):
        acc = np.arange(-250_000, 250_001)
        apart = np.abs(device(plan, lane, acc) - outputs(runs, lane, acc))
        assert apart.max() == 1
        assert np.count_nonzero(apart) / len(acc) == pytest.approx(shares[lane], abs=1e-12)
    assert 0 < shares.max() < 0.1
    assert not differing(exact, runs).any()
    assert not prove_digits(plan, runs).all(), "it is no exact one"


def test_two_levels_off_are_refused() -> None:
    """The bound is proven, not hoped for: a constant moved by a level is one too far somewhere, and
    the judge says so."""
    runs = made_runs(np.array([0.0017, 0.00093, 0.0029]), (-250_000, 250_000), "double", 5)
    plan, allowed = near_plan(runs), replace(runs, tolerance=1)
    assert prove_digits(plan, allowed).all()
    for step in (-1, 1):
        level = np.round(step / runs.scale).astype(np.int64)
        moved = replace(plan, offset=plan.offset + level)
        assert not prove_digits(moved, allowed).any()
        apart = [
            np.abs(device(moved, lane, acc) - outputs(runs, lane, acc)).max()
            for lane, acc in enumerate([np.arange(-250_000, 250_001)] * 3)
        ]
        assert min(apart) == 2


def test_dead_lanes_and_short_ranges_stay_as_they_are() -> None:
    """A channel with one output, beside one that needs no shift at all."""
    runs = made_runs(np.array([1e-9, 0.02, 0.011]), (-9_000, 9_000), "double", 17)
    plan = near_plan(runs)
    assert plan.dead.tolist() == [True, False, False]
    assert differing(plan, runs)[0] == 0
    acc = np.arange(-9_000, 9_001)
    assert set(device(plan, 0, acc).tolist()) == {17}
    for lane in (1, 2):
        assert np.abs(device(plan, lane, acc) - outputs(runs, lane, acc)).max() <= 1


def test_a_block_without_a_near_form_gets_an_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "_MOST_LOST", 0)  # none is tried
    runs = made_runs(np.array([0.0017, 0.00093, 0.0029]), (-250_000, 250_000), "double", -128)
    planner = NearPlanner(runs, 16, WIDEST)
    assert planner.lacking(1000) == []
    (plan,) = planner.plans(1000)
    assert isinstance(plan, DigitPlan)
    assert prove_digits(plan, runs).all()
