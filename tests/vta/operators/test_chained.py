# SPDX-License-Identifier: Apache-2.0
"""Operators between any scales on devices that have no RQ: every one that is taken is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import unsupported_reason
from loadstone.vta.passes.allocate.allocate import allocate
from tests import lowered as lo
from tests.repeat import times

quick = settings(
    max_examples=times(10, 200), deadline=None, suppress_health_check=list(HealthCheck)
)


def check(op: g.Operator, device: str, seed: int = 11) -> int:
    """Runs the operator; the number of operations that it became."""
    config = load_config(device)
    arrays = dict(
        zip((t.name for t in op.inputs), lo.random_inputs(op, seed), strict=True)
    )  # one for each tensor: two inputs may be one
    inputs = [arrays[tensor.name] for tensor in op.inputs]
    result, lowered = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))
    allocate(lowered.columns, config)
    return len(lowered.operations)


@given(st.data())
@quick
def test_elementwise_operators_between_any_scales_are_exact(data: Any) -> None:
    device = data.draw(st.sampled_from(lo.VTA))
    op = data.draw(lo.elementwise(load_config(device)))
    assume(unsupported_reason(op, load_config(device)) is None)
    check(op, device)


@given(st.data())
@quick
def test_averages_between_any_scales_are_exact(data: Any) -> None:
    device = data.draw(st.sampled_from(lo.VTA))
    op = data.draw(lo.averages(load_config(device)))
    assume(unsupported_reason(op, load_config(device)) is None)
    check(op, device)


@given(st.data())
@quick
def test_moves_and_interpolations_are_exact(data: Any) -> None:
    device = data.draw(st.sampled_from(lo.VTA))
    op = data.draw(lo.moves(load_config(device)))
    assume(unsupported_reason(op, load_config(device)) is None)
    check(op, device)


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("unsigned", [False, True])
def test_bilinear_resizing_needs_no_requantization(factor: int, unsigned: bool) -> None:
    op = g.ResizeBilinear(
        name="op",
        inputs=(lo.tensor("x", (1, 5, 6, 20)),),
        outputs=(lo.tensor("y", (1, 5 * factor, 6 * factor, 20)),),
        align_corners=False,
        half_pixel_centers=True,
        rounding=Rounding.DOUBLE,
        unsigned=unsigned,
    )
    assert unsupported_reason(op, load_config("vta-pynq")) is None
    check(op, "vta-pynq")


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0)])
def test_border_windows_of_an_average_have_divisors_of_their_own(
    padding: tuple[int, int, int, int],
) -> None:
    x = lo.tensor("x", (1, 7, 9, 20), 0.0625, 5)
    size = (7 + padding[0] + padding[2] - 2, 9 + padding[1] + padding[3] - 2)
    op = g.AveragePool2D(
        name="op",
        inputs=(x,),
        outputs=(replace(x, name="y", shape=(1, *size, 20)),),
        kernel=(3, 3),
        strides=(1, 1),
        padding=padding,
        count_include_pad=False,
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    assert unsupported_reason(op, load_config("vta-pynq")) is None
    check(op, "vta-pynq")


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.FLOAT32])
@pytest.mark.parametrize("widths", [(16, 32, 7), (20, 28, 7), (3, 3, 49)])
def test_a_concatenation_may_change_quantizations(
    rounding: Rounding, widths: tuple[int, ...]
) -> None:
    """Also where inputs share a block of channels."""
    scales = (0.05, 0.0317, 0.0731)
    inputs = tuple(
        lo.tensor(f"x{n}", (1, 3, 5, width), scale, 9 - n)
        for n, (width, scale) in enumerate(zip(widths, scales, strict=True))
    )
    op = g.Concatenate(
        name="op",
        inputs=inputs,
        outputs=(lo.tensor("y", (1, 3, 5, 55), 0.05, 9),),
        axis=3,
        low=-128,
        high=127,
        rounding=rounding,
    )
    assert unsupported_reason(op, load_config("vta-pynq")) is None
    check(op, "vta-pynq")


def test_a_tensor_added_to_itself_is_one_input() -> None:
    x = lo.tensor("x", (1, 3, 5, 20), 0.05, 3)
    op = g.Add(
        name="op",
        inputs=(x, x),
        outputs=(lo.tensor("y", (1, 3, 5, 20), 0.08, -3),),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    check(op, "vta-pynq")


def test_a_mean_that_nothing_equals_is_refused_with_a_reason() -> None:
    """What float32's own rounding decides: ties of an average of 30 elements."""
    x = lo.tensor("x", (1, 6, 5, 16), 0.0625)
    op = g.Mean(
        name="op",
        inputs=(x,),
        outputs=(replace(x, name="y", shape=(1, 16)),),
        axes=(1, 2),
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
    )
    refusal = unsupported_reason(op, load_config("vta-pynq"))
    assert refusal is not None
    assert "no multipliers of 24 bits equal a mean of 30" in refusal.why
