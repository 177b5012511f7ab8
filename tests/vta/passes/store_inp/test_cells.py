# SPDX-License-Identifier: Apache-2.0
"""cells.py: rows of tiles by their places in DRAM, in tiles of OUT."""

from __future__ import annotations

from loadstone.backend.region import Address
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.cells import DramCells
from loadstone.vta.stream.operations import DramTile, TileLoad, TileStore, VirtualTile
from tests.vta.passes.store_inp.two_layers import KEEPING

ACC, WGT = VirtualTile(Memory.ACC, 6, "a"), VirtualTile(Memory.WGT, 2, "w")
PLACES = {"y": Address(2, 160), "z": Address(2, 0), "w": Address(1, 0)}


def test_rows_count_from_the_regions_start() -> None:
    store = TileStore(ACC, 0, DramTile("y", 3), 2, 3, 5)
    cells = DramCells(VtaProgram(KEEPING, PLACES, [("l", store)]))
    assert cells.ends == {2: 10 + 3 + 8}
    region, own = cells.of(store)
    assert (region, own.tolist()) == (2, [13, 14, 15, 18, 19, 20])
    assert cells.of(TileLoad(Memory.INP, ACC, 0, DramTile("z", 13), 1, 1, 1))[1].tolist() == [13]
    assert cells.numbers(2).tolist() == [-1] * 21


def test_a_larger_tile_touches_several() -> None:
    """A tile of weights is sixteen tiles of OUT."""
    cells = DramCells(VtaProgram(KEEPING, PLACES, []))
    region, own = cells.of(TileLoad(Memory.WGT, WGT, 0, DramTile("w", 1), 2, 1, 3))
    assert region == 1
    assert own.tolist() == [*range(16, 32), *range(64, 80)]
