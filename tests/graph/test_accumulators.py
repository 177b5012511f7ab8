# SPDX-License-Identifier: Apache-2.0
"""graph/accumulators.py: the two halves of a layer are the layer, and no sum leaves its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.conformance.cases import OPERATORS
from loadstone.graph.accumulators import grows_with_sums, integers_of, limits_of_sums, sums_of
from loadstone.graph.reference import run_operator
from loadstone.numerics import INT32_MAX, INT32_MIN, Rounding, rq
from tests.repeat import times

KINDS = ("conv2d", "conv2d_edges", "depthwise", "grouped", "dense")


def drawn(kind: str, seed: int) -> g.Weighted:
    (operator,) = OPERATORS[kind](np.random.default_rng([seed, len(kind)])).operators
    assert isinstance(operator, g.Weighted)
    return operator


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("kind", KINDS)
def test_the_halves_are_the_layer(kind: str, rounding: Rounding) -> None:
    for seed in range(times(4, 40)):
        operator = replace(drawn(kind, seed), rounding=rounding)
        rng = np.random.default_rng(seed)
        x = rng.integers(-128, 128, operator.input.shape).astype(np.int8)
        sums = sums_of(operator, x)
        (want,) = run_operator(operator, [x])
        np.testing.assert_array_equal(integers_of(operator, sums), want)
        low, high = limits_of_sums(operator)
        assert (sums >= low).all()
        assert (sums <= high).all()


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("kind", [g.Conv2D, g.Dense])
def test_scales_at_which_the_roundings_differ_often(
    kind: type[g.Weighted], rounding: Rounding
) -> None:
    """Of a quarter to one half, where DOUBLE's first rounding makes ties, and one half, where each
    second sum is one: all levels of an input of one channel."""
    scales = np.float32([0.5, 0.3, 0.27, 0.45])
    middle: tuple[int, ...] = (16, 16) if kind is g.Conv2D else ()
    lead = (1,) if kind is g.Conv2D else (256,)
    grid = g.Quantization(1.0, 3)
    tensors = [
        g.Tensor(name, (*lead, *middle, n), "int8", grid) for name, n in (("x", 1), ("y", 4))
    ]
    window = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
    operator = kind(
        name="y",
        inputs=(tensors[0],),
        outputs=(tensors[1],),
        weights=np.ones((4, *(1 for _ in middle), 1), np.int8),
        weight_scales=scales,
        weight_zero_points=np.zeros(4, np.int32),
        bias=np.int32([0, 5, -7, 11]),
        low=-128,
        high=127,
        rounding=rounding,
        **(window if middle else {}),
    )
    x = np.arange(-128, 128).astype(np.int8).reshape(tensors[0].shape)
    got = integers_of(operator, sums_of(operator, x))
    np.testing.assert_array_equal(got, run_operator(operator, [x])[0])


def test_the_limits_are_reached() -> None:
    for seed in range(6):
        operator = drawn("dense", seed)
        low, high = limits_of_sums(operator)
        weights = operator.weights.astype(np.int64) - operator.weight_zero_points[:, None]
        for channel, row in enumerate(weights):
            for limit, x in (
                (low, np.where(row > 0, -128, 127)),
                (high, np.where(row > 0, 127, -128)),
            ):
                assert sums_of(operator, x.astype(np.int8)[None])[0, channel] == limit[channel]


def test_sums_that_wrap_may_be_any_int32() -> None:
    operator = drawn("dense", 1)
    full = replace(operator, bias=np.full_like(operator.bias, INT32_MAX))
    low, high = limits_of_sums(full)
    assert low.tolist() == [INT32_MIN] * len(low)
    assert high.tolist() == [INT32_MAX] * len(high)


def test_a_scale_above_one_wraps_where_it_is_rounded_twice() -> None:
    operator = drawn("dense", 2)
    small = replace(operator.output, quantization=g.Quantization(2.0**-20, 0))
    for rounding, grows in ((Rounding.DOUBLE, False), (Rounding.FLOAT32, True)):
        assert grows_with_sums(replace(operator, outputs=(small,), rounding=rounding)) is grows
    one = replace(operator.output, quantization=g.Quantization(1.0, 0))
    x = replace(operator.input, quantization=g.Quantization(1.0, 0))
    operator = replace(operator, inputs=(x,), outputs=(one,), rounding=Rounding.DOUBLE)
    count = len(operator.bias)
    assert count > 1
    for scale, grows in ((0.3, True), (0.7, True), (1.5, False)):
        scales = np.full(count, scale, np.float32)
        assert grows_with_sums(replace(operator, weight_scales=scales)) is grows
        mixed = np.where(np.arange(count) == 0, np.float32(1.5), scales)
        assert not grows_with_sums(replace(operator, weight_scales=mixed))


def test_integers_of_a_dense_layer_give_tflites_float64() -> None:
    """Rounding single: the integers that requantization() returns, at each step of the rule."""
    for seed in range(times(4, 40)):
        drawn_ = drawn("dense", seed)
        assert isinstance(drawn_, g.Dense)
        operator = replace(drawn_, rounding=Rounding.SINGLE)
        assert operator.integers_round
        low, high = limits_of_sums(operator)
        sums = np.linspace(low, high, 20_000).astype(np.int64)
        steps = np.rint((np.arange(-140, 140)[:, None] + 0.5) / operator.real_scales())
        near = [np.clip(steps + more, low, high).astype(np.int64) for more in (-1, 0, 1)]
        multiplier, shift = operator.requantization()
        limits = {"zero_point": operator.output.zero_point, "low": operator.low}
        for some in (sums, *near):
            got = rq(some, 0, multiplier, shift, **limits, high=operator.high, rounding=1)
            np.testing.assert_array_equal(got, integers_of(operator, some))


def unproven(operator: g.Weighted) -> g.Weighted:
    """The layer with a scale of 7/640, which no multiplier gives as float64 does."""
    x = replace(operator.input, quantization=g.Quantization(7 / 128, 0))
    y = replace(operator.output, quantization=g.Quantization(5 / 8, 0))
    eighths = np.full_like(operator.weight_scales, 1 / 8)
    return replace(operator, inputs=(x,), outputs=(y,), weight_scales=eighths, low=-128)


def test_a_dense_layer_that_no_integers_round_says_so() -> None:
    operator = unproven(replace(drawn("dense", 1), rounding=Rounding.SINGLE))
    assert not operator.integers_round
    with pytest.raises(AssertionError, match="the product of an integer multiplier"):
        operator.requantization()
