# SPDX-License-Identifier: Apache-2.0
"""views.py: each tile of a part is found where it stands in the whole, whatever the transfer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.views import View, on_whole
from loadstone.vta.stream.operations import DramTile, TileLoad, TileStore, VirtualTile

TILE = VirtualTile(Memory.ACC, 4096, "t")


@st.composite
def views(draw: Any) -> View:
    whole_plane = draw(st.integers(1, 12))
    plane = draw(st.integers(1, whole_plane))
    blocks = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=5)))
    return View("whole", plane, whole_plane, draw(st.integers(0, whole_plane - plane)), blocks)


def moved(operation: TileLoad | TileStore) -> dict[int, int]:
    """Scratchpad tile -> DRAM tile, without padding."""
    return {
        operation.offset + y * operation.x_size + x: operation.dram.tile
        + y * operation.x_stride
        + x
        for y in range(operation.y_size)
        for x in range(operation.x_size)
    }


@given(st.data())
def test_every_tile_is_found(data: Any) -> None:
    view = data.draw(views())
    size = view.plane * len(view.blocks)
    first = data.draw(st.integers(0, size - 1))
    x_size = data.draw(st.integers(1, size - first))
    x_stride = data.draw(st.integers(x_size, size))
    y_size = data.draw(st.integers(1, (size - first - x_size) // x_stride + 1))
    place = DramTile("part", first)
    is_store = data.draw(st.booleans())
    part = (
        TileStore(TILE, 7, place, y_size, x_size, x_stride)
        if is_store
        else TileLoad(Memory.INP, TILE, 7, place, y_size, x_size, x_stride)
    )
    whole: dict[int, int] = {}
    for operation in on_whole([part], {"part": view}):
        assert isinstance(operation, TileLoad | TileStore)
        assert operation.dram.tensor == "whole"
        assert operation.y_size == 1 or operation.x_stride >= operation.x_size
        assert not whole.keys() & moved(operation).keys()
        whole |= moved(operation)
    assert whole == {
        tile: view.blocks[at // view.plane] * view.whole_plane + view.first + at % view.plane
        for tile, at in moved(part).items()
    }


def test_other_tensors_stay() -> None:
    load = TileLoad(Memory.INP, TILE, 0, DramTile("other", 3), 1, 4, 4)
    assert on_whole([load], {"part": View("whole", 1, 1, 0, [5])}) == [load]


def test_rows_with_padding_stay_one_load_or_are_refused() -> None:
    """Two rows of three tiles, in the second block of the whole."""
    view = View("whole", 6, 20, 4, [0, 1])
    load = TileLoad(Memory.INP, TILE, 0, DramTile("part", 6), 2, 3, 3, x_pad_0=1, y_pad_1=1)
    (made,) = on_whole([load], {"part": view})
    assert made == replace(load, dram=DramTile("whole", 24), x_stride=3)
    across = replace(load, dram=DramTile("part", 3), y_size=3)
    with pytest.raises(LoweringError, match="not one load of the whole"):
        on_whole([across], {"part": view})
