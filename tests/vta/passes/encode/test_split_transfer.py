# SPDX-License-Identifier: Apache-2.0
"""vta/passes/encode/split_transfer.py: parts of a copy that fit the fields, and together move what
the whole does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.spec import Memory, Opcode
from loadstone.vta.passes.encode.split_transfer import CopyLimits, split_load, split_store
from loadstone.vta.stream.operations import DramTile, InpTiles, TileLoad, TileStore
from loadstone.vta.stream.operations import VirtualTile as Tile

PYNQ, TINY = load_config("vta-pynq"), load_config("vtaq-tiny")


def load(rows: int, columns: int, stride: int, pads: Sequence[int] = (0, 0, 0, 0)) -> TileLoad:
    """pads: top, bottom, left, right."""
    top, bottom, left, right = pads
    size = (top + rows + bottom) * (left + columns + right)
    tile = Tile(Memory.INP, size, "x")
    return TileLoad(
        Memory.INP, tile, 0, DramTile("x", 5), rows, columns, stride, top, bottom, left, right
    )


def places(operations: Sequence[TileLoad]) -> dict[int, int]:
    """Scratchpad tile -> DRAM tile, -1 where it is padded."""
    moved: dict[int, int] = {}
    for o in operations:
        width = o.x_pad_0 + o.x_size + o.x_pad_1
        for y in range(-o.y_pad_0, o.y_size + o.y_pad_1):
            for x in range(-o.x_pad_0, o.x_size + o.x_pad_1):
                at = o.offset + (y + o.y_pad_0) * width + x + o.x_pad_0
                inside = 0 <= y < o.y_size and 0 <= x < o.x_size
                assert at not in moved
                moved[at] = o.dram.tile + y * o.x_stride + x if inside else -1
    return moved


@pytest.mark.parametrize("config", [PYNQ, TINY], ids=lambda c: c.name)
@pytest.mark.parametrize(
    "whole",
    [
        load(3, 4, 9, (1, 2, 1, 0)),
        load(100, 30, 30),  # more tiles than VTA's RTL counts
        load(3, 4, 70_000, (2, 1, 3, 1)),  # a stride that no field holds
        load(1, 70_000, 70_000),  # a row that no field holds
    ],
    ids=["fits", "many", "stride", "row"],
)
def test_the_parts_move_what_the_whole_does(whole: TileLoad, config: HwConfig) -> None:
    parts = list(split_load(whole, CopyLimits(config)))
    assert places(parts) == places([whole])
    fields = bit_fields(config)[Opcode.LOAD]
    for part in parts:
        assert part.x_size <= fields["x_size"].high
        assert part.y_size == 1 or part.x_stride <= fields["x_stride"].high
        assert config.profile != "vta" or part.x_size * part.y_size < 2048


def test_what_fits_stays_whole() -> None:
    whole = load(3, 4, 9, (1, 2, 1, 0))
    assert list(split_load(whole, CopyLimits(TINY))) == [whole]


def test_what_cannot_be_split_is_named() -> None:
    with pytest.raises(LoweringError, match=r"load of x has pads \(16, 0, 0, 0\)"):
        list(split_load(load(3, 4, 9, (16, 0, 0, 0)), CopyLimits(PYNQ)))
    with pytest.raises(LoweringError, match="a row of 70000 tiles with pads cannot be split"):
        list(split_load(load(1, 70_000, 70_000, (1, 0, 0, 0)), CopyLimits(PYNQ)))


def test_a_store_becomes_rows() -> None:
    tile = Tile(Memory.ACC, 12, "y")
    whole = TileStore(tile, 0, DramTile("y", 3), 3, 4, 70_000)
    parts = list(split_store(whole, CopyLimits(TINY)))
    assert [(p.offset, p.dram.tile, p.y_size, p.x_size) for p in parts] == [
        (4 * y, 3 + 70_000 * y, 1, 4) for y in range(3)
    ]
    fits = TileStore(tile, 0, DramTile("y", 3), 3, 4, 9)
    assert list(split_store(fits, CopyLimits(TINY))) == [fits]
    assert np.prod([fits.y_size, fits.x_size]) == tile.size_tiles


def test_rows_in_inp_move_there() -> None:
    tile, to = Tile(Memory.ACC, 12, "y"), Tile(Memory.INP, 300_000, "x")
    whole = TileStore(tile, 0, DramTile("y", 3), 3, 4, 70_000, None, InpTiles(to, 5))
    parts = list(split_store(whole, CopyLimits(TINY)))
    assert [p.inp for p in parts] == [InpTiles(to, 5 + 70_000 * y) for y in range(3)]
