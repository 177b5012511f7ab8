# SPDX-License-Identifier: Apache-2.0
"""One scratchpad while a program is walked: what lives where, and the window for a new tile.

In:   a tile, what it holds, when it is used, and when contents are wanted again.
Out:  `Scratchpad.place`: the tile's first scratchpad tile.
Next: residency.py asks for every virtual tile of a program, be it VTA's or another device's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Protocol, TypeAlias

from loadstone.errors import LoweringError

__all__ = ["Content", "Order", "Scratchpad", "Tile"]

#: What a tile that only loads write holds: the number of its loads, relative to its start.
Content: TypeAlias = int
#: Start, end, first block and one past the last block of what lies between blocks that live.
_Piece: TypeAlias = tuple[int, int, int, int]
#: Start of a place for a tile, and the blocks that it may lie in, as of its piece.
_Window: TypeAlias = tuple[int, int, int]

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

    def _parts_sums(self, window: _Window | None, size: int, now: int, beside: int) -> bool:
        """Whether a spread window leaves no room for two tiles of size `beside`."""
        if window is None or not beside or self.order is not Order.SPREAD:
            return False
        return self._sets_left(window[0], size, beside, self._pieces(now)) < _SETS

    def _sets_left(self, start: int, size: int, beside: int, pieces: Sequence[_Piece]) -> int:
        """How many tiles of size `beside` fit, besides one of `size` at `start`; at most two, which
        is what double-buffering takes."""
        left = []
        for low, high, _, _ in pieces:
            inside = low <= start < high
            left += [start - low, high - start - size] if inside else [high - low]
        return min(_SETS, sum(piece // beside for piece in left))

    def _best_window(
        self,
        size: int,
        held: Content | None,
        now: int,
        wanted: dict[Content, list[int]],
        beside: int = 0,
    ) -> _Window | None:
        """The window whose content is wanted again least, and was last used longest ago; the first
        of equals. None: something lives in each.

        beside: not 0: of the windows that leave room for most tiles of this size.

        Packed: the lowest window, or the highest for a tile that holds constants. Fitted: of those
        that leave the largest piece.
        """
        pieces = self._pieces(now)
        wide = [piece for piece in pieces if piece[1] - piece[0] >= size]
        if not wide:
            return None
        if self.order is Order.PACKED:
            low, high, first, past = wide[0] if held is None else wide[-1]
            windows = [(low if held is None else high - size, first, past)]
        elif self.order is Order.FITTED:
            windows = self._fitted(size, wide, sorted(high - low for low, high, _, _ in pieces))
        else:
            windows = [window for piece in wide for window in self._windows(piece, size)]
        if beside:
            left = [self._sets_left(start, size, beside, pieces) for start, _, _ in windows]
            most = max(left)
            windows = [w for w, sets in zip(windows, left, strict=True) if sets == most]
        costs = (self._cost(window, size, now, wanted) for window in windows)
        return min(costs, key=itemgetter(0))[1]

    def _fitted(self, size: int, wide: Sequence[_Piece], sizes: Sequence[int]) -> list[_Window]:
        """Those in some pieces that leave the largest piece of all. sizes: of all pieces,
        ascending."""
        largest = max(
            max(high - low - size, _largest_beside(high - low, sizes)) for low, high, _, _ in wide
        )
        found: list[_Window] = []
        for piece in wide:
            low, high, first, past = piece
            if _largest_beside(high - low, sizes) == largest:
                found += self._windows(piece, size)
            elif high - low - size == largest:
                found += [(low, first, past), (high - size, first, past)]
        return found

    def _spread_window(
        self, size: int, now: int, wanted: dict[Content, list[int]]
    ) -> _Window | None:
        """_best_window of those that begin at 0 or behind a block, which is asked most often: one
        walk over the blocks, up to the first window that costs nothing."""
        blocks, most = self.blocks, self.depth - size
        count = len(blocks)
        best = (_NEVER, _NEVER)
        chosen: _Window | None = None
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

    def _windows(self, piece: _Piece, size: int) -> list[_Window]:
        """They begin with the piece or behind a block, and end before one or with the piece."""
        low, high, first, past = piece
        inside = self.blocks[first:past]
        starts = {low, high - size, *(b.end for b in inside), *(b.start - size for b in inside)}
        return [(start, first, past) for start in sorted(starts) if low <= start <= high - size]

    def _pieces(self, now: int) -> list[_Piece]:
        """What lies between the blocks that live."""
        found: list[_Piece] = []
        low = first = 0
        for number, block in enumerate(self.blocks):
            if block.last_use >= now:
                if low < block.start:
                    found.append((low, block.start, first, number))
                low, first = block.end, number + 1
        if low < self.depth:
            found.append((low, self.depth, first, len(self.blocks)))
        return found

    def _cost(
        self, window: _Window, size: int, now: int, wanted: dict[Content, list[int]]
    ) -> tuple[tuple[int, int], _Window]:
        """(blocks wanted again, last use) of a window in which nothing lives; and that with the
        blocks in it, some of those that are given."""
        start, first, past = window
        end, last_use, again = start + size, -1, 0
        blocks = self.blocks
        while first < past and blocks[first].end <= start:
            first += 1
        number = first
        while number < past and (block := blocks[number]).start < end:
            if block.last_use > last_use:
                last_use = block.last_use
            if block.content is not None and _next_use(wanted[block.content], now) < _NEVER:
                again += 1
            number += 1
        return (again, last_use), (start, first, number)

    def block_of(self, tile: Tile) -> _Block:
        """The block of a tile that was placed."""
        if self._newest is not None and self._newest.tile is tile:
            return self._newest
        return next(b for b in self.blocks if b.tile is tile)


def _largest_beside(own: int, sizes: Sequence[int]) -> int:
    """The largest piece besides one of size `own`. sizes: of all, ascending."""
    if own < sizes[-1]:
        return sizes[-1]
    return sizes[-2] if len(sizes) > 1 else 0


def _next_use(uses: list[int], now: int) -> int:
    """`uses` is consumed from its end: what is past has been popped."""
    while uses and uses[-1] <= now:
        uses.pop()
    return uses[-1] if uses else _NEVER
