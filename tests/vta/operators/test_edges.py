# SPDX-License-Identifier: Apache-2.0
"""vta/operators/edges.py: padding that is not 0 is not multiplied, and every integer stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.operators import constants, edges
from loadstone.vta.operators.edges import with_edges
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.weighted import conv_spec
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.schedule.choices import NO_LAYER_CHOICE, LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.stream.operations import GemmNest, Operation, TileLoad, TileRole
from tests import lowered as lo

VTAQ = load_config("vtaq-1x16x16")
DEVICES = ("vtaq-1x16x16", "vtaq-1x8x8", "vtaq-4x16x16", "vtaq-tiny", "vta-pynq")
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def always(spec: ConvSpec, config: HwConfig, _choice: LayerChoice) -> int:
    """A cost model to which edges are free."""
    return 0 if spec.edges else 1000


def layer(
    channels: int, size: int, zero_point: int = -128, groups: int = 1, padding: int = 1
) -> g.Conv2D:
    """3x3 with padding all around, as many channels out as in."""
    rng = np.random.default_rng(channels)
    shape, out = (1, size, size, channels), size - 2 + 2 * padding
    op = lo.small_convolution()
    return replace(
        op,
        inputs=(lo.tensor("x", shape, 0.0625, zero_point),),
        outputs=(lo.tensor("y", (1, out, out, channels), 0.0625, -2),),
        weights=rng.integers(-127, 128, (channels, 3, 3, channels // groups)).astype(np.int8),
        weight_scales=np.full(channels, 2.0**-9, np.float32),
        weight_zero_points=np.zeros(channels, np.int32),
        bias=rng.integers(-2000, 2000, channels).astype(np.int32),
        groups=groups,
        padding=(padding,) * 4,
    )


def edges_of(op: g.Conv2D, config: HwConfig = VTAQ) -> edges.Edges:
    return with_edges(conv_spec(op, config), constants.centred_weights(op), config, NO_LAYER_CHOICE)


def steps(operations: list[Operation]) -> int:
    return sum(int(np.prod(o.extents)) for o in operations if isinstance(o, GemmNest))


def skipped(operations: list[Operation], config: HwConfig) -> list[Operation]:
    """Behind vta/passes/skip_pads/skip_pads.py and its verifier."""
    before = VtaProgram(config, {}, [("conv", operation) for operation in operations])
    after = SkipPads().run(before)
    SkipPads().verify(before, after)
    return [operation for _, operation in after.operations]


@given(st.data())
@quick
def test_any_convolution_is_exact_with_edges(data: Any) -> None:
    config = data.draw(lo.devices(DEVICES))
    op = data.draw(lo.convolutions(config, largest_channels=40))
    if config.profile == "vta":
        op = data.draw(lo.with_shifts(op))
    (x,) = lo.random_inputs(op, 4)
    with patch.object(edges, "_cycles", always):
        try:
            result, _ = lo.run(op, config, [x])
        except LoweringError:  # a tile with its edges fits no scratchpad, or the device refuses it
            assume(False)
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


def test_what_the_padding_came_to_is_added_in_one_step() -> None:
    op = layer(64, 8)
    (x,) = lo.random_inputs(op, 1)
    result, lowered = lo.run(op, VTAQ, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
    inside, tiles = 22 * 22, sum(len(e.products) * np.prod(e.size) for e in edges_of(op).spec.edges)
    left = skipped(lowered.operations, VTAQ)
    assert steps(left) == 16 * inside + 4 * tiles
    assert 28 <= tiles <= 56  # 28 pixels at edges, a step or two each
    assert all(o.pad_value == 0 for o in left if isinstance(o, TileLoad))


def test_the_pass_that_leaves_products_out_keeps_every_integer() -> None:
    op = layer(64, 8)
    (x,) = lo.random_inputs(op, 2)
    whole = lo.lower_operator
    with patch.object(lo, "lower_operator", lambda *given: _skipping(whole(*given))):
        result, _ = lo.run(op, VTAQ, [x])
    np.testing.assert_array_equal(result, lo.weighted_reference(op, x))


def _skipping(lowered: Any) -> Any:
    return replace(lowered, operations=skipped(lowered.operations, VTAQ))


def test_taps_of_a_depthwise_layer_share_one_weight_tile() -> None:
    found = edges_of(layer(384, 14, groups=384))
    assert len(found.spec.edges) == 8
    assert len(found.weights) == 24  # one of each channel block
    assert {product for e in found.spec.edges for product in e.products} == {
        (n, 0) for n in range(8)
    }
    top = found.inputs[1, 0]  # in the middle of the first row
    assert np.count_nonzero(top) == 3
    assert set(top.tolist()) == {0, -128}


def test_the_weights_of_a_dense_layer_are_added_up_for_each_edge() -> None:
    op = layer(64, 8)
    found = edges_of(op)
    (top,) = [e for e in found.spec.edges if e.rows == (0, 1) and e.columns == (1, 7)]
    sums = op.weights.astype(np.int64)[:, 0].sum(axis=(1, 2))
    per_block = found.spec.edge_tiles
    tiles = found.weights.reshape(4, per_block, 16, 16)[:, [tile for _, tile in top.products]]
    assert np.array_equal(tiles.astype(np.int64).sum(axis=(1, 3)).ravel(), sums)
    assert (found.inputs == -128).all()


@pytest.mark.parametrize(
    "op",
    [layer(64, 8, zero_point=0), layer(16, 3), layer(64, 8, padding=0)],
    ids=["padding of 0", "few pixels", "no padding"],
)
def test_where_it_does_not_pay_a_layer_is_as_it_was(op: g.Conv2D) -> None:
    found = edges_of(op)
    assert found.spec == conv_spec(op, VTAQ)
    assert not found.inputs.size
    assert not found.weights.size


def test_a_chosen_tile_that_has_no_room_for_edges_does_without() -> None:
    config = load_config("vtaq-tiny")
    op = layer(16, 4)
    choice = LayerChoice(tile=(1, 1, 1, 1, 1, 1), order="channels")
    (x,) = lo.random_inputs(op, 3)
    for request, has_edges in ((LayerRequest(choice), False), (LayerRequest(), True)):
        result, lowered = lo.run(op, config, [x], request=request)
        np.testing.assert_array_equal(result, lo.weighted_reference(op, x))
        loads = [o for o in lowered.operations if isinstance(o, TileLoad)]
        assert any(load.dram.role is TileRole.EDGES for load in loads) == has_edges


def test_edges_of_a_tile_become_few_gemms() -> None:
    _, lowered = lo.run(layer(64, 8), VTAQ, list(lo.random_inputs(layer(64, 8), 1)))
    constant = {
        o.tile
        for o in lowered.operations
        if isinstance(o, TileLoad) and o.dram.role is TileRole.EDGES
    }
    gemms = [o for o in lowered.operations if isinstance(o, GemmNest) and o.wgt.tile in constant]
    assert len(gemms) < 8 * len(constant)
