# SPDX-License-Identifier: Apache-2.0
"""pieces.py: every cell goes to its place, requantized by its own operands, in few stores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.numerics import Rounding
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.store_inp.pieces import stores_to_dram, stores_to_inp
from loadstone.vta.stream.operations import (
    DramTile,
    StoreRequantization,
    TileStore,
    VirtualTile,
)

ACC, BY, TO = (
    VirtualTile(Memory.ACC, 400, "a"),
    VirtualTile(Memory.ACC, 90, "p"),
    VirtualTile(Memory.INP, 400, "x"),
)


def store(y: int, x: int, step: int | None) -> TileStore:
    by = None if step is None else StoreRequantization(BY, 6, step, 0, -1, 1, Rounding.DOUBLE)
    return TileStore(ACC, 10, DramTile("y", 100), y, x, x + 3, by)


def moved(made: TileStore) -> list[tuple[int, int, int]]:
    """Of each tile: where it is in ACC, its operands, and where it goes."""
    by, to = made.requantization, made.inp
    assert to is not None
    assert to.tile is TO
    return [
        (
            made.offset + y * made.x_size + x,
            by.offset + y * by.step if by is not None else -1,
            to.offset + y * made.x_stride + x,
        )
        for y in range(made.y_size)
        for x in range(made.x_size)
    ]


@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from([None, 0, 3]), st.data())
def test_every_cell_goes_to_its_place(
    y: int, x: int, step: int | None, data: st.DataObject
) -> None:
    o = store(y, x, step)
    some = data.draw(st.lists(st.integers(0, y * x - 1), min_size=1, unique=True))
    width = data.draw(st.integers(1, 12))
    cells = np.array([(c, c // width * (width + 2) + c % width + 5) for c in some], np.int64)
    made = stores_to_inp(o, TO, cells)
    wanted = [
        (o.offset + c, -1 if step is None else 6 + c // x * step, place)
        for c, place in sorted(map(tuple, cells.tolist()))
    ]
    assert [one for each in made for one in moved(each)] == wanted
    assert all(each.requantization is None or each.requantization.step in (0, 3) for each in made)


@pytest.mark.parametrize(("step", "count"), [(0, 1), (3, 2)])
def test_rows_with_a_halo_are_one_store_for_each_operands(step: int, count: int) -> None:
    """Two rows of the store, each three rows of five there."""
    o = store(2, 15, step)
    cells = np.array([(c, c // 5 * 7 + c % 5) for c in range(30)], np.int64)
    made = stores_to_inp(o, TO, cells)
    assert len(made) == count
    assert {(each.x_size, each.x_stride) for each in made} == {(5, 7)}
    assert made[0].dram == DramTile("y", 100)
    if step:
        assert made[1].dram == DramTile("y", 118)


@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from([None, 0, 3]), st.data())
def test_some_cells_go_to_their_places_in_dram(
    y: int, x: int, step: int | None, data: st.DataObject
) -> None:
    o = store(y, x, step)
    cells = sorted(data.draw(st.sets(st.integers(0, y * x - 1), min_size=1)))
    made = stores_to_dram(o, np.array(cells, np.int64))
    found = [
        (
            one.offset + n,
            one.requantization.offset if one.requantization is not None else -1,
            one.dram.tile + n,
        )
        for one in made
        for n in range(one.x_size)
    ]
    assert found == [
        (10 + c, -1 if step is None else 6 + c // x * step, 100 + c // x * (x + 3) + c % x)
        for c in cells
    ]
    assert all(one.y_size == 1 and one.inp is None for one in made)
