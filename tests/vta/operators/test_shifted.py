# SPDX-License-Identifier: Apache-2.0
"""Requantization by shifts: the steps are the rule, at every accumulator around which the output
changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.graph import reference as graph_reference
from loadstone.numerics import (
    INT32_MAX,
    Rounding,
    requantize_float64,
)
from loadstone.vta.operators import shifted
from loadstone.vta.operators.shifted import Epilogue
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Step,
    TieCorrection,
)
from tests.repeat import times

BLOCK = 16
#: Inputs whose sums reach every output of shifts up to 16. Beyond, float32 no longer tells sums
#: around the last steps apart, and the rule of ONNX is none that integers can make.
INPUTS, LARGEST = 1200, 16
Int32 = NDArray[np.int32]


def after(epilogue: Epilogue, acc: NDArray[np.int64]) -> Int32:
    """What the steps make of accumulators (channels, n), in the 32 bits of the device."""

    def row(rows: Sequence[ArrayLike], number: int) -> Int32:
        return np.asarray(rows[number], np.int32)[:, None]

    def run(steps: Sequence[Step], x: Int32) -> Int32:
        for step in steps:
            if isinstance(step, ConstantProduct):
                x = x + row(epilogue.products, step.row)
            elif isinstance(step, TieCorrection):
                x = run(step.kept, x) + run(step.steps, x)
            else:
                assert isinstance(step, Immediate | RowOperand)
                y = (
                    np.int32(step.value)
                    if isinstance(step, Immediate)
                    else row(epilogue.rows, step.row)
                )
                assert step.op != "shr" or (np.all(y >= 0) and np.all(y <= 15))
                table = {
                    "add": np.add,
                    "shr": np.right_shift,
                    "min": np.minimum,
                    "max": np.maximum,
                }
                x = table[step.op](x, y)
        return x

    return run(epilogue.tail, acc.astype(np.int32))


def layer(
    shifts: Sequence[int], rounding: Rounding, zero_point: int, bias: ArrayLike = 0
) -> g.Dense:
    """A dense layer with a channel for each shift."""
    channels = len(shifts)
    scales = np.ldexp(np.float32(1), -np.asarray(shifts)).astype(np.float32)
    x = g.Tensor("x", (1, INPUTS), "int8", g.Quantization(1.0, 0))
    y = g.Tensor("y", (1, channels), "int8", g.Quantization(1.0, zero_point))
    return g.Dense(
        name="dense",
        inputs=(x,),
        outputs=(y,),
        weights=np.full((channels, INPUTS), 127, np.int8),
        weight_scales=scales,
        weight_zero_points=np.zeros(channels, np.int32),
        bias=np.broadcast_to(np.asarray(bias, np.int32), (channels,)).copy(),
        low=-128,
        high=127,
        rounding=rounding,
    )


def around_changes(op: g.Dense, shifts: Sequence[int]) -> NDArray[np.int64]:
    """(channels, n): sums, bias included, at and around every half step, and far outside."""
    halves = np.arange(-131 - op.output.zero_point, 131 - op.output.zero_point) * 2 + 1
    step = np.int64(1) << np.asarray(shifts)[:, None, None]
    sums = (halves[None, :, None] * step >> 1) + np.arange(-2, 3)
    far = np.array([-1, 1]) * (np.int64(1) << 28)
    return np.concatenate(
        [sums.reshape(len(shifts), -1), np.broadcast_to(far, (len(shifts), 2))], axis=1
    )


def rule(op: g.Dense, shifts: Sequence[int], acc: NDArray[np.int64]) -> Int32:
    """Written down as the frameworks define it, not as shifts."""
    scale = np.ldexp(1.0, -np.asarray(shifts))[:, None]
    if op.rounding is Rounding.FLOAT32:
        rounded = np.rint(acc * scale)  # exact: 32 bits times a power of two
    elif op.rounding is Rounding.SINGLE:
        rounded = requantize_float64(acc, scale)  # TFLite's FULLY_CONNECTED
    else:
        rounded = np.floor(acc * scale + 0.5)
    clamped = np.clip(rounded + op.output.zero_point, op.low, op.high)
    return np.asarray(clamped, np.int32)


def check(shifts: Sequence[int], rounding: Rounding, zero_point: int, bias: int) -> None:
    op = layer(shifts, rounding, zero_point, bias)
    epilogue = shifted.weighted(op, BLOCK)
    assert isinstance(epilogue, Epilogue), epilogue
    sums = around_changes(op, shifts)
    sums = np.clip(sums, -INT32_MAX // 2, INT32_MAX // 2)
    np.testing.assert_array_equal(after(epilogue, sums - bias), rule(op, shifts, sums))


@pytest.mark.parametrize("rounding", [Rounding.FLOAT32, Rounding.SINGLE])
@pytest.mark.parametrize("zero_point", [0, 1, -1, 5, -128, 127])
def test_the_steps_are_the_rule_around_every_tie(rounding: Rounding, zero_point: int) -> None:
    """Every shift, both signs; the same in all lanes, and different ones side by side."""
    first = 1 if rounding is Rounding.SINGLE else 0
    for shift in range(first, LARGEST + 1):
        check([shift] * 3, rounding, zero_point, bias=-77)
    check([3, 9, 4, 9, 12], rounding, zero_point, bias=40_000)
    check([1, LARGEST, 7], rounding, zero_point, bias=3)


def test_a_lane_that_is_not_shifted_may_stand_beside_others() -> None:
    """No tie is there to decide: the two stairs give the sum itself."""
    check([0, 5, 9], Rounding.FLOAT32, zero_point=3, bias=10)


def test_random_shifts_and_biases() -> None:
    rng = np.random.default_rng(1)
    for _ in range(times(20, 400)):
        shifts = rng.integers(0, LARGEST + 1, int(rng.integers(1, 17))).tolist()
        bias = int(rng.integers(-1, 2)) * int(rng.integers(0, 1 << int(rng.integers(1, 24))))
        check(shifts, Rounding.FLOAT32, int(rng.integers(-128, 128)), bias)


def test_what_a_tail_costs() -> None:
    """Cycles of a tile on vta-pynq behind the sum: an immediate or a product takes one, a tile
    two; the clearing of the copy one, copying and adding it two each."""

    def cycles(steps: Sequence[Step]) -> int:
        return sum(
            5 + cycles((*step.steps, *step.kept))
            if isinstance(step, TieCorrection)
            else 2
            if isinstance(step, RowOperand)
            else 1
            for step in steps
        )

    bias = np.arange(16) * 1000 - 8000
    for shifts, wanted in (([9] * 16, 11), ([9] * 15 + [8], 13), ([0] * 16, 3)):
        op = layer(shifts, Rounding.FLOAT32, 0, bias)
        epilogue = shifted.weighted(op, BLOCK)
        assert isinstance(epilogue, Epilogue)
        assert cycles(epilogue.tail) == wanted


def test_only_what_sums_can_reach_decides() -> None:
    """At shifts of 18 float32 has fewer digits than the sums around the last steps."""
    far = layer([LARGEST + 2], Rounding.FLOAT32, 0)
    assert isinstance(shifted.weighted(far, BLOCK), Refusal)
    near = replace(far, weights=np.ones_like(far.weights))
    epilogue = shifted.weighted(near, BLOCK)
    assert isinstance(epilogue, Epilogue)
    sums = np.arange(-128 * INPUTS, 128 * INPUTS + 1)[None]
    np.testing.assert_array_equal(after(epilogue, sums), rule(near, [LARGEST + 2], sums))


def test_shifts_out_of_reach_are_refused() -> None:
    found = shifted.weighted(layer([-1], Rounding.FLOAT32, 0), BLOCK)
    assert isinstance(found, Refusal)
    assert "a shift of -1 is not in [0, 29]" in found.why


@pytest.mark.parametrize("shift", [-3, -1, 0, 10, 23, 28])
def test_a_channel_that_says_nothing_keeps_its_value_beside_any_scale(shift: int) -> None:
    """53 is no multiple of 2 or 8, and times 2^28 no int32."""
    op = layer([shift, 5], Rounding.FLOAT32, 74, [1 << max(0, shift - 1), 53 << 5])
    op = replace(op, weights=np.stack([op.weights[0], 0 * op.weights[1]]))
    quiet = shifted.without_silent(op, BLOCK)
    (said,) = graph_reference.run_operator(quiet, [np.full((1, INPUTS), 100, np.int8)])
    assert quiet is not op
    assert said[0, 1] == 127


@pytest.mark.parametrize("zero_point", [0, -7])
def test_channels_that_say_nothing_take_the_scale_of_their_neighbours(zero_point: int) -> None:
    """Shifts of 25 and 36 beside one of 10 would need two steps each; no sum reaches half a step of
    theirs."""
    shifts = [10, 25, 36, 10]
    bias = [5, 1 << 25, -3, 100]  # one step of the second channel
    op = layer(shifts, Rounding.FLOAT32, zero_point, bias)
    op = replace(op, weights=np.ones_like(op.weights))
    quiet = shifted.without_silent(op, BLOCK)
    assert quiet.weights[:, 0].tolist() == [1, 0, 0, 1]
    assert set(quiet.weight_scales.tolist()) == {2.0**-10}
    assert quiet.bias.tolist() == [5, 1 << 10, 0, 100]
    x = np.random.default_rng(0).integers(-128, 128, (50, INPUTS))
    x = np.concatenate([x, np.full((1, INPUTS), -128), np.full((1, INPUTS), 127)]).T
    sums = op.weights.astype(np.int64) @ x
    epilogue = shifted.weighted(op, BLOCK)
    assert isinstance(epilogue, Epilogue)
    found = after(epilogue, quiet.weights.astype(np.int64) @ x)
    np.testing.assert_array_equal(found, rule(op, shifts, sums + op.bias[:, None]))
