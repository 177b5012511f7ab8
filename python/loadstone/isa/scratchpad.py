# SPDX-License-Identifier: Apache-2.0
"""What tiles and scratchpads are to those who find places for the one in the other.

In:   nothing.
Out:  Tile, what it holds; Scratchpad, and which windows its tiles prefer.
Next: residency.py asks for the window of every virtual tile of a program, be it VTA's or another
      device's; native/reside.cc finds it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

__all__ = ["Content", "Order", "Scratchpad", "Tile"]

#: What a tile that only loads write holds: equal numbers hold the same.
Content: TypeAlias = int


class Tile(Protocol):
    """One life of a buffer in a scratchpad, known by identity. size_tiles: in the places that the
    scratchpad counts: VTA's tiles, another device's rows."""

    @property
    def memory(self) -> Hashable:
        """Which scratchpad."""
        ...

    @property
    def size_tiles(self) -> int:
        """How many places."""
        ...

    @property
    def name(self) -> str:
        """For messages."""
        ...


class Order(Enum):
    """Which windows are preferred, of those in which nothing lives.

    SPREAD: of those at 0 and behind a block, one whose content is wanted again least, and then the
    one that was last used longest ago. Where it leaves no room for two tiles of those that need
    room beside it, of all windows one that leaves most. FITTED: those that leave the largest piece
    of what does not live, and among these as SPREAD. PACKED: constants from the top, all others
    from the bottom. APART: as SPREAD, but what only loads write counts as wanted again while the
    newest tile is worked on, since a load to its place would wait for that.
    """

    SPREAD = "spread"
    FITTED = "fitted"
    PACKED = "packed"
    APART = "apart"


@dataclass(frozen=True)
class Scratchpad:
    """One scratchpad. places: what `depth` counts, for messages."""

    name: str
    depth: int
    order: Order
    places: str = "tiles"
