# SPDX-License-Identifier: Apache-2.0
"""vta/integers/runs.py: runs say of every accumulator what the rule says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.numerics import (
    Rounding,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
    requantize_single,
)
from loadstone.vta.integers.runs import runs_of, runs_of_product
from tests import lowered as lo
from tests.vta.integers.made import made_runs, outputs


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


@pytest.mark.parametrize("rounding", list(Rounding))
def test_many_channels_have_the_runs_that_each_has_alone(rounding: Rounding) -> None:
    """Of a layer that is made in several parts, with channels of few outputs and of many."""
    op = replace(lo.small_convolution(), rounding=rounding)
    count, times = 150, -(-150 // len(op.weights))
    wide = replace(
        op,
        outputs=(lo.tensor("y", (1, 6, 5, count), 0.0625, -2),),
        weights=np.tile(op.weights, (times, 1, 1, 1))[:count],
        weight_zero_points=np.tile(op.weight_zero_points, times)[:count],
        bias=np.linspace(-900, 900, count).astype(np.int32),
        weight_scales=np.geomspace(1e-6, 0.3, count).astype(np.float32),
    )
    runs = runs_of(wide)
    assert runs is not None
    assert len(np.unique(runs.value.max(axis=1))) > 2
    multiplier, shift = quantize_multiplier(wide.real_scales())
    for lane in range(0, count, 7):
        acc = np.arange(runs.first[lane, 0], runs.last[lane, -1] + 1)
        if rounding is Rounding.FLOAT32:
            factor = wide.requantization()[0].view(np.float32)[lane]
            wanted = requantize_float32(acc, factor).astype(np.int64)
        else:
            rule = requantize_double if rounding is Rounding.DOUBLE else requantize_single
            wanted = rule(acc, multiplier[lane], shift[lane]).astype(np.int64)
        wanted = np.clip(wanted + op.output.zero_point, op.low, op.high)
        np.testing.assert_array_equal(outputs(runs, lane, acc), wanted)


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


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.FLOAT32])
@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 5), (127, 127)])
def test_runs_of_a_product_are_of_every_sum_that_can_occur(
    rounding: Rounding, zero_points: tuple[int, int]
) -> None:
    """Of both factors at their ends, in all lanes alike."""
    a, b = (lo.tensor("x", (1, 2, 3), 0.05, zero_point) for zero_point in zero_points)
    op = g.BatchMatMul(
        name="y",
        inputs=(a, b),
        outputs=(lo.tensor("y", (1, 2, 2), 0.7, -9),),
        turned=True,
        rounding=rounding,
    )
    runs = runs_of_product(op, 4)
    assert runs is not None
    ends = [np.array([-128, 127]) - zero_point for zero_point in zero_points]
    corners = 3 * np.outer(*ends)
    assert (runs.first[:, 0] == corners.min()).all()
    assert (runs.last[:, -1] == corners.max()).all()
    assert runs.ties_to_even == (rounding is Rounding.FLOAT32)
    acc = np.arange(corners.min(), corners.max() + 1)
    scale, _ = op.requantization()
    if rounding is Rounding.FLOAT32:
        wanted = requantize_float32(acc, scale.view(np.float32))
    else:
        wanted = requantize_double(acc, *quantize_multiplier(op.real_scales()))
    for lane in range(4):
        found = outputs(runs, lane, acc)
        np.testing.assert_array_equal(found, np.clip(wanted.astype(np.int64) - 9, -128, 127))


def test_products_whose_sums_leave_32_bits_have_no_runs() -> None:
    def product(depth: int) -> g.BatchMatMul:
        inputs = tuple(lo.tensor(name, (1, 1, depth), 0.05, -128) for name in "ab")
        outputs = (lo.tensor("y", (1, 1, 1), 0.7, -9),)
        return g.BatchMatMul(name="y", inputs=inputs, outputs=outputs, turned=True)

    assert 33025 * 255 * 255 < 2**31 <= 33026 * 255 * 255
    assert runs_of_product(product(33025), 16) is not None
    assert runs_of_product(product(33026), 16) is None
