# SPDX-License-Identifier: Apache-2.0
"""Constants as the device reads them."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.insn import Depthwise
from loadstone.vta.meaning.window_taps import window_taps
from loadstone.vta.operators import constants
from tests.simulated import EIGHT_WINDOWS, FOUR_WINDOWS, TINY_WINDOWS


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x32x32", "vtaq-4x16x16"])
def test_products_of_constants_are_the_values(device: str) -> None:
    config = load_config(device)
    block, most = config.block, constants.product_limit(config.block)
    rng = np.random.default_rng(0)
    rows = [
        rng.integers(-most, most + 1, 40),
        np.concatenate([[most, -most, 127, -127, 64, -64], np.arange(-17, 17)]),
    ]
    tiles = constants.product_tiles(rows, 40, block)
    pixel = constants.product_input(config)
    assert pixel.shape == (1, config.batch, block)
    found = np.einsum("bk,tlk->btl", pixel[0].astype(np.int64), tiles.astype(np.int64))
    lanes = found.reshape(config.batch, -1, len(rows), block).transpose(0, 2, 1, 3)
    lanes = lanes.reshape(config.batch, len(rows), -1)
    for sample in lanes:
        np.testing.assert_array_equal(sample[:, :40], rows)
        assert not sample[:, 40:].any()


@pytest.mark.parametrize(
    "config", [TINY_WINDOWS, EIGHT_WINDOWS, FOUR_WINDOWS], ids=lambda c: c.name
)
def test_a_wide_weight_is_two_parts_of_each_lane(config: HwConfig) -> None:
    taps = window_taps(Depthwise(rows=1, columns=1, wide=1), config.block)
    for weight in (*range(-200, 201), 127 * 128, -127 * 128, 16193, -16193, 9999):
        (tile,) = constants.wide_tile(weight, config)
        assert tile.dtype == np.int8
        found = sum(tile[:, place].astype(int) * factor for _, place, factor in taps)
        assert (found == weight).all()
        assert np.count_nonzero(tile) <= 2 * config.block
