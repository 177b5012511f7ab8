# SPDX-License-Identifier: Apache-2.0
"""halo.py: what an older store made is loaded, and the load pads what the last one will bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.store_inp.flow import InpContent, flow_of
from loadstone.vta.passes.store_inp.halo import with_halo
from loadstone.vta.passes.store_inp.room import Room
from loadstone.vta.passes.store_inp.store_inp import StoreInp, stored
from loadstone.vta.passes.weave import Weave
from loadstone.vta.stream.operations import DramTile, TileLoad, VirtualTile
from tests.vta.passes.store_inp.two_layers import TwoLayers


def contents(layers: TwoLayers) -> list[InpContent]:
    return list(flow_of(Weave().run(layers.program())).contents)


def test_rows_of_an_older_store_are_loaded() -> None:
    """Takes of three rows of a width of 5: the first needs one store, the others two."""
    found = [with_halo(one) for one in contents(TwoLayers(9, 5, 3, taken=3))]
    assert [one is not None for one in found] == [False, False, True, True, True, True]
    for one in (one for one in found if one is not None):
        (rest,) = one.rest
        last = rest.y_size + rest.y_pad_1 == 5
        assert (rest.y_size, rest.x_pad_0, rest.x_pad_1, last) == (2, 1, 1, True)
        assert len(one.parts) == 1
        assert [len(cells) for cells in one.left.values()] == [10]
        assert not one.padded


def test_more_rows_than_a_field_of_pads_holds_are_not() -> None:
    """A take of 15 rows and two around it: two that are loaded, 15 that are padded. One of 16."""
    assert with_halo(contents(TwoLayers(31, 3, 15, taken=15))[2]) is not None
    assert with_halo(contents(TwoLayers(33, 3, 16, taken=16))[2]) is None


def test_rows_that_the_last_store_made_first_are_not() -> None:
    content = contents(TwoLayers(9, 5, 3, taken=3))[2]
    older, last = sorted(content.parts)
    turned = {older: content.parts[last], last: content.parts[older]}
    other = InpContent(content.tiles, content.loads, content.own, turned)
    assert with_halo(other) is None


#: Five rows of five tiles from the seventh on, one of them and a column on each side padding.
OWN = TileLoad(
    Memory.INP, VirtualTile(Memory.INP, 40, "x"), 7, DramTile("mid", 0), 4, 3, 3, 1, 1, 1, 1, -7
)


def content_of(load: TileLoad, rows: Mapping[int, Sequence[int]], loads: int = 1) -> InpContent:
    """rows: of the tile, what each store brings."""
    width = load.x_pad_0 + load.x_size + load.x_pad_1
    parts = {}
    for store, own in rows.items():
        places = [load.offset + y * width + load.x_pad_0 + x for y in own for x in range(3)]
        parts[store] = np.array([[100 + n, place] for n, place in enumerate(places)])
    return InpContent([load.tile], [1], [load] * loads, parts, [20])


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ({2: [1, 2], 9: [3, 4]}, 2),
        ({2: [1], 9: [2, 3, 4]}, 1),
        ({2: [1], 5: [2], 9: [3, 4]}, 2),
        ({2: [1, 2], 9: [2, 3, 4]}, None),
        ({2: [1, 3], 9: [2, 4]}, None),
        ({2: [1], 5: [2, 4], 9: [3]}, None),
        ({9: [1, 2, 3, 4]}, None),
    ],
)
def test_the_load_ends_where_the_last_store_begins(
    rows: Mapping[int, Sequence[int]], count: int | None
) -> None:
    found = with_halo(content_of(OWN, rows))
    if count is None:
        assert found is None
        return
    assert found is not None
    (rest,) = found.rest
    assert rest == replace(OWN, y_size=count, y_pad_1=5 - count)
    assert list(found.parts) == [9]
    assert {n: len(cells) for n, cells in found.left.items()} == {
        n: 3 * len(own) for n, own in rows.items() if n != 9
    }


def test_without_pads_nothing_is_padded() -> None:
    bare = replace(OWN, y_pad_0=0, y_pad_1=0, x_pad_0=0, x_pad_1=0)
    found = with_halo(content_of(bare, {2: [0], 9: [1, 2, 3]}))
    assert found is not None
    assert found.rest == (replace(bare, y_size=1),)


def test_what_two_loads_bring_is_left_to_them() -> None:
    assert with_halo(content_of(OWN, {2: [1, 2], 9: [3, 4]}, 2)) is None


@pytest.mark.parametrize(("height", "rows"), [(9, 3), (10, 3), (8, 1), (7, 5)])
def test_the_result_is_the_same(height: int, rows: int) -> None:
    layers = TwoLayers(height, 6, rows, taken=rows)
    before = layers.program()
    woven = Weave().run(before)
    flow = flow_of(woven)
    after = stored(woven, flow, Room(woven, flow).chosen(0))
    StoreInp().verify(woven, after)
    assert np.array_equal(layers.result(after.operations), layers.result(before.operations))
