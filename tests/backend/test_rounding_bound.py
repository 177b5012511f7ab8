# SPDX-License-Identifier: Apache-2.0
"""backend/rounding_bound.py: a bound is what trying every sum gives, and a fault of one sum in all
is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.backend import rounding_bound
from loadstone.backend.rounding import FloatScale, MultiplyShift, StatedRounding
from loadstone.backend.rounding_bound import bound_of
from loadstone.conformance.cases import OPERATORS
from loadstone.errors import LoweringError
from loadstone.graph.accumulators import integers_of, limits_of_sums
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array, Rounding
from tests.graph.test_accumulators import drawn
from tests.repeat import times


def few(seed: int) -> g.Dense:
    """A dense layer of two small weights and two channels, of whose sums all can be tried."""
    rng = np.random.default_rng(seed)
    x = g.Tensor("x", (1, 2), "int8", g.Quantization(0.5, int(rng.integers(-128, 128))))
    scales = rng.uniform(0.2, 1.0, 2).astype(np.float32)
    output = float(np.float32(scales.max() * rng.uniform(1.5, 9.0)))
    y = g.Tensor("y", (1, 2), "int8", g.Quantization(output, int(rng.integers(-100, 100))))
    return g.Dense(
        name="y",
        inputs=(x,),
        outputs=(y,),
        weights=rng.integers(-9, 10, (2, 2)).astype(np.int8),
        weight_scales=scales,
        weight_zero_points=np.zeros(2, np.int32),
        bias=rng.integers(-300, 300, 2).astype(np.int32),
        low=int(rng.choice([-128, -90])),
        high=int(rng.choice([127, 80])),
        rounding=Rounding.SINGLE,
    )


def by_trial(operator: g.Weighted, function: Callable[[Array], Array]) -> tuple[int, float, float]:
    """The largest difference, and the shares, sum by sum and channel by channel."""
    largest, shares = 0, []
    for channel, (low, high) in enumerate(zip(*limits_of_sums(operator), strict=True)):
        sums = np.zeros((high - low + 1, len(operator.bias)), np.int64)
        sums[:, channel] = np.arange(low, high + 1)
        apart = np.abs(integers_of(operator, sums) - function(sums))[:, channel]
        largest = max(largest, int(apart.max()))
        shares.append((apart > 0).mean())
    return largest, float(np.mean(shares)), float(max(shares))


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("ties", ["up", "even", "away", "floor", "float"])
def test_the_bound_is_that_of_all_sums(rounding: Rounding, ties: str) -> None:
    for seed in range(times(3, 30)):
        operator = replace(few(seed), rounding=rounding)
        bits = 2 + seed % 7
        function = (
            FloatScale.of(operator, bits)
            if ties == "float"
            else MultiplyShift.of(operator, bits, ties)
        )
        want = by_trial(operator, function)
        for stated in (StatedRounding(function), StatedRounding(lambda sums, f=function: f(sums))):
            bound = bound_of(operator, stated)
            assert bound.proven
            assert (
                bound.largest,
                pytest.approx(bound.share),
                pytest.approx(bound.worst_share),
            ) == want


def test_one_sum_of_all_is_seen() -> None:
    """Wrong in a single sum of a single channel, by five levels."""
    operator = replace(few(1), rounding=Rounding.SINGLE)
    low, high = limits_of_sums(operator)
    for place in (low[0], (low[0] + high[0]) // 2, high[0]):

        def function(sums: Array, place: int = place) -> Array:
            made = integers_of(operator, sums)
            made[:, 0] += np.where(sums[:, 0] == place, np.where(made[:, 0] > 0, -5, 5), 0)
            return made

        bound = bound_of(operator, StatedRounding(function))
        assert bound.largest == 5
        assert bound.proven
        assert not bound.is_exact
        assert bound.worst_share == pytest.approx(1 / (high[0] - low[0] + 1))


def test_the_frameworks_own_is_exact() -> None:
    for rounding in Rounding:
        operator = replace(few(2), rounding=rounding)
        bound = bound_of(operator, StatedRounding(lambda s, o=operator: integers_of(o, s)))
        assert bound.is_exact
        assert "at most 0 levels off (proven for all" in str(bound)


def test_too_many_sums_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = drawn("conv2d", 5)
    monkeypatch.setattr(rounding_bound, "_ALL_SUMS", 10)
    exact = StatedRounding(lambda sums: integers_of(operator, sums))
    bound = bound_of(operator, exact)
    assert not bound.proven
    assert not bound.is_exact
    assert "measured on" in str(bound)
    short = bound_of(operator, StatedRounding(lambda sums: MultiplyShift.of(operator, 5)(sums)))
    assert (
        short.largest == bound_of(operator, StatedRounding(MultiplyShift.of(operator, 5))).largest
    )


def test_a_rule_that_wraps_is_not_bisected() -> None:
    operator = few(3)
    tiny = replace(operator.output, quantization=g.Quantization(2.0**-24, 0))
    operator = replace(operator, outputs=(tiny,), rounding=Rounding.DOUBLE)
    rule = FloatScale(operator.real_scales().astype(np.float32), 0, operator.low, operator.high)
    bound = bound_of(operator, StatedRounding(rule))
    want = by_trial(operator, rule)
    assert (bound.largest, pytest.approx(bound.share), pytest.approx(bound.worst_share)) == want


def test_one_function_of_all_channels_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = few(7)
    scales = np.full_like(operator.weight_scales, operator.weight_scales[0])
    operator = replace(operator, weight_scales=scales, rounding=Rounding.FLOAT32)
    low, high = limits_of_sums(operator)
    monkeypatch.setattr(rounding_bound, "_ALL_SUMS", int(high.max() - low.min()) + 1)
    assert len(low) > 1
    short = MultiplyShift.of(operator, 6)
    one = replace(short, multiplier=short.multiplier[:1], shift=short.shift[:1])
    seen: list[tuple[int, ...]] = []

    def function(sums: Array) -> Array:
        seen.append(sums.shape)
        return one(sums)

    bound = bound_of(operator, StatedRounding(function, per_channel=False))
    assert bound.proven
    assert {shape[1:] for shape in seen} == {(1,)}
    assert bound.largest == by_trial(operator, short)[0]
    assert not bound_of(operator, StatedRounding(function)).proven


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "requantize", "lookup"])
def test_two_inputs_are_tried_in_every_pair(kind: str) -> None:
    (operator,) = OPERATORS[kind](np.random.default_rng(3)).operators

    def right(*arrays: Array) -> Array:
        inputs = tuple(replace(t, shape=arrays[0].shape) for t in operator.inputs)
        outputs = (replace(operator.output, shape=arrays[0].shape),)
        return run_operator(replace(operator, inputs=inputs, outputs=outputs), list(arrays))[0]

    assert bound_of(operator, StatedRounding(right)).is_exact

    def wrong(*arrays: Array) -> Array:
        least = [np.iinfo(tensor.dtype).min for tensor in operator.inputs]
        hit = np.all([a == k for a, k in zip(arrays, least, strict=True)], axis=0)
        made = right(*arrays).astype(np.int64)
        return np.where(hit, np.where(made > 0, made - 2, made + 2), made)

    bound = bound_of(operator, StatedRounding(wrong))
    assert (bound.largest, bound.proven) == (2, True)
    assert bound.share == pytest.approx(256.0 ** -len(operator.inputs))


def test_other_operators_are_measured() -> None:
    (operator,) = OPERATORS["average_pool2d"](np.random.default_rng(2)).operators
    exact = StatedRounding(lambda x: run_operator(operator, [x])[0])
    assert not bound_of(operator, exact).is_exact
    off = bound_of(
        operator, StatedRounding(lambda x: np.minimum(run_operator(operator, [x])[0], 126) + 1)
    )
    assert off.largest == 1
    assert "measured on" in off.how


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda sums: sums[:, :1], r"gives int64\[.*\], not integers \["),
        (lambda sums: sums * 0.5, "gives float64"),
        (
            lambda sums: sums * 0 + 128,
            "gives 128 to 128, not int8: it includes zero point and clamp",
        ),
        (lambda sums: sums * 0 - 129, "gives -129 to -129, not int8"),
    ],
)
def test_what_is_no_rounding_is_refused(function: Callable[[Array], Array], message: str) -> None:
    operator = few(1)
    with pytest.raises(LoweringError, match=message):
        bound_of(operator, StatedRounding(function))


def test_one_function_of_all_channels_is_tried_from_the_least_to_the_largest_sum() -> None:
    """Wrong at one sum that only one of the channels reaches."""
    operator = few(5)
    scales = np.full_like(operator.weight_scales, operator.weight_scales[0])
    operator = replace(operator, weight_scales=scales, weights=np.int8([[2, 3], [9, 9]]))
    operator = replace(operator, rounding=Rounding.FLOAT32)
    low, high = limits_of_sums(operator)
    assert low.min() != low.max()
    assert high.min() != high.max()
    for place in (low.min(), high.max()):

        def function(sums: Array, place: int = place) -> Array:
            made = integers_of(operator, sums)[:, :1]
            return made + np.where(sums == place, np.where(made > 0, -5, 5), 0)

        bound = bound_of(operator, StatedRounding(function, per_channel=False))
        assert (bound.largest, bound.proven) == (5, True)


def test_one_channel_is_all_channels() -> None:
    operator = replace(few(6), rounding=Rounding.FLOAT32)
    y = replace(operator.output, shape=(1, 1))
    arrays = ("weights", "weight_scales", "weight_zero_points", "bias")
    first = {name: getattr(operator, name)[:1] for name in arrays}
    operator = replace(operator, outputs=(y,), **first)
    rule = MultiplyShift.of(operator, 4)
    bound = bound_of(operator, StatedRounding(lambda sums: rule(sums), per_channel=False))
    assert bound.largest == by_trial(operator, rule)[0]
    with pytest.raises(LoweringError, match="gives int64"):
        bound_of(operator, StatedRounding(lambda sums: sums[1:] * 0, per_channel=False))


def test_channels_of_other_scales_are_tried_each() -> None:
    """A function of all channels that is right for the first one alone."""
    operator = replace(few(5), rounding=Rounding.FLOAT32)
    factors = np.float32([1, 0.5])
    operator = replace(operator, weight_scales=operator.weight_scales[0] * factors)
    first = FloatScale.of(operator, 23)
    one = replace(first, scale=first.scale[:1])

    def function(sums: Array) -> Array:
        assert sums.shape[1:] == (1,)
        return one(sums)

    bound = bound_of(operator, StatedRounding(function, per_channel=False))
    same = replace(first, scale=np.repeat(first.scale[:1], 2))
    assert bound.largest == by_trial(operator, same)[0] > 1


def test_a_sum_of_two_inputs_has_no_channels() -> None:
    (operator,) = OPERATORS["add"](np.random.default_rng(3)).operators
    rule = StatedRounding(lambda a, b: np.clip(a.astype(np.int64) + b, -128, 127))
    assert bound_of(operator, replace(rule, per_channel=False)) == bound_of(operator, rule)


@pytest.mark.parametrize("rounding", [Rounding.SINGLE, Rounding.FLOAT32])
def test_steps_of_the_same_function_are_no_levels_off(rounding: Rounding) -> None:
    """A scale of one: there is nothing to round."""
    operator = few(4)
    halves = np.full_like(operator.weight_scales, 1.0)
    x, y = (
        replace(t, quantization=g.Quantization(1.0, 0))
        for t in (*operator.inputs, *operator.outputs)
    )
    operator = replace(operator, inputs=(x,), outputs=(y,), weight_scales=halves, rounding=rounding)
    bound = bound_of(operator, StatedRounding(MultiplyShift.of(operator, 1)))
    assert bound.is_exact
    assert str(bound) == "at most 0 levels off (proven for the sums of 2 channels, at each step)"


def test_functions_that_are_constant_differ_everywhere() -> None:
    operator = replace(few(4), low=5, high=5)
    none = np.array([0, 0])
    assert bound_of(operator, StatedRounding(MultiplyShift(none, none, zero_point=5))).is_exact
    rule = MultiplyShift(none, none, zero_point=7)
    bound = bound_of(operator, StatedRounding(rule))
    assert (bound.largest, bound.share, bound.worst_share) == (2, 1.0, 1.0)
    assert str(bound) == (
        "at most 2 levels off (proven for the sums of 2 channels, at each step; 100.00 % of them "
        "differ)"
    )


def test_the_worst_channel_is_named_where_it_is_worse() -> None:
    operator = replace(few(4), low=-128, high=127)
    exact = integers_of

    def function(sums: Array) -> Array:
        made = exact(operator, sums)
        made[:, 1] = np.clip(made[:, 1] + 1, -128, 127)
        return made

    text = str(bound_of(operator, StatedRounding(function)))
    assert "at most 1 level off (proven for all " in text
    assert " % in the worst channel)" in text


@pytest.mark.parametrize("level", [-129, 128])
def test_a_level_outside_at_one_sum_is_seen(level: int) -> None:
    operator = few(1)
    low, _ = limits_of_sums(operator)

    def function(sums: Array) -> Array:
        return np.where(sums == low, level, 0)

    with pytest.raises(LoweringError, match=f"gives .*{level}.*not int8"):
        bound_of(operator, StatedRounding(function))
