# SPDX-License-Identifier: Apache-2.0
"""Addresses for the virtual tiles of a program, and the loads that need not be repeated.

In:   of each operation, the tiles that it touches; what tiles hold that only loads write; the
      device's scratchpads.
Out:  which operations remain, each tile's first place, which loads were left out.
Next: vta/allocate.py and tiled.py ask it, each of its own operations.

A tile takes the window that was last used longest ago, so that tile n+1 lands beside tile n while
space lasts: its load need not wait for the work on tile n. That is multi-buffering.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from loadstone.errors import LoweringError
from loadstone.isa.scratchpad import Content, Order, Scratchpad, Tile

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
    """From the first to the last operation that touches each tile; the operations at which tiles of
    each content begin, the last first."""

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

    def wanted(self) -> dict[Content, list[int]]:
        """By content, when tiles that hold it begin; a new list, which is consumed."""
        found: dict[Content, list[int]] = {}
        for tile, first in reversed(self.first.items()):
            if tile in self.content:
                found.setdefault(self.content[tile], []).append(first)
        return found


def reside(
    lives: Lives[_Tile],
    pads: Mapping[Hashable, Scratchpad],
    loads: Sequence[_Tile | None],
    beside: Callable[[_Tile, int, int], int] = lambda tile, begin, end: 0,
    order_of: Callable[[int], Order] | None = None,
) -> Residency[_Tile]:
    """loads: of each operation, the tile that it loads, or None for another one. beside: the size
    of tiles that need room in [begin, end] while this one lives. order_of: which windows an
    operation's tiles prefer; None: those that the scratchpads say. Raises NoRoomError when the
    tiles of one operation do not fit together."""
    content, last_use, wanted = lives.content, lives.last, lives.wanted()
    address: dict[_Tile, int] = {}
    resident: set[_Tile] = set()
    for tile, number in lives.first.items():
        pad = pads[tile.memory]
        held = content.get(tile)
        block = pad.resident.get(held) if held is not None else None
        if block is not None:
            address[tile] = block.start
            block.last_use = max(block.last_use, last_use[tile])
            block.tile = tile
            resident.add(tile)
            continue
        room = beside(tile, number, last_use[tile])
        if order_of is not None:
            pad.order = order_of(number)
        try:
            address[tile] = pad.place(tile, held, number, wanted, room)
        except LoweringError as error:
            raise NoRoomError(str(error), number) from None
        block = pad.block_of(tile)
        block.last_use, block.content = last_use[tile], held
        if held is not None:
            pad.resident[held] = block
    kept: list[int] = []
    dropped: list[int] = []
    for number, loaded in enumerate(loads):
        (dropped if loaded is not None and loaded in resident else kept).append(number)
    return Residency(kept, address, dropped)
