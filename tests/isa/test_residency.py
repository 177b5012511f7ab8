# SPDX-License-Identifier: Apache-2.0
"""Places of tiles, loads that are left out, and windows: those that a search through all finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from loadstone.isa.residency import (
    NO_CONTENT,
    Lives,
    NoRoomError,
    TileColumns,
    lives_of,
    reside,
)
from loadstone.isa.scratchpad import Order, Scratchpad
from loadstone.isa.tiles import LocalTile
from tests.little_memory import little_memory
from tests.repeat import times

DEPTH = 64


def tiles(*names: str) -> list[LocalTile]:
    return [LocalTile("pad", 4, name) for name in names]


def lived(touched: list[list[LocalTile]], content: dict[LocalTile, int]) -> Lives[LocalTile]:
    """touched: by operation. Tiles have the numbers of their names' order."""
    tiles = sorted({tile for each in touched for tile in each}, key=lambda tile: tile.name)
    sizes, held = ([tile.size_tiles for tile in tiles], [content.get(t, NO_CONTENT) for t in tiles])
    memory, size, content_of = (np.array(c, np.int64) for c in ([0] * len(tiles), sizes, held))
    touches = [(n, tiles.index(tile)) for n, each in enumerate(touched) for tile in each]
    operation, tile = np.array(touches, np.int64).T
    return lives_of(TileColumns(tiles, memory, size, content_of), operation, tile)


def test_tiles_take_turns_and_a_load_of_what_is_there_goes() -> None:
    a, b, again, c = tiles("a", "b", "again", "c")
    touched = [[a], [a], [b], [b], [again], [again, b], [c]]
    lives = lived(touched, {a: 0, b: 1, again: 0, c: 2})
    assert lives.tiles.tiles == [a, b, again, c]
    assert (lives.first.tolist(), lives.last.tolist()) == ([0, 2, 4, 6], [1, 5, 5, 6])
    found = reside(lives, {0: Scratchpad("pad", 8, Order.SPREAD)})
    assert found.resident.tolist() == [False, False, True, False]
    assert found.address.tolist() == [0, 4, 0, 0]


def test_without_contents_every_load_stays() -> None:
    a, b = tiles("a", "b")
    found = reside(lived([[a], [b]], {}), {0: Scratchpad("pad", 8, Order.SPREAD)})
    assert (found.resident.tolist(), found.address.tolist()) == ([False, False], [0, 4])


@dataclass
class _Block:
    start: int
    end: int
    last_use: int
    content: int


class _Cells:
    """A scratchpad cell by cell, and what is looked for in it."""

    def __init__(self, lives: Lives[LocalTile]) -> None:
        self.begins = list(zip(lives.tiles.content.tolist(), lives.first.tolist(), strict=True))
        self.cells: list[_Block | None] = [None] * DEPTH
        self.newest = 1 << 48
        self.apart = False

    def blocks(self, begin: int = 0, end: int = DEPTH) -> list[_Block]:
        """Each once."""
        return list({id(b): b for b in self.cells[begin:end] if b is not None}.values())

    def cost(self, start: int, size: int, now: int) -> tuple[int, int, int] | None:
        """(contents wanted again or just now, last use, start) of a window; None: something lives
        in it."""
        inside = self.blocks(start, start + size)
        if start < 0 or start + size > DEPTH or any(block.last_use >= now for block in inside):
            return None
        later = {content for content, first in self.begins if content >= 0 and first > now}
        again = sum(
            block.content in later or (self.apart and self._is_busy(block)) for block in inside
        )
        return again, max((block.last_use for block in inside), default=-1), start

    def _is_busy(self, block: _Block) -> bool:
        return block.content >= 0 and block.last_use > self.newest

    def spread(self, size: int, now: int) -> int | None:
        """The start of the best window at 0 or behind a block."""
        starts = [0, *(block.end for block in self.blocks())]
        costs = [cost for start in starts if (cost := self.cost(start, size, now)) is not None]
        return min(costs)[2] if costs else None

    def packed(self, size: int, now: int, content: int) -> int | None:
        """The lowest window; of a constant the highest."""
        starts = range(DEPTH) if content < 0 else reversed(range(DEPTH))
        return next((s for s in starts if self.cost(s, size, now) is not None), None)

    def fitted(self, size: int, now: int) -> int | None:
        """Of windows at the end of what lies free together, or beside a block, the best of those
        that leave the largest piece."""
        ends = [0, DEPTH, *(end for block in self.blocks() for end in (block.start, block.end))]
        starts = {start for end in ends for start in (end, end - size)}
        costs = [cost for start in starts if (cost := self.cost(start, size, now)) is not None]
        left = {cost: self._largest(cost[2], size, now) for cost in costs}
        most = max(left.values(), default=0)
        return min(c for c in costs if left[c] == most)[2] if costs else None

    def _largest(self, start: int, size: int, now: int) -> int:
        free = [b is None or b.last_use < now for b in self.cells]
        free[start : start + size] = [False] * size
        return max(map(len, "".join(" x"[cell] for cell in free).split()), default=0)


def _random_lives(seed: int) -> tuple[list[list[LocalTile]], dict[LocalTile, int]]:
    rng = np.random.default_rng(seed)
    touched: list[list[LocalTile]] = [[] for _ in range(80)]
    content: dict[LocalTile, int] = {}
    sizes = rng.integers(1, 12, 10).tolist()
    for number in range(70):
        held = int(rng.integers(-4, 10))
        size = sizes[held] if held >= 0 else int(rng.integers(1, 12))
        tile = LocalTile("pad", size, f"t{number}")
        if held >= 0:
            content[tile] = held
        touched[number].append(tile)
        touched[number + int(rng.integers(0, 10))].append(tile)
    return touched, content


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("seed", range(times(5, 500)))
def test_a_window_is_the_best_of_all(seed: int, order: Order) -> None:
    touched, content = _random_lives(seed)
    lives = lived(touched, content)
    cells, found = _Cells(lives), list[int]()
    cells.apart = order is Order.APART
    refused = None
    lived_in = (lives.tiles.tiles, lives.first.tolist(), lives.last.tolist())
    for tile, now, last in zip(*lived_in, strict=True):
        held = content.get(tile, -1)
        there = next((b for b in cells.blocks() if held >= 0 and b.content == held), None)
        if there is not None:
            there.last_use = max(there.last_use, last)
            cells.newest = now
            found.append(there.start)
            continue
        size = tile.size_tiles
        if order in (Order.SPREAD, Order.APART):
            start = cells.spread(size, now)
        elif order is Order.PACKED:
            start = cells.packed(size, now, held)
        else:
            start = cells.fitted(size, now)
        if start is None:
            refused = (tile.name, now)
            break
        gone = {id(block) for block in cells.blocks(start, start + size)}
        cells.cells = [None if id(block) in gone else block for block in cells.cells]
        block = _Block(start, start + size, last, held)
        cells.cells[start : start + size] = [block] * size
        cells.newest = now
        found.append(start)
    pads = {0: Scratchpad("pad", DEPTH, order)}
    if refused is None:
        assert reside(lives, pads).address.tolist() == found
        return
    with pytest.raises(NoRoomError, match=f"pad has no room for {refused[0]} of ") as error:
        reside(lives, pads)
    assert error.value.operation == refused[1]


def test_a_load_does_not_take_the_place_of_what_is_worked_on() -> None:
    """Four parts in three places, twice: the last round alternates between two of them."""
    parts = [LocalTile("pad", 2, f"part{n}") for n in range(8)]
    touched = [[part] for part in parts for _ in ("load", "use")]
    lives = lived(touched, {part: n % 4 for n, part in enumerate(parts)})
    found = reside(lives, {0: Scratchpad("pad", 6, Order.APART)})
    assert found.address.tolist() == [0, 2, 4, 0, 2, 4, 2, 0]
    assert found.resident.tolist() == [False] * 7 + [True]


def test_a_constant_goes_where_two_tiles_have_room_beside_it() -> None:
    old, dead, constant = (
        LocalTile("pad", size, name) for size, name in ((2, "old"), (3, "dead"), (1, "one"))
    )
    lives = lived([[old], [dead], [constant], [old]], {constant: 0})
    pads = {0: Scratchpad("pad", 12, Order.SPREAD)}
    assert reside(lives, pads).address[2] == 5
    assert reside(lives, pads, np.array([0, 0, 3])).address[2] == 5
    assert reside(lives, pads, np.array([0, 0, 4])).address[2] == 11


def test_columns_that_cannot_be_are_refused() -> None:
    pads = {0: Scratchpad("pad", 8, Order.SPREAD)}
    with pytest.raises(AssertionError):
        reside(lived([[LocalTile("pad", 0, "empty")]], {}), pads)
    tile = LocalTile("pad", 1, "held")
    with pytest.raises(AssertionError):
        reside(lived([[tile]], {tile: -2}), pads)


def test_a_tile_that_nothing_touches_has_no_life() -> None:
    tiles = [LocalTile("pad", 1, name) for name in ("unused", "late", "early", "unused too")]
    size, content = np.ones(4, np.int64), np.full(4, NO_CONTENT)
    columns = TileColumns(tiles, np.zeros(4, np.int64), size, content)
    lives = lives_of(columns, np.array([0, 5, 7]), np.array([2, 1, 2]))
    assert lives.tiles.tiles == [tiles[2], tiles[1]]
    assert (lives.first.tolist(), lives.last.tolist()) == ([0, 5], [7, 5])
    assert lives.number.tolist() == [2, 1]


def test_each_memory_has_its_own_scratchpad() -> None:
    tiles = [LocalTile("pad", 1, name) for name in "abc"]
    memory, ones = np.array([5, 2, 5]), np.ones(3, np.int64)
    columns = TileColumns(tiles, memory, ones, np.full(3, NO_CONTENT))
    lives = lives_of(columns, np.zeros(3, np.int64), np.arange(3))
    pads = {5: Scratchpad("five", 4, Order.SPREAD), 2: Scratchpad("two", 4, Order.SPREAD)}
    assert reside(lives, pads).address.tolist() == [0, 0, 1]
    full = {5: Scratchpad("five", 1, Order.SPREAD), 2: pads[2]}
    with pytest.raises(NoRoomError, match="five has no room for c "):
        reside(lives, full)


def test_contents_of_any_number_are_known() -> None:
    a, b, again = (LocalTile("pad", 1, name) for name in ("a", "b", "again"))
    found = reside(
        lived([[a], [b], [again]], {a: 50, b: 60, again: 50}),
        {0: Scratchpad("pad", 8, Order.SPREAD)},
    )
    assert found.resident.tolist() == [False, False, True]


def test_what_does_not_fit_is_said_in_one_line() -> None:
    a, b = tiles("a", "b")
    with pytest.raises(NoRoomError) as error:
        reside(lived([[a], [b, a]], {}), {0: Scratchpad("pad", 7, Order.SPREAD)})
    assert str(error.value) == (
        "allocate: pad has no room for b of 4 tiles: 4 of 7 are in use; smaller tiles are needed"
    )
    assert error.value.operation == 1
    assert NoRoomError("elsewhere").operation == 0


def test_more_contents_than_memory_is_said() -> None:
    (tile,) = tiles("a")
    with little_memory(), pytest.raises(MemoryError, match="residency"):
        reside(lived([[tile]], {tile: 1 << 28}), {0: Scratchpad("pad", 8, Order.SPREAD)})
