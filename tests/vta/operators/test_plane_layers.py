# SPDX-License-Identifier: Apache-2.0
"""vta/operators/plane_layers.py: sums as planes of bytes, on the stream reference, are the graph's
on every device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.graph import reference
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Capability
from loadstone.vta.operators import lower_operator, unsupported_reason
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.stream.operations import AluNest, GemmNest, TileStore
from tests.lowered import VTA, VTAQ, random_inputs, run


def dense(rows: tuple[int, ...], depth: int, columns: int, planes: int = 3) -> g.PlaneDense:
    rng = np.random.default_rng(depth + columns)
    weights = rng.integers(-127, 128, (columns, depth)).astype(np.int8)
    weights[0] = 127
    return g.PlaneDense(
        name="y",
        inputs=(g.Tensor("x", (*rows, depth), "int8"),),
        outputs=(g.Tensor("y", (*rows, planes * columns), "int8"),),
        weights=weights,
        planes=planes,
    )


def conv(groups: int, planes: int = 3) -> g.PlaneConv2D:
    rng = np.random.default_rng(groups)
    return g.PlaneConv2D(
        name="y",
        inputs=(g.Tensor("x", (4, 6, 7, 32), "int8"),),
        outputs=(g.Tensor("y", (4, 3, 7, 32 * planes), "int8"),),
        weights=rng.integers(-128, 128, (32, 3, 3, 32 // groups)).astype(np.int8),
        planes=planes,
        strides=(2, 1),
        dilation=(1, 1),
        padding=(1, 1, 0, 1),
        groups=groups,
    )


def whole(op: g.PlaneWeighted) -> g.PlaneWeighted:
    """The same, whose sums leave as int32."""
    y = op.output
    shape = (*y.shape[:-1], y.shape[-1] // op.planes)
    return replace(op, outputs=(replace(y, shape=shape, dtype="int32"),), planes=1)


def storing(device: str) -> HwConfig:
    config = load_config(device)
    return replace(config, capabilities=config.capabilities | Capability.STORE_ACC)


def check(op: g.PlaneWeighted, device: str | HwConfig) -> None:
    config = load_config(device) if isinstance(device, str) else device
    assert unsupported_reason(op, config) is None
    inputs = random_inputs(op, 1)
    inputs[0][0] = 127
    found, lowered = run(op, config, inputs)
    (wanted,) = reference.run_operator(op, inputs)
    np.testing.assert_array_equal(found, wanted)
    allocate(lowered.columns, config)


@pytest.mark.parametrize("device", [*VTA, *VTAQ])
def test_a_dense_layer_on_every_device(device: str) -> None:
    block = load_config(device).block
    check(dense((4,), 3 * block, 2 * block), device)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "planes"),
    [
        ((1,), 96, 48, 4),
        ((1, 9), 40, 16, 3),  # pixels, and lanes of the input that nobody reads
        ((2, 3, 5), 16, 32, 3),
        ((1,), 1040, 16, 4),  # sums beyond 24 bits
    ],
)
def test_rows_and_planes(rows: tuple[int, ...], depth: int, columns: int, planes: int) -> None:
    for device in ("vta-pynq", "vtaq-1x16x16"):
        check(dense(rows, depth, columns, planes), device)


@pytest.mark.parametrize("groups", [1, 2, 32])
@pytest.mark.parametrize("planes", [3, 4])
def test_a_convolution(groups: int, planes: int) -> None:
    check(conv(groups, planes), "vta-pynq")


@pytest.mark.parametrize("device", ["vta-pynq", *VTAQ, "vtaq2-1x16x16"])
def test_whole_sums_of_a_dense_layer(device: str) -> None:
    """Each tile is stored once, as int32; channels need not fill blocks."""
    config = storing(device)
    op = whole(dense((4, 3), 2 * config.block + 1, 2 * config.block + 3))
    check(op, config)
    stores = [o for o in lower_operator(op, config).operations if isinstance(o, TileStore)]
    assert all(o.whole for o in stores)
    tiles = sum(o.y_size * o.x_size for o in stores)
    assert tiles == 4 // config.batch * 3 * 3


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_whole_sums_of_a_convolution(groups: int) -> None:
    check(whole(conv(groups)), storing("vta-pynq"))
    check(whole(conv(groups)), "vtaq2-1x16x16")


def test_a_plane_that_fills_no_whole_blocks_is_refused() -> None:
    refusal = unsupported_reason(dense((1,), 16, 24), load_config("vta-pynq"))
    assert refusal is not None
    assert "24 channels fills no whole blocks of 16" in refusal.why


def test_the_next_products_come_between_a_tile_s_planes() -> None:
    """Nothing is lost, and the planes of a tile stay in their order."""
    op, config = dense((1, 32), 64, 256), load_config("vta-pynq")
    operations = lower_operator(op, config).operations
    stores = [o for o in operations if isinstance(o, TileStore)]
    first = stores[0].tile
    own = [n for n, o in enumerate(operations) if isinstance(o, TileStore) and o.tile is first]
    assert len(own) == 3
    between = operations[own[0] : own[2]]
    assert any(isinstance(o, GemmNest) and o.dst.tile is not first for o in between)
    shifts = [o for o in between if isinstance(o, AluNest) and o.dst.tile is first]
    assert [o.imm for o in shifts] == [8, 8]
    assert len({id(o) for o in operations}) == len(operations)
