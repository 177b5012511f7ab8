# SPDX-License-Identifier: Apache-2.0
"""vta/operators/: every operator's stream, run in NumPy, gives the integers that numerics
gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import AluOp, Capability
from loadstone.vta.operators import (
    constants,
    im2col_input,
    lower_operator,
    unsupported_reason,
    weighted,
)
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.stream.operations import AluNest, GemmNest, LaneWindow, TileLoad
from tests import lowered as lo
from tests.repeat import times
from tests.simulated import EIGHT_WINDOWS, FOUR_WINDOWS, TINY_WINDOWS

WINDOWS = load_config("vtaq2-1x16x16")
NO_MUL = replace(
    WINDOWS, name="shifts-alone", capabilities=WINDOWS.capabilities & ~Capability.ALU_MUL
)

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@given(st.data())
@quick
def test_convolutions_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.convolutions(config))
    (x,) = lo.random_inputs(op, 1)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


@given(st.data())
@quick
def test_depthwise_convolutions_are_exact_where_a_step_takes_a_window(data: Any) -> None:
    """Of every kernel that fits, with any strides and padding; the cost model has no say."""
    config = data.draw(st.sampled_from([WINDOWS, TINY_WINDOWS, EIGHT_WINDOWS, FOUR_WINDOWS]))
    op = data.draw(lo.convolutions(config))
    rows, columns = op.weights.shape[1:3]
    fits = rows <= min(3, config.block // 4) and columns <= 3 and op.dilation == (1, 1)
    assume(fits and op.groups == op.weights.shape[0] > 1 == op.weights.shape[3])
    with patch.object(weighted, "_tiled_cycles", lambda spec, _: not spec.by_lane):
        (x,) = lo.random_inputs(op, 1)
        result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
    products = [o for o in lowered.operations if isinstance(o, GemmNest)]
    wide = bool((constants.centred_weights(op) < -128).any())
    wide |= bool((constants.centred_weights(op) > 127).any())
    assert all((o.window is None) == wide for o in products)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
def test_a_depthwise_layer_takes_windows_where_they_take_less(strides: tuple[int, int]) -> None:
    """3x3 on 24x24 pixels and 40 channels: on the device that has them, and not on another."""
    rng = np.random.default_rng(0)
    rows, columns = (24 // stride for stride in strides)
    op = replace(
        lo.small_convolution(),
        inputs=(lo.tensor("x", (1, 24, 24, 40), 0.0625, 3),),
        outputs=(lo.tensor("y", (1, rows, columns, 40), 0.0625, -2),),
        weights=rng.integers(-128, 128, (40, 3, 3, 1)).astype(np.int8),
        weight_scales=np.full(40, 2.0**-9, np.float32),
        weight_zero_points=np.zeros(40, np.int32),
        bias=rng.integers(-2000, 2000, 40).astype(np.int32),
        strides=strides,
        groups=40,
    )
    (x,) = lo.random_inputs(op, 2)
    without = load_config("vtaq-1x16x16")
    for config, has in ((WINDOWS, True), (without, False)):
        result, lowered = lo.run(op, config, [x])
        np.testing.assert_array_equal(result, lo.reference(op, [x]))
        windows = [o.window is not None for o in lowered.operations if isinstance(o, GemmNest)]
        assert all(windows) if has else not any(windows)
    cycles = [weighted.estimated_cycles(op, c, from_host=False) for c in (WINDOWS, without)]
    assert cycles[0] * 1.2 < cycles[1]


@pytest.mark.parametrize("kind", [g.Add, g.Sub])
def test_a_sum_of_two_tensors_takes_two_steps_of_wide_weights(kind: type[g.Elementwise]) -> None:
    """On devices that have them, of any block; on another three products and a shift. The scales
    are those of a residual of ResNet8, all pairs of values are there."""
    first, second, output = (0.039393551647663116, 0.10419496148824692, 0.050945673137903214)
    op = kind(
        name="sum",
        inputs=(
            lo.tensor("x", (2, 8, 16, 256), first, -128),
            lo.tensor("y", (2, 8, 16, 256), second, 4),
        ),
        outputs=(lo.tensor("z", (2, 8, 16, 256), output, -128),),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = [axis.reshape(2, 8, 16, 256) for axis in np.meshgrid(values, values)]
    without = load_config("vtaq-1x16x16")
    for config in (WINDOWS, EIGHT_WINDOWS, FOUR_WINDOWS, without):
        result, lowered = lo.run(op, config, pairs)
        np.testing.assert_array_equal(result, lo.reference(op, pairs))
        found = {o.window for o in lowered.operations if isinstance(o, GemmNest)}
        multiplied = any(isinstance(o, AluNest) for o in lowered.operations)
        assert found == ({None} if config is without else {LaneWindow(1, 1, 0, wide=True)})
        assert multiplied == (config is without)


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vtaq-tiny", "vta-pynq"])
@pytest.mark.parametrize("padding", [(20, 3, 17, 1), (2, 18, 2, 30), (16, 16, 16, 16)])
def test_pads_that_no_field_of_load_holds_come_from_a_constant(
    device: str, padding: tuple[int, int, int, int]
) -> None:
    config = load_config(device)
    op = lo.small_convolution()
    rows, columns = 6 + padding[0] + padding[2] - 2, 5 + padding[1] + padding[3] - 2
    op = replace(op, padding=padding, outputs=(replace(op.output, shape=(1, rows, columns, 7)),))
    (x,) = lo.random_inputs(op, 11)
    result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.reference(op, [x]))
    pads = [
        max(o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
        for o in lowered.operations
        if isinstance(o, TileLoad)
    ]
    assert max(pads) <= 15


@pytest.mark.parametrize(
    "channels", [slice(2, 3), slice(0, 7)], ids=["in GEMMs of their own", "in every sum"]
)
def test_the_largest_weight_less_the_least_zero_point_takes_three_parts(channels: slice) -> None:
    """127 - -128 = 255 = 127 + 127 + 1."""
    config = load_config("vtaq-tiny")
    op = lo.small_convolution()
    weights, zero_points = op.weights.copy(), np.zeros(7, np.int32)
    weights[channels], zero_points[channels] = 127, -128
    op = replace(op, weights=weights, weight_zero_points=zero_points)
    (x,) = lo.random_inputs(op, 3)
    result, lowered = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.reference(op, [x]))
    assert any("rest" in name for name in lowered.constants) == (channels.stop == 3)


@given(st.data())
@quick
def test_first_layers_are_exact_on_a_im2col_input(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.convolutions(config, largest_channels=3))
    layout = im2col_input(op, config)
    if layout is None:
        return
    (x,) = lo.random_inputs(op, 2)
    result, _ = lo.run(op, config, [x], layout)
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


@given(st.data())
@quick
def test_dense_layers_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.dense_layers(config))
    (x,) = lo.random_inputs(op, 3)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


@given(st.data())
@quick
def test_elementwise_operators_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.elementwise(config))
    assume(op.rounding is not Rounding.FLOAT32 or unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 4)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


@given(st.data())
@quick
def test_without_a_multiplying_alu_elementwise_operators_are_exact_or_refused(data: Any) -> None:
    """What the device could not encode stays on the host."""
    op = data.draw(lo.elementwise(NO_MUL))
    assume(op.rounding is not Rounding.FLOAT32 or unsupported_reason(op, WINDOWS) is None)
    refusal = unsupported_reason(op, NO_MUL)
    if refusal is not None:
        assert "the ALU does not multiply" in str(refusal)
        assert isinstance(op, g.Mul | g.Sub)
        return
    inputs = lo.random_inputs(op, 4)
    result, lowered = lo.run(op, NO_MUL, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))
    assert not any(isinstance(o, AluNest) and o.op is AluOp.MUL for o in lowered.operations)


@given(st.data())
@quick
def test_average_pools_and_means_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.averages(config))
    assume(op.rounding is not Rounding.FLOAT32 or unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 5)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


@given(st.data())
@quick
def test_moves_and_max_pools_are_exact(data: Any) -> None:
    config = data.draw(lo.devices())
    op = data.draw(lo.moves(config))
    inputs = lo.random_inputs(op, 6)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


# --------------------------------------------------------------------------------------------------
# Devices without RQ
# --------------------------------------------------------------------------------------------------


@given(st.data())
@quick
def test_convolutions_by_shifts_are_exact(data: Any) -> None:
    config = data.draw(lo.devices(lo.VTA))
    op = data.draw(lo.with_shifts(data.draw(lo.convolutions(config))))
    op = replace(op, rounding=data.draw(st.sampled_from([Rounding.SINGLE, Rounding.FLOAT32])))
    assume(unsupported_reason(op, config) is None)
    (x,) = lo.random_inputs(op, 7)
    result, _ = lo.run(op, config, [x])
    np.testing.assert_array_equal(result, lo.reference(op, [x]))


def test_what_shifts_cannot_do_the_gemm_core_does_but_for_sums_that_leave_32_bits() -> None:
    config = load_config("vta-pynq")
    op = lo.small_convolution()
    odd = replace(op, weight_scales=np.full(op.bias.shape, 0.003, np.float32))
    twice = replace(op, rounding=Rounding.DOUBLE)
    for layer, scratch in ((op, 0), (odd, 1), (twice, 1)):
        (x,) = lo.random_inputs(layer, 7)
        result, lowered = lo.run(layer, config, [x])
        np.testing.assert_array_equal(result, lo.reference(layer, [x]))
        assert bool(lowered.remark) == bool(scratch)
    far = replace(op, bias=np.full(op.bias.shape, 2**31 - 1, np.int32))
    assert "can leave 32 bits" in str(unsupported_reason(far, config))


@pytest.mark.parametrize(
    ("rounding", "least_steps"), [(Rounding.SINGLE, 4), (Rounding.FLOAT32, 12)]
)
def test_ties_go_where_the_rule_sends_them(rounding: Rounding, least_steps: int) -> None:
    """Half up is a shift; half to even takes a correction from a copy of the sum."""
    config = load_config("vta-pynq")
    op = replace(lo.small_convolution(), rounding=rounding)
    assert unsupported_reason(op, config) is None
    inputs = lo.random_inputs(op, 8)
    result, lowered = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))
    assert sum(isinstance(operation, AluNest) for operation in lowered.operations) >= least_steps


def test_ties_cost_nothing_where_a_clamp_hides_them() -> None:
    """TFLite's dense layer rounds ties away from zero; only negative sums differ, and a ReLU clamps
    those."""
    config = load_config("vta-pynq")
    op = lo.small_dense()
    relu = replace(op, low=op.output.zero_point)
    for layer, corrected in ((op, True), (relu, False)):
        inputs = lo.random_inputs(layer, 8)
        result, lowered = lo.run(layer, config, inputs)
        np.testing.assert_array_equal(result, lo.reference(layer, inputs))
        signs = [
            o
            for o in lowered.operations
            if isinstance(o, AluNest) and o.op is AluOp.MIN and o.src is None and o.imm == 0
        ]
        assert bool(signs) is corrected


@given(st.data())
@quick
def test_elementwise_operators_by_shifts_are_exact(data: Any) -> None:
    config = data.draw(lo.devices(lo.VTA))
    op = data.draw(lo.elementwise(config, st.sampled_from([0.03125, 0.0625, 0.125])))
    assume(unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 9)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


@given(st.data())
@quick
def test_moves_and_max_pools_need_no_requantization(data: Any) -> None:
    config = data.draw(lo.devices(lo.VTA))
    op = data.draw(lo.moves(config))
    assume(not isinstance(op, g.ResizeBilinear) or unsupported_reason(op, config) is None)
    inputs = lo.random_inputs(op, 10)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


# --------------------------------------------------------------------------------------------------
# Many
# --------------------------------------------------------------------------------------------------

FAMILIES: dict[str, Callable[[HwConfig], st.SearchStrategy[g.Operator]]] = {
    "convolutions": lambda config: lo.convolutions(config, largest_channels=200),
    "dense": lo.dense_layers,
    "elementwise": lo.elementwise,
    "averages": lo.averages,
    "moves": lo.moves,
}


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("device", lo.VTAQ)
def test_many_of_each_are_exact_and_can_be_placed(device: str, family: str) -> None:
    config = load_config(device)

    @given(FAMILIES[family](config), st.integers(0, 99))
    @settings(quick, max_examples=times(15, 100))
    def check(op: g.Operator, seed: int) -> None:
        assume(unsupported_reason(op, config) is None)
        inputs = lo.random_inputs(op, seed)
        result, lowered = lo.run(op, config, inputs)
        np.testing.assert_array_equal(result, lo.reference(op, inputs))
        allocate(lowered.columns, config)

    check()


# --------------------------------------------------------------------------------------------------
# What is refused
# --------------------------------------------------------------------------------------------------


def test_an_operator_without_a_lowering_is_named() -> None:
    op = g.Softmax(
        name="probabilities",
        inputs=(lo.tensor("x", (1, 10)),),
        outputs=(lo.tensor("y", (1, 10)),),
        rounding=lo.Rounding.DOUBLE,
    )
    with pytest.raises(
        LoweringError, match="softmax probabilities: vtaq-tiny has no lowering of softmax"
    ):
        lower_operator(op, load_config("vtaq-tiny"))
