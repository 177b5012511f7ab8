# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/tilings.py: no estimate is below what the device needs at least, and what fits has
room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.conv_spec import PIXEL
from loadstone.vta.schedule.plane_cost import PlaneTilings
from loadstone.vta.schedule.tilings import Tilings, totals_of
from loadstone.vta.stream.cost import cost_model

DENSE = replace(PIXEL, in_blocks=24, out_blocks=9, input=(1, 32), output=(1, 32))


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
@pytest.mark.parametrize("planes", [1, 4])
def test_no_estimate_is_below_the_bus_or_the_products(device: str, planes: int) -> None:
    nest, config = conv.nest(replace(DENSE, planes=planes)), load_config(device)
    cost = cost_model(config)
    tilings = (PlaneTilings if planes > 1 else Tilings)(nest, config, cost)
    cycles = tilings.cycles()
    assert (cycles >= 24 * 9 * cost.wgt_beats).all()
    assert (cycles >= 24 * 9 * 32 * cost.gemm_step).all()
    assert (cycles >= planes * 9 * 32 * cost.store_tile).all()


def test_what_fits_twice_has_room_for_two_sets() -> None:
    large = replace(DENSE, in_blocks=96, out_blocks=36)
    nest, config = conv.nest(large), load_config("vta-pynq")
    tilings = Tilings(nest, config, cost_model(config))
    twice, once = tilings.fits(2), tilings.fits(1)
    assert twice.any()
    assert (once | ~twice).all()
    assert (~once).any()
    samples, groups, out, in_, height, width = tilings.sizes[:, twice]
    both = np.where((out < nest.out) | (in_ < nest.in_), 2, 1)
    assert (both * groups * out * in_ <= config.depth(Memory.WGT)).all()
    assert (samples * groups * out * height * width <= config.depth(Memory.ACC)).all()
    assert totals_of(nest) == (1, 1, 36, 96, 1, 32)
