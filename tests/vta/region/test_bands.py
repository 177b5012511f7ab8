# SPDX-License-Identifier: Apache-2.0
"""bands.py: bands compute what the layers mean, in turns and with stores to INP as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.request import PLAIN
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.flow import flow_of
from loadstone.vta.passes.store_inp.room import Room
from loadstone.vta.passes.store_inp.store_inp import StoreInp, stored
from loadstone.vta.passes.store_requantize.store_requantize import StoreRequantize
from loadstone.vta.passes.weave import Weave
from loadstone.vta.region.bands import banded, heights
from loadstone.vta.stream.operations import TileLoad, TileStore
from tests.vta.region.blocks import SECOND, Block


def in_bands(block: Block, rows: int) -> VtaProgram:
    """The program behind the passes up to store_inp/."""
    bands = banded(block.chain, rows, SECOND, PLAIN, block.whole)
    return StoreRequantize().run(block.program(bands, turns=True))


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        (Block(), 3),
        (Block(), 1),
        (Block(), 9),
        (Block(height=8, stride=2), 2),
        (Block(height=8, stride=2), 4),
        (Block(height=7, width=5, stride=2, channels=(32, 16, 20)), 1),
        (Block(dilation=2), 3),
    ],
    ids=str,
)
def test_bands_compute_what_the_layers_mean(block: Block, rows: int) -> None:
    wanted = block.reference()
    before = in_bands(block, rows)
    assert np.array_equal(block.result(before.operations), wanted)
    woven = Weave().run(before)
    Weave().verify(before, woven)
    assert np.array_equal(block.result(woven.operations), wanted)
    flow = flow_of(woven)
    after = stored(woven, flow, Room(woven, flow).chosen(0))
    StoreInp().verify(woven, after)
    assert np.array_equal(block.result(after.operations), wanted)


def test_only_rows_that_bands_share_go_to_dram() -> None:
    """Bands of three rows, whose windows reach one row into the next: each block of channels of the
    bands behind the first reads two rows back."""
    block = Block()
    woven = Weave().run(in_bands(block, 3))
    flow = flow_of(woven)
    after = stored(woven, flow, Room(woven, flow).chosen(0))
    every = [o for _, o in after.operations]
    loads = [o for o in every if isinstance(o, TileLoad) and o.memory is Memory.INP]
    read = [o.y_size for o in loads if o.dram.tensor == "a"]
    assert read == [2] * 6
    stores = [o for o in every if isinstance(o, TileStore) and o.inp is None]
    written = [o.y_size * o.x_size for o in stores if o.dram.tensor == "a"]
    assert sum(written) == 6 * 2 * block.width
    assert not [o for o in stores if o.dram.tensor == "b"]


def test_bands_are_as_high_as_inp_allows() -> None:
    """112 rows of 96 channels with a stride of 2: two windows' rows, of 2 * (5 * 113) tiles."""
    block = Block(112, 112, 2, (16, 96, 24))
    assert heights(block.chain, SECOND) == [2, 1]
    small = replace(SECOND, name="small", log_inp_buff=12)
    assert heights(Block(112, 112, 2, (16, 96, 24), small).chain, small) == []


def test_dilated_windows_reach_further() -> None:
    """The first of bands of three rows reads five, behind two of padding. In all there are two
    windows' rows of seven by eight, sums twice, and inputs: 148 tiles, of which 128 are too few."""
    block = Block(width=4, dilation=2)
    bands = banded(block.chain, 3, SECOND, PLAIN, block.whole)
    made = next(o.y_size * o.x_size for _, o in bands if isinstance(o, TileStore))
    assert made == 5 * block.width
    for depth, found in ((256, [3, 1]), (128, [1])):
        small = replace(SECOND, name="small", log_inp_buff=(16 * depth).bit_length() - 1)
        assert heights(Block(width=4, dilation=2, config=small).chain, small) == found


def test_a_band_that_has_no_room_is_refused() -> None:
    block = Block(112, 112, 2, (16, 96, 24))
    with pytest.raises(LoweringError, match="fits no scratchpad"):
        banded(block.chain, 56, SECOND, PLAIN, block.whole)
