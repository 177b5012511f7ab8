# SPDX-License-Identifier: Apache-2.0
"""Constants as the device reads them."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import constants


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
