# SPDX-License-Identifier: Apache-2.0
"""weighted_sum.py: one requantization of a sum of products is a framework's addition, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.integers.requantization_search import OutputRange, on_all_values
from loadstone.vta.integers.weighted_sum import (
    WeightedSum,
    WideSum,
    find_weighted_sum,
    find_wide_sum,
)

VALUES = np.arange(-128, 128)
_SHAPE = (1, 2, 2, 16)


def addition(
    scales: tuple[float, float, float],
    zeros: tuple[int, int, int],
    kind: type[g.Elementwise] = g.Add,
) -> g.Elementwise:
    first, second, output = (
        g.Tensor(name, _SHAPE, "int8", g.Quantization(float(np.float32(scale)), zero))
        for name, scale, zero in zip(("x", "y", "z"), scales, zeros, strict=True)
    )
    return kind(
        name="sum",
        inputs=(first, second),
        outputs=(output,),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )


def found_for(op: g.Elementwise, *, multiplies: bool = True) -> WeightedSum | None:
    return find_weighted_sum(*wanted_of(op), multiplies=multiplies)


def wide_for(op: g.Elementwise) -> WideSum | None:
    return find_wide_sum(*wanted_of(op))


def wanted_of(op: g.Elementwise) -> tuple[np.ndarray, tuple[float, float], OutputRange]:
    first, second, output = (tensor.quantization for tensor in (*op.inputs, op.output))
    assert first is not None
    assert second is not None
    assert output is not None
    scales = (
        first.scale / output.scale,
        (-1 if op.kind == "sub" else 1) * second.scale / output.scale,
    )
    return on_all_values(op), scales, OutputRange(output.zero_point, op.low, op.high)


def computed(found: WeightedSum) -> np.ndarray:
    """Step by step, as the device does it."""
    inputs = (VALUES[:, None], VALUES[None, :])
    acc = inputs[0] * found.high[0] + inputs[1] * found.high[1]
    acc = acc * found.factor + inputs[found.late] * found.low
    assert np.abs(acc).max() < 1 << 31
    return found.requantization.apply(acc)


@pytest.mark.parametrize("kind", [g.Add, g.Sub])
def test_every_pair_gives_the_frameworks_integer(kind: type[g.Elementwise]) -> None:
    rng = np.random.default_rng(3)
    count = 0
    for _ in range(8):
        first, second = rng.uniform(0.02, 0.1, 2)
        output = (first + second) * rng.uniform(0.4, 1.1)
        zeros = tuple(int(zero) for zero in rng.integers(-128, 128, 3))
        op = addition((first, second, output), zeros, kind)  # type: ignore[arg-type]
        found = found_for(op)
        if found is not None:
            count += 1
            assert max(map(abs, (*found.high, found.low))) <= 127
            assert np.array_equal(computed(found), on_all_values(op))
    assert count >= 6


def test_a_residual_of_resnet8_takes_a_factor_that_is_no_power_of_two() -> None:
    scales = (0.039393551647663116, 0.10419496148824692, 0.050945673137903214)
    op = addition(scales, (-128, 4, -128))
    found = found_for(op)
    assert found is not None
    assert found.factor & (found.factor - 1)
    assert np.array_equal(computed(found), on_all_values(op))
    assert found_for(op, multiplies=False) is None


@pytest.mark.parametrize("kind", [g.Add, g.Sub])
def test_wide_weights_give_the_frameworks_integer_for_every_pair(kind: type[g.Elementwise]) -> None:
    rng = np.random.default_rng(4)
    count = 0
    for _ in range(8):
        first, second = np.exp(rng.uniform(np.log(0.005), np.log(0.2), 2))
        output = (first + second) * rng.uniform(0.4, 1.1)
        zeros = tuple(int(zero) for zero in rng.integers(-128, 128, 3))
        op = addition((first, second, output), zeros, kind)  # type: ignore[arg-type]
        found = wide_for(op)
        if found is not None:
            count += 1
            weights = found.weights
            assert max(map(abs, weights)) <= 127 * 128
            acc = VALUES[:, None] * weights[0] + VALUES[None, :] * weights[1]
            assert np.array_equal(found.requantization.apply(acc), on_all_values(op))
    assert count >= 6


def test_what_is_no_sum_has_none() -> None:
    products = np.clip(VALUES[:, None] * VALUES[None, :] // 64, -128, 127)
    assert find_weighted_sum(products, (1.0, 1.0), OutputRange(0), multiplies=True) is None
    always = np.full((256, 256), 7)
    assert find_weighted_sum(always, (1.0, 1.0), OutputRange(0), multiplies=True) is None
    assert find_wide_sum(products, (1.0, 1.0), OutputRange(0)) is None
    assert find_wide_sum(always, (1.0, 1.0), OutputRange(0)) is None


def test_scales_that_are_far_apart_have_none() -> None:
    """A weight of the smaller one would be less than one step of the larger one."""
    op = addition((1e-6, 0.05, 0.05), (0, 0, 0))
    assert found_for(op) is None
    assert wide_for(op) is None
