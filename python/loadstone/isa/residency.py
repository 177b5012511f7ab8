# SPDX-License-Identifier: Apache-2.0
"""Addresses for the virtual tiles of a program, and the loads that need not be repeated.

In:   of each operation, the tiles that it touches; what tiles hold that only loads write; the
      device's scratchpads.
Out:  each tile's first place, and the tiles whose loads need not be repeated.
Next: native/reside.cc finds them; vta/passes/allocate/allocate.py and tiled.py ask, each of its own
      operations.

A tile takes the window that was last used longest ago, so that tile n+1 lands beside tile n while
space lasts: its load need not wait for the work on tile n. That is multi-buffering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.scratchpad import Order, Scratchpad, Tile
from loadstone.library.native import ffi, lib

__all__ = [
    "NO_CONTENT",
    "Lives",
    "NoRoomError",
    "Residency",
    "TileColumns",
    "lives_of",
    "order_numbers",
    "reside",
]

Int64Array: TypeAlias = NDArray[np.int64]
_Tile = TypeVar("_Tile", bound=Tile)

#: What a tile holds that not only loads write.
NO_CONTENT = -1


@dataclass(frozen=True)
class TileColumns(Generic[_Tile]):
    """Tiles, and (tiles,) int64: the number of each one's memory, its size, and what it holds that
    only loads write, or NO_CONTENT."""

    tiles: Sequence[_Tile]
    memory: Int64Array
    size: Int64Array
    content: Int64Array

    def taken(self, numbers: Int64Array) -> TileColumns[_Tile]:
        """Some of them. numbers: (some,)."""
        tiles = [self.tiles[n] for n in numbers.tolist()]
        return TileColumns(tiles, self.memory[numbers], self.size[numbers], self.content[numbers])


@dataclass(frozen=True)
class Lives(Generic[_Tile]):
    """Tiles in the order of their first use, and (tiles,) int64: the first and the last operation
    that touches each; the number that it had before they were put in order."""

    tiles: TileColumns[_Tile]
    first: Int64Array
    last: Int64Array
    number: Int64Array


@dataclass(frozen=True)
class Residency:
    """(tiles,): the first place of each, int64, and whether what it holds is there already, bool:
    then none of its loads is needed."""

    address: Int64Array
    resident: NDArray[np.bool_]


class NoRoomError(LoweringError):
    """A scratchpad has no window for a tile. operation: that which first touches it."""

    def __init__(self, message: str, operation: int = 0) -> None:
        super().__init__(message)
        self.operation = operation


def lives_of(tiles: TileColumns[_Tile], operation: Int64Array, touched: Int64Array) -> Lives[_Tile]:
    """operation, touched: (touches,), in program order, the numbers of an operation and a tile.
    Tiles that nothing touches are left out."""
    begin, end = np.full((2, len(tiles.tiles)), -1)
    places = np.arange(len(touched))
    begin[touched[::-1]] = places[::-1]  # of equal indices the last one counts
    end[touched] = places
    number = np.argsort(begin)[np.count_nonzero(begin < 0) :]
    return Lives(tiles.taken(number), operation[begin[number]], operation[end[number]], number)


def reside(
    lives: Lives[_Tile],
    pads: Mapping[int, Scratchpad],
    beside: Int64Array | None = None,
    order: Int64Array | None = None,
) -> Residency:
    """pads: by number of a memory. beside: (tiles,), the size of tiles that need room while one
    lives; 0: of none. order: (tiles,), the number of the order in which each one's window is
    chosen; None: that of its scratchpad. Raises NoRoomError when the tiles of one operation do not
    fit together."""
    number = np.zeros(max(pads) + 1, np.int64)
    number[list(pads)] = np.arange(len(pads))
    pad = number[lives.tiles.memory]
    if beside is None:
        beside = np.zeros_like(pad)
    if order is None:
        order = order_numbers([each.order for each in pads.values()])[pad]
    own = (lives.tiles.size, lives.tiles.content, lives.first, lives.last)
    columns = np.stack([pad, *own, beside, order], axis=1)
    return Residency(*_found(lives.tiles.tiles, list(pads.values()), columns))


def order_numbers(orders: Sequence[Order]) -> Int64Array:
    """(orders,): the number of each."""
    return np.array([_ORDERS[order] for order in orders], np.int64)


#: As in native/include/lds_reside.h.
_ORDERS = {Order.SPREAD: 0, Order.FITTED: 1, Order.PACKED: 2, Order.APART: 3}


def _found(
    tiles: Sequence[Tile], pads: Sequence[Scratchpad], columns: Int64Array
) -> tuple[Int64Array, NDArray[np.bool_]]:
    """By tile, its first place, and whether what it holds is there. columns: by tile, the fields of
    `lds_reside_tile` in native/include/lds_reside.h."""
    address, resident = np.empty(len(tiles), np.int64), np.empty(len(tiles), np.bool_)
    no_room = ffi.new("lds_no_room *")
    depth = ffi.new("int64_t[]", [pad.depth for pad in pads])
    rows = ffi.from_buffer("lds_reside_tile[]", columns)
    made = [ffi.from_buffer("int64_t[]", address), ffi.from_buffer("uint8_t[]", resident)]
    contents = int(columns[:, 2].max(initial=NO_CONTENT)) + 1
    status = lib().lds_reside(len(pads), depth, contents, len(tiles), rows, *made, no_room)
    if status == lib().LDS_RESIDE_NO_MEMORY:
        raise MemoryError("residency")
    if status == lib().LDS_RESIDE_NO_ROOM:
        pad, tile = pads[columns[no_room.tile, 0]], tiles[no_room.tile]
        raise NoRoomError(
            f"allocate: {pad.name} has no room for {tile.name} of {tile.size_tiles} {pad.places}: "
            f"{no_room.live} of {pad.depth} are in use; smaller tiles are needed",
            int(columns[no_room.tile, 3]),
        )
    if status != lib().LDS_RESIDE_OK:
        raise AssertionError(f"lds_reside: status {status}")
    return address, resident
