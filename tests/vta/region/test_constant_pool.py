# SPDX-License-Identifier: Apache-2.0
"""constant_pool.py: constants of parts are pieces of those of their layers."""

from __future__ import annotations

import numpy as np

from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.constant_pool import ConstantPool
from loadstone.vta.stream.operations import DramTile, TileLoad, VirtualTile

TILES = np.arange(6 * 256, dtype=np.int64).astype(np.int8).reshape(6, 16, 16)
TILES[:, 0, 0] = np.arange(6)
WHOLE = {"layer.weights": (Memory.WGT, TILES)}


def load(tensor: str, tile: int) -> TileLoad:
    return TileLoad(Memory.WGT, VirtualTile(Memory.WGT, 1, "w"), 0, DramTile(tensor, tile), 1, 1, 1)


def test_a_piece_is_read_where_the_layer_has_it() -> None:
    pool = ConstantPool()
    part = {"part.weights": (Memory.WGT, TILES[2:5])}
    (made,) = pool.kept(part, [load("part.weights", 1)], WHOLE)
    assert isinstance(made, TileLoad)
    assert (made.dram.tensor, made.dram.tile) == ("layer.weights", 3)
    assert not pool.constants


def test_what_the_layer_lacks_is_kept() -> None:
    pool = ConstantPool()
    part = {"part.weights": (Memory.WGT, TILES[1:3, ::-1])}
    operations = [load("part.weights", 1)]
    assert pool.kept(part, operations, WHOLE) == operations
    assert list(pool.constants) == ["part.weights"]


def test_tiles_of_zeros_are_known() -> None:
    pool = ConstantPool()
    tiles = TILES.copy()
    tiles[4] = 0
    pool.kept({"w": (Memory.WGT, tiles)}, [])
    assert pool.zero_tiles()["w"].tolist() == [False] * 4 + [True, False]
