# SPDX-License-Identifier: Apache-2.0
"""halo.py: what an older store made is loaded, and the load pads what the last one will bring."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.vta.passes.store_inp.flow import InpContent, flow_of
from loadstone.vta.passes.store_inp.halo import with_halo
from loadstone.vta.passes.store_inp.room import Room
from loadstone.vta.passes.store_inp.store_inp import StoreInp, stored
from loadstone.vta.passes.weave import Weave
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


@pytest.mark.parametrize(("height", "rows"), [(9, 3), (10, 3), (8, 1), (7, 5)])
def test_the_result_is_the_same(height: int, rows: int) -> None:
    layers = TwoLayers(height, 6, rows, taken=rows)
    before = layers.program()
    woven = Weave().run(before)
    flow = flow_of(woven)
    after = stored(woven, flow, Room(woven, flow).chosen(0))
    StoreInp().verify(woven, after)
    assert np.array_equal(layers.result(after.operations), layers.result(before.operations))
