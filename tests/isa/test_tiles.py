# SPDX-License-Identifier: Apache-2.0
"""What an instruction reaches whose fields name tiles."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn, numbers, reached, tiles_of
from tests.isa import gather
from tests.isa.tiled_device import table

TABLE = table(8)
PAD = LocalTile("pad", 2, "pixels")


def test_a_reach_is_of_a_tile_of_named_memory_or_of_plain_rows() -> None:
    read = TiledInsn("read", {"address": At("x", 8), "row": InTile(PAD, 1), "rows": 1})
    found = reached(TABLE, read)
    assert [(each.tile, each.symbol) for each in found] == [(None, "x"), (PAD, None)]
    assert tiles_of(found) == [PAD]
    assert numbers(read) == {"address": 0, "row": 0, "rows": 1}
    plain = reached(TABLE, TiledInsn("read", {"address": 64, "row": 3, "rows": 1}))
    assert [(each.tile, each.symbol) for each in plain] == [(None, ""), (None, None)]


def test_words_that_are_gone_through_are_read() -> None:
    """All of them: which they are, a field may say."""
    found = reached(gather.table(), TiledInsn("gather", {"begin": 2, "end": 3, "turns": 1}))
    words = [each for each in found if each.reach.memory == "index"]
    assert len(words) == 3
    for each in words:
        assert each.reach.places({}) == (0, gather.WORDS)
        assert (each.tile, each.symbol, each.reach.writes) == (None, None, False)


def test_a_tile_of_another_memory_is_refused() -> None:
    mix = TiledInsn("mix", {"row": InTile(PAD), "target": InTile(PAD), "rows": 1})
    with pytest.raises(LoweringError, match="target is a row of out; tile pixels is one of pad"):
        reached(TABLE, mix)


def test_a_tile_where_nothing_is_reached_is_refused() -> None:
    mix = TiledInsn("mix", {"row": InTile(PAD), "rows": InTile(PAD)})
    with pytest.raises(LoweringError, match="mix: nothing is reached from rows: give it a number"):
        reached(TABLE, mix)
