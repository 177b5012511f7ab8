# SPDX-License-Identifier: Apache-2.0
"""padding.py: all of a tile is padded, but for what a store writes behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.padding import can_fill, fill_of, filler
from loadstone.vta.stream.operations import DramTile, TileLoad, VirtualTile
from tests.vta.passes.store_inp.two_layers import KEEPING, TwoLayers

SIZES, PADS = st.integers(1, 70), st.integers(0, 3)


@given(SIZES, SIZES, PADS, PADS, PADS, PADS)
def test_only_what_a_store_writes_comes_from_dram(
    y: int, x: int, top: int, bottom: int, left: int, right: int
) -> None:
    high, wide = top + y + bottom, left + x + right
    tile = VirtualTile(Memory.INP, high * wide + 5, "x")
    o = TileLoad(
        *(Memory.INP, tile, 5, DramTile("y", 3), y, x, x, top, bottom, left, right), pad_value=-4
    )
    held = np.zeros(high * wide + 5, np.int64)
    for fill in fill_of(o, tile, ("w", 64)):
        assert (fill.memory, fill.tile, fill.dram, fill.pad_value) == (
            *(Memory.INP, tile, DramTile("w", 0)),
            -4,
        )
        pads = ((fill.y_pad_0, fill.y_pad_1), (fill.x_pad_0, fill.x_pad_1))
        assert max(map(max, pads)) <= 15
        block = np.pad(np.full((fill.y_size, fill.x_size), 2), pads, constant_values=1).ravel()
        held[fill.offset : fill.offset + len(block)] = block
    rows = held[5:].reshape(high, wide)
    rows[top : top + y, left : left + x] = 1  # what a store writes
    assert (rows == 1).all()
    assert not held[:5].any()


def test_a_wide_tile_needs_a_long_constant() -> None:
    tile = VirtualTile(Memory.INP, 60 * 3, "x")
    o = TileLoad(Memory.INP, tile, 0, DramTile("y", 0), 1, 58, 58, 1, 1, 1, 1)
    assert can_fill(o, ("w", 30))
    assert not can_fill(o, ("w", 29))


def test_the_constant_is_the_longest_of_weights() -> None:
    program = TwoLayers().program()
    tiles = KEEPING.tile_bytes(Memory.WGT) // KEEPING.tile_bytes(Memory.INP)
    assert filler(program) == ("w", 11 * tiles)
    assert filler(VtaProgram(KEEPING, {}, [])) == ("", 0)
