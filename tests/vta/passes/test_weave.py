# SPDX-License-Identifier: Apache-2.0
"""weave.py: layers take turns, each reads what it read, and no turn waits for the newest one."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.vta.passes.weave import Weave
from tests.vta.passes.store_inp.two_layers import TwoLayers


def turns(layers: TwoLayers) -> list[str]:
    """The layers, in the order of their turns; how often a layer comes after itself is left out."""
    after = Weave().run(layers.program())
    return [layer for layer, _ in groupby(after.operations, key=lambda each: each[0])]


def test_a_layer_goes_on_when_the_one_in_front_is_a_turn_ahead() -> None:
    """Tiles of 4, 3 and 2 rows; takes of three, in two blocks each."""
    assert turns(TwoLayers(9, 5, 3, taken=3)) == ["one", "two", "one", "two"]
    assert turns(TwoLayers(9, 5, 3, taken=9)) == ["one", "two"]


@pytest.mark.parametrize(("height", "rows"), [(9, 3), (10, 3), (8, 1), (30, 4)])
def test_the_result_is_the_same(height: int, rows: int) -> None:
    layers = TwoLayers(height, 6, rows, taken=rows)
    before = layers.program()
    after = Weave().run(before)
    Weave().verify(before, after)
    assert after.operations != before.operations
    assert sorted(map(id, after.operations)) == sorted(map(id, before.operations))
    assert np.array_equal(layers.result(after.operations), layers.result(before.operations))


def test_a_program_without_chains_stays() -> None:
    before = TwoLayers().program()
    assert Weave().run(before) is before


def test_layers_that_write_where_another_one_reads_stay_in_their_order() -> None:
    layers = TwoLayers(9, 5, 3, taken=3)
    before = layers.program()
    places = {**before.places, "out": Address(2, 0), "x": Address(2, 0)}
    shared = replace(before, places=places)
    assert list(Weave().run(shared).operations) == list(shared.operations)


def test_another_order_is_refused() -> None:
    before = TwoLayers(9, 5, 3, taken=3).program()
    with pytest.raises(LoweringError):
        Weave().verify(before, replace(before, operations=before.operations[::-1]))
