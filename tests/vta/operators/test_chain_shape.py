# SPDX-License-Identifier: Apache-2.0
"""vta/operators/chain_shape.py: a shape has room for each of its blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.integers.levels import constant_tile
from loadstone.vta.integers.proof import Chain, DigitPlan, Level, PartPlan, Stair
from loadstone.vta.operators.chain_shape import chain_tiles, common_shift, digit_shape, kind_of
from loadstone.vta.schedule.rescaled_spec import LevelShape

LANES = 16
NONE = np.zeros(LANES, np.int64)


def weights(value: int) -> np.ndarray:
    return np.full(LANES, value, np.int8)


def plan(*levels: Level, shift: int = 0, stairs: tuple[Stair, ...] = ()) -> DigitPlan:
    chain = Chain(levels, NONE + shift, -128, 127, stairs=stairs)
    return DigitPlan(NONE, 0, NONE, 3, False, False, NONE.astype(np.bool_), chain)


def test_a_shift_is_common_where_all_lanes_of_all_blocks_have_it() -> None:
    assert common_shift([NONE + 3, NONE + 3]) == 3
    assert common_shift([NONE + 3, NONE + 4]) is None
    assert common_shift([np.arange(LANES)]) is None


def test_a_shape_has_at_each_level_what_any_block_needs() -> None:
    first = plan(Level(0, ((0, weights(1)), (2, weights(2))), ()), Level(8, ((2, weights(3)),), ()))
    other = plan(
        Level(0, ((0, weights(4)), (1, weights(5))), (NONE + 7,)),
        Level(8, ((2, weights(6)), (2, weights(7))), ()),
    )
    shape = digit_shape([first, other])
    assert shape.levels == (LevelShape(0, ((0, 3),), 1), LevelShape(8, ((2, 1), (2, 1)), 0))
    assert shape.shift == 0
    # What a block does not need is zero: first the constant, then digits 0 to 2, then 2 twice.
    tiles, others = chain_tiles([first, other], shape, LANES)
    rows = [tile.diagonal() for tile in tiles]
    assert [int(row[5]) for row in rows] == [0, 1, 0, 2, 3, 0]
    assert [int(tile[5, 5]) for tile in others[1:]] == [4, 5, 0, 6, 7]
    constant = others[0].astype(np.int64) @ constant_tile(LANES).astype(np.int64)
    np.testing.assert_array_equal(constant, NONE + 7)
    off = ~np.eye(LANES, dtype=np.bool_)
    assert not others[1:][:, off].any()  # lanes do not meet


def test_tiles_of_stairs_stand_behind_the_levels() -> None:
    stair = Stair((NONE + 9,), weights(11), (15, 1), 0, None, None)
    own = plan(Level(0, ((0, weights(1)),), ()), stairs=(stair, replace(stair, constants=())))
    shape = digit_shape([own])
    assert [(s.constants, s.signed) for s in shape.stairs] == [(1, True), (0, True)]
    (tiles,) = chain_tiles([own], shape, LANES)
    assert len(tiles) == shape.tiles == 4
    assert [int(tile[3, 3]) for tile in (tiles[0], tiles[2], tiles[3])] == [1, 11, 11]


def test_blocks_of_one_kind_differ_in_integers_alone() -> None:
    two = plan(Level(0, ((0, weights(1)), (1, weights(1))), ()), Level(8, (), ()))
    assert kind_of(two) == kind_of(
        plan(Level(0, ((0, weights(9)), (1, weights(8))), ()), Level(8, (), ()))
    )
    for other in (
        plan(Level(0, ((0, weights(1)), (1, weights(1))), ()), Level(6, (), ())),
        plan(Level(0, ((0, weights(1)), (1, weights(1))), ()), Level(8, (), ()), shift=2),
        # A product more at the lowest level is a step in every tile of its kernel.
        plan(Level(0, ((0, weights(1)), (1, weights(1)), (2, weights(1))), ()), Level(8, (), ())),
        replace(two, left=1),
        replace(two, clamped=True),
        PartPlan(NONE, NONE, (0, 8), NONE, -128, 127, NONE.astype(np.bool_)),
    ):
        assert kind_of(other) != kind_of(two)
