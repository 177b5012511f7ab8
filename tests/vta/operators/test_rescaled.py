# SPDX-License-Identifier: Apache-2.0
"""vta/operators/rescaled.py: layers of any scale on VTA as it is, run in NumPy tile by tile."""

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
from loadstone.vta.integers.steps import name_of
from loadstone.vta.operators import lower_operator, unsupported_reason
from loadstone.vta.operators.layer_plans import layer_plans
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.passes.allocate.allocate import Allocate, allocate
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.schedule.choices import LayerChoice
from loadstone.vta.stream.operations import TileStore
from tests import lowered as lo
from tests.repeat import times

quick = settings(
    max_examples=times(5, 300),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


@given(st.data())
@quick
def test_convolutions_of_any_scale_are_exact(data: Any) -> None:
    config = data.draw(lo.devices(lo.VTA))
    op = data.draw(lo.convolutions(config, 40))
    assume(unsupported_reason(op, config) is None)
    (x,) = lo.random_inputs(op, 1)
    result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
    allocate(lowered.columns, config)


@given(st.data())
@quick
def test_dense_layers_of_any_scale_are_exact(data: Any) -> None:
    config = data.draw(lo.devices(lo.VTA))
    op = data.draw(lo.dense_layers(config))
    assume(unsupported_reason(op, config) is None)
    (x,) = lo.random_inputs(op, 2)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.reference(op, [x]))


@pytest.mark.parametrize(
    ("scale", "form", "rounding"),
    [
        (0.02, "D2", Rounding.DOUBLE),
        (0.0012, "D3", Rounding.DOUBLE),
        (0.0012, "P", Rounding.DOUBLE),
        (1e-9, "D2", Rounding.DOUBLE),
        (0.02, "D2", Rounding.FLOAT32),
    ],
)
def test_each_form_is_exact(scale: float, form: str, rounding: Rounding) -> None:
    config = load_config("vta-pynq")
    channels = 16 if form == "P" else 80
    op = convolution(channels, 1 if form == "P" else 3, scale, rounding)
    plans = layer_plans(op, config, 1 if form == "P" else 45)
    assert plans is not None
    names = {name_of(plan) for plan in plans if plan is not None}
    assert {name[: len(form)] for name in names} == {form}
    (x,) = lo.random_inputs(op, 3)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


def convolution(channels: int, taps: int, scale: float, rounding: Rounding) -> g.Conv2D:
    """20 output channels whose scale is near `scale`, behind a ReLU."""
    rng = np.random.default_rng(5)
    size = 9 - taps + 1
    x = lo.tensor("x", (1, 9, 9, channels), 1.0, -7)
    out = lo.tensor("y", (1, size, size, 20), 1.0, -128)
    return g.Conv2D(
        name="c",
        inputs=(x,),
        outputs=(out,),
        weights=rng.integers(-128, 128, (20, taps, taps, channels)).astype(np.int8),
        weight_scales=(scale * rng.uniform(1, 1.3, 20)).astype(np.float32),
        weight_zero_points=np.zeros(20, np.int32),
        bias=rng.integers(-900, 900, 20).astype(np.int32),
        low=-128,
        high=127,
        rounding=rounding,
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
    )


def test_samples_share_constants_and_not_scratch() -> None:
    config = load_config("vta-pynq")
    op = lo.for_samples(convolution(24, 3, 0.0013, Rounding.DOUBLE), 2)
    (x,) = lo.random_inputs(op, 4)
    result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
    (tiles,) = lowered.scratch.values()
    stores = [
        o for o in lowered.operations if isinstance(o, TileStore) and "digits" in o.dram.tensor
    ]
    written = {
        o.dram.tile + row * o.x_stride + column
        for o in stores
        for row in range(o.y_size)
        for column in range(o.x_size)
    }
    assert written == set(range(tiles)), "each tile of the scratch is written once"
    assert sum(o.y_size * o.x_size for o in stores) == tiles


def test_sums_that_leave_32_bits_stay_on_the_host() -> None:
    op = convolution(24, 3, 0.0013, Rounding.DOUBLE)
    op = replace(op, bias=np.full_like(op.bias, 2**31 - 1))
    refusal = unsupported_reason(op, load_config("vta-pynq"))
    assert refusal is not None
    assert "32 bits" in refusal.why
    assert lower_operator(convolution(24, 3, 0.0013, Rounding.DOUBLE), load_config("vta-pynq"))


def test_a_constant_that_two_tiles_in_flight_share_passes_the_verifiers() -> None:
    """The later tile takes over what the earlier one still reads: its content is the same."""
    config = load_config("vta-pynq")
    op = convolution(80, 3, 0.0012, Rounding.DOUBLE)
    operations = [("c", o) for o in lower_operator(op, config).operations]
    program = VtaProgram(config, {}, operations)
    allocated = Allocate().run(program)
    Allocate().verify(program, allocated)
    assert allocated.loads_dropped


def test_a_layer_of_one_pixel_whose_blocks_do_not_fit_together_is_cut() -> None:
    """1,001 classes: 63 blocks of channels, whose weights would be joined where they fit."""
    config = load_config("vta-pynq")
    rng = np.random.default_rng(7)
    op = g.Dense(
        name="classes",
        inputs=(lo.tensor("x", (1, 256), 1.0, -7),),
        outputs=(lo.tensor("y", (1, 1001), 1.0, 3),),
        weights=rng.integers(-128, 128, (1001, 256)).astype(np.int8),
        weight_scales=np.full(1001, 0.0007, np.float32),
        weight_zero_points=np.full(1001, -34, np.int32),
        bias=rng.integers(-900, 900, 1001).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    assert unsupported_reason(op, config) is None
    (x,) = lo.random_inputs(op, 4)
    result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.reference(op, [x]))
    allocate(lowered.columns, config)


def test_a_row_whose_length_is_a_prime_is_exact_in_parts() -> None:
    """257 columns as DeepLab has them: the last tile of a row hangs over."""
    config = load_config("vta-pynq")
    op = convolution(16, 1, 0.0013, Rounding.DOUBLE)
    shapes = (1, 2, 257, 16), (1, 2, 257, 20)
    tensors = (replace(t, shape=s) for t, s in zip((op.input, op.output), shapes, strict=True))
    source, target = tensors
    op = replace(op, inputs=(source,), outputs=(target,))
    (x,) = lo.random_inputs(op, 6)
    result, lowered = lo.run(
        op, config, [x], request=LayerRequest(choice=LayerChoice(form="digits"))
    )
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
    stores = [o for o in lowered.operations if isinstance(o, TileStore)]
    assert len({o.x_size * o.y_size for o in stores}) > 1, "one is smaller"
    assert len(stores) < 60
    allocate(lowered.columns, config)
