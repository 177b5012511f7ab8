# SPDX-License-Identifier: Apache-2.0
"""filling.py: what is counted in steps is what a count from the beginning gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.store_inp.filling import Filling
from loadstone.vta.passes.store_inp.flow import InpContent
from loadstone.vta.stream.operations import VirtualTile

_OPERATIONS = 30


def counted(
    lives: dict[VirtualTile, tuple[int, int]], contents: list[InpContent]
) -> NDArray[np.int64]:
    """Each content from its first store to its last reader, each other tile from the first
    operation of the one before it on."""
    filled = np.zeros(_OPERATIONS, np.int64)
    for content in contents:
        filled[content.first : content.used[-1] + 1] += content.size
    stored = {tile for content in contents for tile in content.tiles}
    before = None
    for tile, (first, last) in lives.items():
        if tile not in stored:
            filled[first if before is None else before : last + 1] += tile.size_tiles
            before = first
    return filled


@st.composite
def programs(draw: st.DrawFn) -> tuple[dict[VirtualTile, tuple[int, int]], list[InpContent]]:
    numbers = st.integers(0, _OPERATIONS - 1)
    firsts = sorted(draw(st.lists(numbers, max_size=8)))
    lives = {
        VirtualTile(Memory.INP, draw(st.integers(1, 9)), f"tile {n}"): (
            first,
            draw(st.integers(first, _OPERATIONS - 1)),
        )
        for n, first in enumerate(firsts)
    }
    free = draw(st.permutations(list(lives)))
    contents = []
    while free:
        tiles, free = free[: (size := draw(st.integers(1, 3)))], free[size:]
        last = max(lives[tile][1] for tile in tiles)
        begin = draw(st.integers(0, min(lives[tile][0] for tile in tiles)))
        used = sorted([draw(st.integers(begin, last)), last])
        contents.append(InpContent(tiles, [], [], {begin: np.zeros((1, 2), np.int64)}, used))
    return lives, contents


@given(programs(), st.data())
def test_steps_give_what_a_whole_count_gives(
    program: tuple[dict[VirtualTile, tuple[int, int]], list[InpContent]], data: st.DataObject
) -> None:
    lives, contents = program
    filling = Filling(lives, _OPERATIONS)
    assert np.array_equal(filling.filled, counted(lives, []))
    kept: list[InpContent] = []
    for content in contents:
        filling.add([content])
        assert np.array_equal(filling.filled, counted(lives, [*kept, content]))
        if data.draw(st.booleans()):
            kept.append(content)
        else:
            filling.take_back([content])
            assert np.array_equal(filling.filled, counted(lives, kept))


def test_a_tile_leaves_once_and_one_that_nobody_loads_does_not() -> None:
    """Two contents of one tile, and one of a tile that has no life of its own."""
    tiles = [VirtualTile(Memory.INP, 3 + n, f"tile {n}") for n in range(3)]
    strange = VirtualTile(Memory.INP, 20, "strange")
    lives = {tile: (4 * n, 4 * n + 2) for n, tile in enumerate(tiles)}
    filling = Filling(lives, _OPERATIONS)
    at_first = filling.filled.copy()

    def content(tile: VirtualTile, first: int, last: int) -> InpContent:
        return InpContent([tile], [], [], {first: np.zeros((1, 2), np.int64)}, [last])

    group = [content(tiles[1], 1, 6), content(strange, 0, 1), content(tiles[1], 2, 6)]
    filling.add(group)
    assert np.array_equal(filling.filled, counted(lives, group))
    assert filling.filled[:3].tolist() == [3 + 5 + 20, 3 + 5 + 20 + 4, 3 + 5 + 4 + 4]
    again = [content(tiles[1], 5, 6)]
    filling.add(again)
    assert np.array_equal(filling.filled, counted(lives, group + again))
    filling.take_back(again)
    assert np.array_equal(filling.filled, counted(lives, group))
    filling.take_back(group)
    assert np.array_equal(filling.filled, at_first)
