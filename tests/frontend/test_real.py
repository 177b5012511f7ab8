# SPDX-License-Identifier: Apache-2.0
"""frontend/real.py: constants that are moved with their scales, and what stays on the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.frontend.real import (
    Real,
    clamps_on_grid,
    flipped,
    folded,
    keeps_grid,
    quantized_constant,
)
from loadstone.relax.compat import constant, relax, value

INTEGERS = np.arange(24, dtype=np.int8).reshape(2, 3, 4)


def real(axis: int = 0, channels: int = 1) -> Real:
    scale = np.linspace(0.1, 0.3, channels, dtype=np.float32)
    return Real(constant(INTEGERS), scale, np.zeros(channels, np.int32), axis)


def normalized(call: Any) -> Any:
    """The call with its shape, as in a function."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    (binding,) = builder.get()["main"].body.blocks[0].bindings
    return binding.value


def test_scales_travel_with_their_axis() -> None:
    moved = folded(
        normalized(relax.op.permute_dims(constant(INTEGERS), [2, 0, 1])), real(axis=1, channels=3)
    )
    assert moved is not None
    assert moved.axis == 2
    np.testing.assert_array_equal(value(moved.stored), INTEGERS.transpose(2, 0, 1))


def test_one_scale_is_for_any_shape() -> None:
    moved = folded(normalized(relax.op.reshape(constant(INTEGERS), (6, 4))), real())
    assert moved is not None
    assert value(moved.stored).shape == (6, 4)


def test_an_axis_with_scales_that_would_be_merged_stays() -> None:
    call = normalized(relax.op.reshape(constant(INTEGERS), (6, 4)))
    assert folded(call, real(axis=0, channels=2)) is None
    assert folded(call, real(axis=2, channels=4)) is not None  # the last axis stays as it is


def test_flipping_takes_128_off() -> None:
    stored = flipped(constant(np.array([0, 128, 255], np.uint8)))
    assert value(stored).tolist() == [-128, 0, 127]


@pytest.mark.parametrize(("half_away", "expected"), [(True, [1, -1, 2]), (False, [0, 0, 2])])
def test_weights_left_in_float_are_rounded_as_the_reader_does(
    half_away: bool, expected: list[int]
) -> None:
    weights = np.array([0.5, -0.5, 1.5], np.float32)
    one = constant(np.float32(1)), constant(np.int8(0))
    call = relax.op.quantize(constant(weights), *one, axis=-1, out_dtype="int8")
    got = quantized_constant(call, weights, np.float32(1), np.int8(0), half_away=half_away)
    assert value(got).tolist() == expected


@pytest.mark.parametrize(
    ("pad_value", "kept"), [(0.0, True), (0.5, True), (0.3, False), (99.0, False)]
)
def test_a_pad_must_be_a_value_that_the_integers_have(pad_value: float, kept: bool) -> None:
    source = Real(constant(INTEGERS), np.array([0.25], np.float32), np.array([3], np.int32), 0)
    call = relax.op.nn.pad(constant(INTEGERS.astype(np.float32)), [0] * 6, "constant", pad_value)
    assert keeps_grid(call, source) == kept
    assert keeps_grid(relax.op.nn.relu(constant(INTEGERS.astype(np.float32))), source)


@pytest.mark.parametrize(
    ("bounds", "kept"), [((0.0, 6.0), True), ((0.0, 6.1), False), ((-99.0, 99.0), True)]
)
def test_a_clamp_must_be_between_points_of_the_grid(
    bounds: tuple[float, float], kept: bool
) -> None:
    x = relax.Var("x", relax.TensorType((4,), "int8"))
    grid = constant(np.float32(0.25)), constant(np.int8(0))
    source = relax.op.dequantize(x, *grid, axis=-1, out_dtype="float32")
    assert clamps_on_grid(relax.op.clip(source, *bounds), source) == kept
    assert clamps_on_grid(relax.op.nn.relu(source), source)


def test_quantizations_are_compared_by_value() -> None:
    assert real().same_quantization(real())
    assert not real().same_quantization(real(channels=3))
