# SPDX-License-Identifier: Apache-2.0
"""How full INP is at each operation, while what stores make takes the place of loaded tiles.

In:   the tiles of INP that a program uses, by their first use, and from when to when.
Out:  Filling: tiles of INP in use at each operation, after each content that is tried.
Next: room.py asks whether a content fits.

A tile that is loaded may be loaded ahead, while the one before it is in use: it counts from that
one's first operation on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from loadstone.vta.passes.store_inp.flow import InpContent
from loadstone.vta.stream.operations import VirtualTile

__all__ = ["Filling"]

_NONE = -1


class Filling:
    """Changed in place: a content that does not fit is taken back, last one first."""

    def __init__(self, live_ranges: Mapping[VirtualTile, Sequence[int]], operations: int) -> None:
        """live_ranges: the first and the last operation of each tile, by rising first ones."""
        self.at: dict[VirtualTile, int] = {tile: n for n, tile in enumerate(live_ranges)}
        self.live_ranges = [(first, last) for first, last in live_ranges.values()]
        self.sizes = [tile.size_tiles for tile in live_ranges]
        self.before = list(range(_NONE, len(self.live_ranges) - 1))
        self.behind = [*range(1, len(self.live_ranges)), _NONE] if self.live_ranges else []
        self.filled = np.zeros(operations, np.int64)
        self.is_gone = [False] * len(self.live_ranges)
        for number in range(len(self.live_ranges)):
            self._count(number, 1)
        self._done: list[list[int]] = []

    def add(self, contents: Iterable[InpContent]) -> None:
        """Keeps them in INP from their first store to their last reader; their tiles are not
        loaded."""
        gone = []
        for content in contents:
            self._hold(content, 1)
            for tile in content.tiles:
                number = self.at.get(tile)
                if number is not None and not self.is_gone[number]:
                    self._leave(number)
                    gone.append(number)
        self._done.append(gone)

    def take_back(self, contents: Iterable[InpContent]) -> None:
        """What add() did last, with the same contents."""
        for number in reversed(self._done.pop()):
            self._come_back(number)
        for content in contents:
            self._hold(content, -1)

    # --- one tile ---------------------------------------------------------------------------------
    def _hold(self, content: InpContent, sign: int) -> None:
        self.filled[content.first : content.used[-1] + 1] += sign * content.size

    def _count(self, number: int, sign: int) -> None:
        first, last = self.live_ranges[number]
        before = self.before[number]
        begin = first if before == _NONE else self.live_ranges[before][0]
        self.filled[begin : last + 1] += sign * self.sizes[number]

    def _leave(self, number: int) -> None:
        before, behind = self.before[number], self.behind[number]
        self._count(number, -1)
        if before != _NONE:
            self.behind[before] = behind
        if behind != _NONE:
            self._count(behind, -1)
            self.before[behind] = before
            self._count(behind, 1)
        self.is_gone[number] = True

    def _come_back(self, number: int) -> None:
        before, behind = self.before[number], self.behind[number]
        if before != _NONE:
            self.behind[before] = number
        if behind != _NONE:
            self._count(behind, -1)
            self.before[behind] = number
            self._count(behind, 1)
        self._count(number, 1)
        self.is_gone[number] = False
