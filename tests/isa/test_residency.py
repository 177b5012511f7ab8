# SPDX-License-Identifier: Apache-2.0
"""Places of tiles, and loads that are left out."""

from __future__ import annotations

from loadstone.isa.residency import Lives, reside
from loadstone.isa.scratchpad import Order, Scratchpad
from loadstone.isa.tiles import LocalTile


def tiles(*names: str) -> list[LocalTile]:
    return [LocalTile("pad", 4, name) for name in names]


def test_tiles_take_turns_and_a_load_of_what_is_there_goes() -> None:
    a, b, again, c = tiles("a", "b", "again", "c")
    touched = [[a], [a], [b], [b], [again], [again, b], [c]]
    loads = [a, None, b, None, again, None, c]
    content = {a: 0, b: 1, again: 0, c: 2}
    lives = Lives(touched, content)
    assert (lives.first[b], lives.last[b]) == (2, 5)
    assert lives.wanted() == {0: [4, 0], 1: [2], 2: [6]}
    found = reside(lives, {"pad": Scratchpad("pad", 8, Order.SPREAD)}, loads)
    assert (found.kept, found.dropped) == ([0, 1, 2, 3, 5, 6], [4])
    assert (found.address[a], found.address[b], found.address[again]) == (0, 4, 0)


def test_without_contents_every_load_stays() -> None:
    a, b = tiles("a", "b")
    found = reside(Lives([[a], [b]], {}), {"pad": Scratchpad("pad", 8, Order.SPREAD)}, [a, b])
    assert (found.kept, found.dropped, found.address) == ([0, 1], [], {a: 0, b: 4})
