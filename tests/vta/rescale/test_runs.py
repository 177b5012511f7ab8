# SPDX-License-Identifier: Apache-2.0
"""vta/rescale/runs.py: runs say of every accumulator what the rule says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from loadstone.numerics import (
    Rounding,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
)
from loadstone.vta.rescale.runs import runs_of
from tests import lowered as lo
from tests.vta.rescale.made import made_runs, outputs


def test_rules_are_those_of_numerics() -> None:
    scale = np.array([0.0123, 0.37])
    multiplier, shift = quantize_multiplier(scale)
    rules = {
        "double": lambda acc: requantize_double(acc, multiplier[:, None], shift[:, None]),
        "float32": partial(requantize_float32, scale=scale.astype(np.float32)[:, None]),
    }
    for name, rule in rules.items():
        runs = made_runs(scale, (-3000, 3000), name, 7)
        for lane in range(2):
            acc = np.arange(-3000, 3001)
            wanted = np.clip(rule(np.stack([acc, acc]))[lane] + 7, -128, 127)
            np.testing.assert_array_equal(outputs(runs, lane, acc), wanted)


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 0.9])
def test_scales_from_none_to_all(scale: float) -> None:
    runs = made_runs(np.array([scale]), (-500, 400), "double", 3)
    acc = np.arange(-500, 401)
    multiplier, shift = quantize_multiplier(np.array([scale]))
    wanted = np.clip(requantize_double(acc, multiplier, shift) + 3, -128, 127)
    np.testing.assert_array_equal(outputs(runs, 0, acc), wanted)


def test_a_run_ends_where_the_sign_changes() -> None:
    runs = made_runs(np.array([0.001]), (-90, 90), "double", 0)
    assert -1 in runs.last
    assert runs.constant.all()


def test_sums_that_leave_32_bits_have_no_runs() -> None:
    op = lo.small_convolution()
    assert runs_of(op) is not None
    assert runs_of(replace(op, bias=np.full_like(op.bias, 2**31 - 1))) is None


def test_channels_of_one_scale_are_alike() -> None:
    op = replace(lo.small_convolution(), rounding=Rounding.DOUBLE)
    one = np.full_like(op.weight_scales, 0.01)
    runs = runs_of(replace(op, weight_scales=one))
    assert runs is not None
    assert runs.alike is not None
    assert runs.member is not None
    assert len(runs.alike.scale) == 1
    assert runs.alike.first[0, 0] <= runs.first[:, 0].min()
    assert set(runs.member) == {0}
