# SPDX-License-Identifier: Apache-2.0
"""One scratchpad while a program is walked: what lives where, and the window for a new tile.

In:   a tile, what it holds, when it is used, and when contents are wanted again.
Out:  `Scratchpad.place`: the tile's first scratchpad tile.
Next: residency.py asks for every virtual tile of a program, be it VTA's or another device's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Protocol, TypeAlias

from loadstone.errors import LoweringError

__all__ = ["Content", "Order", "Scratchpad", "Tile"]

#: What a tile that only loads write holds: the number of its loads, relative to its start.
Content: TypeAlias = int

_NEVER = 1 << 60
#: Sets of tiles that take turns: one is filled while the other is stored.
_SETS = 2


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
    """Which windows are preferred. SPREAD: those that were last used longest ago. FITTED: those
    that leave the largest piece of what does not live, and among these as SPREAD. PACKED: constants
    from the top, all others from the bottom."""

    SPREAD = "spread"
    FITTED = "fitted"
    PACKED = "packed"


@dataclass(slots=True)
class _Block:
    """A range of a scratchpad and the tile that lives or lived there."""

    start: int
    end: int
    tile: Tile
    last_use: int
    content: Content | None


class Scratchpad:
    """One scratchpad: blocks in address order; gaps are free since ever. resident: of each content,
    the block that holds it."""

    def __init__(self, name: str, depth: int, order: Order, places: str = "tiles") -> None:
        """places: what `depth` counts, for messages."""
        self.name = name
        self.places = places
        self.depth = depth
        self.order = order
        self.blocks: list[_Block] = []
        self._newest: _Block | None = None  # what was placed last
        self.resident: dict[Content, _Block] = {}

    def place(
        self,
        tile: Tile,
        held: Content | None,
        now: int,
        wanted: dict[Content, list[int]],
        beside: int = 0,
    ) -> int:
        """The first tile of the best window; what lay there is forgotten. beside: the size of tiles
        that need room while this one lives. Raises LoweringError when every window holds something
        that lives."""
        size, blocks = tile.size_tiles, self.blocks
        if self.order is Order.SPREAD:
            window = self._spread_window(size, now, wanted)
        else:
            window = self._best_window(size, held, now, wanted)
        if self._parts_sums(window, size, now, beside):
            window = self._best_window(size, held, now, wanted, beside) or window
        if window is None:
            live = sum(b.end - b.start for b in blocks if b.last_use >= now)
            raise LoweringError(
                f"allocate: {self.name} has no room for {tile.name} of {size} {self.places}: "
                f"{live} of {self.depth} are in use; smaller tiles are needed"
            )
        start, first, last = window
        for block in blocks[first:last]:
            if block.content is not None and self.resident.get(block.content) is block:
                del self.resident[block.content]
        self._newest = _Block(start, start + size, tile, now, None)
        blocks[first:last] = [self._newest]
        return start

    def _parts_sums(
        self, window: tuple[int, int, int] | None, size: int, now: int, beside: int
    ) -> bool:
        """Whether a spread window leaves no room for two tiles of size `beside`."""
        if window is None or not beside or self.order is not Order.SPREAD:
            return False
        return self._sets_left(window[0], size, now, beside) < _SETS

    def _sets_left(self, start: int, size: int, now: int, beside: int) -> int:
        """How many tiles of size `beside` fit, besides one of `size` at `start`; at most two, which
        is what double-buffering takes."""
        pieces = []
        for low, high in self._pieces(now):
            inside = low <= start < high
            pieces += [start - low, high - start - size] if inside else [high - low]
        return min(_SETS, sum(piece // beside for piece in pieces))

    def _best_window(
        self,
        size: int,
        held: Content | None,
        now: int,
        wanted: dict[Content, list[int]],
        beside: int = 0,
    ) -> tuple[int, int, int] | None:
        """(start, first block, one past the last block) of the window whose content is wanted again
        least, and was last used longest ago; the first of equals. None: something lives in each.

        beside: not 0: of the windows that leave room for most tiles of this size.

        Packed: the lowest window, or the highest for a tile that holds constants. `first` is the
        first block that ends behind the window's start.
        """
        blocks = self.blocks
        best: tuple[int, ...] | None = None
        chosen: tuple[int, int, int] | None = None
        first = 0
        pieces = self._pieces(now) if self.order is Order.FITTED else []
        largest = sorted(high - low for low, high in pieces)[-2:]
        for start in self._starts(size):
            end = start + size
            if start < 0 or end > self.depth:
                continue
            while first < len(blocks) and blocks[first].end <= start:
                first += 1
            found = self._cost(first, end, now, wanted)
            if found is None:
                continue
            cost: tuple[int, ...] = found[:2]
            if self.order is Order.PACKED:
                cost = (0 if held is None else -start, start)
            elif pieces:
                cost = (-_largest_left(pieces, largest, start, end), *cost)
            if beside:
                cost = (-self._sets_left(start, size, now, beside), *cost)
            if best is None or cost < best:
                best, chosen = cost, (start, first, found[2])
        return chosen

    def _spread_window(
        self, size: int, now: int, wanted: dict[Content, list[int]]
    ) -> tuple[int, int, int] | None:
        """_best_window of those that begin at 0 or behind a block, which is asked most often: one
        walk over the blocks, up to the first window that costs nothing."""
        blocks, most = self.blocks, self.depth - size
        count = len(blocks)
        best = (_NEVER, _NEVER)
        chosen: tuple[int, int, int] | None = None
        start = first = 0  # the window begins where block first - 1 ends
        while start <= most:
            end, last_use, again, past = start + size, -1, 0, first
            while past < count and (block := blocks[past]).start < end:
                if block.last_use >= now:
                    first = past  # all windows up to its end hold it, too
                    break
                if block.last_use > last_use:
                    last_use = block.last_use
                if block.content is not None and _next_use(wanted[block.content], now) < _NEVER:
                    again += 1
                past += 1
            else:
                if (again, last_use) < best:
                    best, chosen = (again, last_use), (start, first, past)
                    if best == (0, -1):
                        break
            if first == count:
                break
            start = blocks[first].end
            first += 1
        return chosen

    def _starts(self, size: int) -> list[int]:
        """Windows begin at 0 or behind a block, and end before one or at the end."""
        starts = [0, *(block.end for block in self.blocks)]
        return sorted({*starts, self.depth - size, *(block.start - size for block in self.blocks)})

    def _pieces(self, now: int) -> list[tuple[int, int]]:
        """(start, end) of what lies between the blocks that live."""
        live = [(block.start, block.end) for block in self.blocks if block.last_use >= now]
        return [
            (end, start)
            for (_, end), (start, _) in pairwise([(0, 0), *live, (self.depth, self.depth)])
            if end < start
        ]

    def _cost(
        self, first: int, end: int, now: int, wanted: dict[Content, list[int]]
    ) -> tuple[int, int, int] | None:
        """(blocks wanted again, last use, one past the last block) of a window from block `first`
        on; None while one of them lives."""
        last_use, again = -1, 0
        blocks = self.blocks
        number, count = first, len(blocks)
        while number < count and (block := blocks[number]).start < end:
            if block.last_use >= now:
                return None
            if block.last_use > last_use:
                last_use = block.last_use
            if block.content is not None and _next_use(wanted[block.content], now) < _NEVER:
                again += 1
            number += 1
        return again, last_use, number

    def block_of(self, tile: Tile) -> _Block:
        """The block of a tile that was placed."""
        if self._newest is not None and self._newest.tile is tile:
            return self._newest
        return next(b for b in self.blocks if b.tile is tile)


def _largest_left(
    pieces: Sequence[tuple[int, int]], largest: Sequence[int], start: int, end: int
) -> int:
    """The largest piece when [start, end) is taken from the one that it lies in. largest: the sizes
    of the two largest, the smaller first."""
    low, high = pieces[bisect_right(pieces, (start, _NEVER)) - 1]
    own = high - low
    others = largest[-1] if own < largest[-1] else largest[0] if len(largest) > 1 else 0
    return max(start - low, high - end, others)


def _next_use(uses: list[int], now: int) -> int:
    """`uses` is consumed from its end: what is past has been popped."""
    while uses and uses[-1] <= now:
        uses.pop()
    return uses[-1] if uses else _NEVER
