# SPDX-License-Identifier: Apache-2.0
"""vta/integers/stairs.py: floors that give ONNX's rounding where no line does, everywhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.integers.proof import DigitPlan, prove_digits
from loadstone.vta.integers.runs import Runs
from loadstone.vta.integers.stair_search import Division, divisions
from loadstone.vta.integers.stairs import stair_plans
from tests.repeat import times
from tests.vta.integers.made import TIED_LANES, device, made_runs, outputs, tied_layer

BLOCK = [np.arange(TIED_LANES)]
#: (seed, zero point) of the one layer of forty for which no division has constants of all lanes.
WITHOUT = {(4, 5)}


def proven_plan(runs: Runs, division: Division, *, patient: bool = False) -> DigitPlan | None:
    """The plan of the one block of some runs, if its proof holds."""
    (plan,) = stair_plans(runs, BLOCK, division, 16, patient=patient)
    return plan if plan is not None and prove_digits(plan, runs).all() else None


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("seed", range(times(1, 20)))
def test_stairs_are_exact_around_every_change(seed: int, zero_point: int) -> None:
    """Both sides of each change, and a sample of what lies between; the proof says the rest."""
    runs = tied_layer(seed, zero_point)
    plans = [
        plan
        for patient in (False, True)
        for division in divisions(runs)
        if (plan := proven_plan(runs, division, patient=patient))
    ]
    assert bool(plans) == ((seed, zero_point) not in WITHOUT)
    rng = np.random.default_rng(seed)
    for plan in plans:
        for lane in range(TIED_LANES):
            ends = np.concatenate([runs.first[lane], runs.last[lane]])
            between = rng.integers(runs.first[lane, 0], runs.last[lane, -1] + 1, 2_000)
            acc = np.unique(np.concatenate([ends, between]))
            np.testing.assert_array_equal(device(plan, lane, acc), outputs(runs, lane, acc))


def test_what_is_found_at_the_edge_of_the_digits_is_proven() -> None:
    """Changes as far apart as three digits hold, and sums that go beyond: where the top digit is
    clamped, the lower two may be anything."""
    room = (127 * 65536 - 128 * 257 - 3000) >> 5
    scales = np.linspace(255 / room, 255.1 / room, TIED_LANES)
    reach = int(400 / scales[0])
    runs = made_runs(scales, (-reach, reach), "float32", -128)
    plan = proven_plan(runs, Division((), None, fine=True))
    assert plan is not None
    assert plan.clamped


def test_a_block_that_lacks_many_lanes_at_first_is_searched_to_its_end() -> None:
    runs, division = tied_layer(0, scale=2.0**-11), Division((), None)
    assert stair_plans(runs, BLOCK, division, 16) == [None]
    (plan,) = stair_plans(runs, BLOCK, division, 16, patient=True)
    assert plan is not None
    assert prove_digits(plan, runs).all()


def test_a_lane_is_exact_on_every_accumulator() -> None:
    runs = tied_layer(3, scale=2.0**-11)
    plan = next(plan for division in divisions(runs) if (plan := proven_plan(runs, division)))
    for lane in (7,):
        acc = np.arange(runs.first[lane, 0], runs.last[lane, -1] + 1)
        np.testing.assert_array_equal(device(plan, lane, acc), outputs(runs, lane, acc))


def test_a_spoiled_stair_is_refused() -> None:
    """One more in a constant that two stairs do not share, or in what the sign digit moves."""
    runs = tied_layer(1)
    plan = next(
        plan
        for division in divisions(runs)
        if division.sign is not None and (plan := proven_plan(runs, division))
    )
    first, *others = plan.chain.stairs
    assert first.constants
    assert first.sign is not None
    for spoiled in (
        replace(first, constants=(first.constants[0] + 400,)),
        replace(first, sign=np.full(TIED_LANES, 127, np.int8)),
        replace(first, add=first.add + 1),
        replace(first, shifts=(first.shifts[0], first.shifts[1] - 1)),
    ):
        chain = replace(plan.chain, stairs=(spoiled, *others))
        assert not prove_digits(replace(plan, chain=chain), runs).all()
    constant = np.where(np.arange(TIED_LANES) == 5, 2**30, 0)
    upper = (replace(plan.chain.upper[0], constants=(constant,)), *plan.chain.upper[1:])
    assert not prove_digits(replace(plan, chain=replace(plan.chain, upper=upper)), runs)[5]


def test_constant_lanes_keep_their_output() -> None:
    runs = tied_layer(2)
    value = runs.value.copy()
    value[3] = value[3, 0]
    runs = replace(runs, value=value)
    plan = next(plan for division in divisions(runs) if (plan := proven_plan(runs, division)))
    assert plan.dead[3]
    assert not plan.dead[4]


def test_outputs_that_jump_have_no_stairs() -> None:
    runs = made_runs(np.full(TIED_LANES, 1.5), (-100, 100), "float32", 0)
    assert stair_plans(runs, BLOCK, Division((), None), 16) == [None]
