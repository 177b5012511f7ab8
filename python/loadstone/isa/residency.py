# SPDX-License-Identifier: Apache-2.0
"""Addresses for the virtual tiles of a program, and the loads that need not be repeated.

In:   of each operation, the tiles that it touches; what tiles hold that only loads write; the
      device's scratchpads.
Out:  which operations remain, each tile's first place, which loads were left out.
Next: native/reside.cc finds them; vta/allocate.py and tiled.py ask, each of its own operations.

A tile takes the window that was last used longest ago, so that tile n+1 lands beside tile n while
space lasts: its load need not wait for the work on tile n. That is multi-buffering.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.scratchpad import Content, Order, Scratchpad, Tile
from loadstone.runtime.native import ffi, lib

__all__ = ["Lives", "NoRoomError", "Residency", "reside"]

_Tile = TypeVar("_Tile", bound=Tile)


@dataclass(frozen=True)
class Residency(Generic[_Tile]):
    """Numbers of the operations that remain and of the loads that do not; each tile's first
    place."""

    kept: list[int]
    address: dict[_Tile, int]
    dropped: list[int]


class NoRoomError(LoweringError):
    """A scratchpad has no window for a tile. operation: that which first touches it."""

    def __init__(self, message: str, operation: int = 0) -> None:
        super().__init__(message)
        self.operation = operation


class Lives(Generic[_Tile]):
    """From the first to the last operation that touches each tile, in the order of the first; what
    tiles hold that only loads write, of which there are no more numbers than tiles."""

    def __init__(
        self, touched: Sequence[Sequence[_Tile]], content: Mapping[_Tile, Content]
    ) -> None:
        self.content = content
        self.first: dict[_Tile, int] = {}
        self.last: dict[_Tile, int] = {}
        for number, tiles in enumerate(touched):
            for tile in tiles:
                self.last[tile] = number
                self.first.setdefault(tile, number)


def reside(
    lives: Lives[_Tile],
    pads: Mapping[Hashable, Scratchpad],
    loads: Sequence[_Tile | None],
    beside: Mapping[_Tile, int] | None = None,
    order_of: Callable[[int], Order] | None = None,
) -> Residency[_Tile]:
    """loads: of each operation, the tile that it loads, or None for another one. beside: the size
    of tiles that need room while one lives. order_of: which windows an operation's tiles prefer;
    None: those that the scratchpads say. Raises NoRoomError when the tiles of one operation do not
    fit together."""
    number_of = {memory: number for number, memory in enumerate(pads)}
    room, content, last = beside or {}, lives.content, lives.last
    rows = [
        (number_of[tile.memory], tile.size_tiles, content.get(tile, -1), first, last[tile])
        for tile, first in lives.first.items()
    ]
    columns = np.empty((len(rows), 7), np.int64)
    columns[:, :5] = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 5)
    columns[:, 5] = [room.get(tile, 0) for tile in lives.first] if room else 0
    if order_of is None:
        columns[:, 6] = np.array([_ORDERS[pad.order] for pad in pads.values()])[columns[:, 0]]
    else:
        columns[:, 6] = [_ORDERS[order_of(first)] for first in lives.first.values()]
    address, found = _found(list(lives.first), list(pads.values()), columns)
    resident = {tile for tile, there in zip(lives.first, found.tolist(), strict=True) if there}
    kept: list[int] = []
    dropped: list[int] = []
    for number, loaded in enumerate(loads):
        (dropped if loaded is not None and loaded in resident else kept).append(number)
    return Residency(kept, dict(zip(lives.first, address.tolist(), strict=True)), dropped)


#: As in native/include/lds_reside.h.
_ORDERS = {Order.SPREAD: 0, Order.FITTED: 1, Order.PACKED: 2}


def _found(
    tiles: Sequence[Tile], pads: Sequence[Scratchpad], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """By tile, its first place, and whether what it holds is there. columns: by tile, the fields of
    `lds_reside_tile` in native/include/lds_reside.h."""
    address, resident = np.empty(len(tiles), np.int64), np.empty(len(tiles), np.bool_)
    no_room = ffi.new("lds_no_room *")
    depth = ffi.new("int64_t[]", [pad.depth for pad in pads])
    rows = ffi.from_buffer("lds_reside_tile[]", columns)
    made = [ffi.from_buffer("int64_t[]", address), ffi.from_buffer("uint8_t[]", resident)]
    status = lib().lds_reside(len(pads), depth, len(tiles), rows, *made, no_room)
    if status == lib().LDS_RESIDE_NO_MEMORY:
        raise MemoryError("residency")
    if status == lib().LDS_RESIDE_NO_ROOM:
        pad, tile = pads[columns[no_room.tile, 0]], tiles[no_room.tile]
        raise NoRoomError(
            f"allocate: {pad.name} has no room for {tile.name} of {tile.size_tiles} {pad.places}: "
            f"{no_room.live} of {pad.depth} are in use; smaller tiles are needed",
            int(columns[no_room.tile, 3]),
        )
    assert status == lib().LDS_RESIDE_OK, status
    return address, resident
