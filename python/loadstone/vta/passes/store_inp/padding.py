# SPDX-License-Identifier: Apache-2.0
"""Loads that fill a tile of INP with the value of its padding, before stores bring the rest.

In:   the load with pads that the stores replace.
Out:  loads of little more than pads, which all together cover the tile.
Next: store_inp.py puts them in front of the first store.

A load needs a tile of DRAM, and has fifteen pads on each side. What it takes from DRAM is a
constant, which never waits for a store, and lands where a store will write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.stream.operations import DramTile, TileLoad, TileStore, VirtualTile

__all__ = ["MOST_PADS", "Filler", "can_fill", "fill_of", "filler"]

#: A constant, and how many tiles of INP it has at least.
Filler: TypeAlias = tuple[str, int]

#: What a field of a pad holds.
MOST_PADS = 15


def filler(program: VtaProgram) -> Filler:
    """That of the load of weights that reaches farthest; one of no tiles where there is none."""
    config = program.config
    written = {
        program.places[o.dram.tensor].region
        for _, o in program.operations
        if isinstance(o, TileStore)
    }
    found = [
        (o.y_size * o.x_size + o.dram.tile, o.dram.tensor)
        for _, o in program.operations
        if isinstance(o, TileLoad)
        and o.memory is Memory.WGT
        and program.places[o.dram.tensor].region not in written
        and program.places[o.dram.tensor].offset_bytes % config.tile_bytes(Memory.INP) == 0
    ]
    tiles, tensor = max(found, default=(0, ""))
    size = tiles * config.tile_bytes(Memory.WGT)
    if tensor in program.packed:  # in groups 9/16 of it, in bit planes 17/32 or more
        size //= 2
    return tensor, size // config.tile_bytes(Memory.INP)


def can_fill(o: TileLoad, source: Filler) -> bool:
    """Whether fill_of can, with this constant."""
    return _columns(o)[1] <= source[1]


def _columns(o: TileLoad) -> tuple[int, int, int]:
    """Of a row of a tile: those padded on the left, those that come from DRAM, and the rest."""
    _, width = o.rows_columns
    left = min(MOST_PADS, width - 1 - o.x_pad_1)
    own = max(1, width - left - MOST_PADS)
    return left, own, width - left - own


def fill_of(o: TileLoad, tile: VirtualTile, source: Filler) -> Sequence[TileLoad]:
    """The loads that pad all of a tile. o: the load that would fill it from DRAM."""
    height, width = o.rows_columns
    left, columns, right = _columns(o)
    made = []
    row = 0
    while row < height:
        own = min(height - row, 2 * MOST_PADS + 1)
        if 0 < height - row - own <= o.y_pad_1:
            own -= o.y_pad_1  # a row that is stored for the last load, too
        last = row + own == height
        above = min(MOST_PADS, own - 1 - (o.y_pad_1 if last else 0))
        made.append(
            replace(
                o,
                tile=tile,
                offset=o.offset + row * width,
                dram=DramTile(source[0], 0),
                y_size=1,
                x_size=columns,
                x_stride=columns,
                y_pad_0=above,
                y_pad_1=own - 1 - above,
                x_pad_0=left,
                x_pad_1=right,
            )
        )
        row += own
    return made
