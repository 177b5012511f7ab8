# SPDX-License-Identifier: Apache-2.0
"""quantization/attempt.py: the better of two attempts, and the passes of each."""

from __future__ import annotations

import pytest

from loadstone.passes.log import PassLog
from loadstone.quantization.attempt import bounded, repaired
from loadstone.quantization.options import Options, checked
from loadstone.quantization.samples import samples_from
from tests import float_models
from tests.float_models import images


@pytest.mark.parametrize("equalize", [True, False])
def test_each_attempt_names_its_passes(equalize: bool) -> None:
    runner, log = float_models.runner(), PassLog()
    samples = samples_from(images(6), runner.network.parameters)
    options = checked(Options(equalize=equalize, compensate=True, correct=True))
    chosen, comparison, steps = repaired(runner, samples, samples, options, log)
    own = ["calibrate", "scales", "round_weights", "correct_biases"]
    assert [run.name for run in log.runs] == own
    assert all(run.verified for run in (*log.runs, *chosen.own_runs))
    assert (comparison is not None) == equalize
    assert steps[-2:] == ["compensated rounding", "corrected biases"]
    is_equalized = any("equalized" in step for step in steps)
    assert [run.name for run in chosen.own_runs] == (["equalize", *own] if is_equalized else [])
    assert {run.subject for run in chosen.own_runs} <= {"equalized"}


def test_decibels_of_which_a_mean_can_be_made() -> None:
    assert [bounded(ratio) for ratio in (31.5, float("inf"), float("nan"))] == [31.5, 200.0, 200.0]
