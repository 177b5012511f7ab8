# SPDX-License-Identifier: Apache-2.0
"""ir_pass/lanes.py: how operands move with the loops over lanes."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.lanes import LaneAccess, lanes_of
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import NestStep, NestTensor

OPERANDS = {"gemm": ("acc", "inp", "wgt"), "add": ("acc",)}
TILES = MemoryTable(OPERANDS, {})
ROWS = MemoryTable(OPERANDS, {}, {("gemm", 2): 4})


def tensor(rows: int, columns: int) -> NestTensor:
    return NestTensor(f"t{rows}x{columns}", (9,), (rows, columns), "int8")


def gemm(*lanes: tuple[int, int]) -> NestStep:
    return NestStep("gemm", tuple(tensor(*each)[0] for each in lanes))


def test_weights_are_a_tile_with_a_row_for_each_result_or_tiles_of_one_row() -> None:
    found = lanes_of(gemm((2, 8), (2, 4), (8, 4)), TILES)
    assert found.loops == {"lane_b": 2, "lane": 8, "k": 4}
    assert found.operands[1:] == (LaneAccess("", "lane_b", "k"), LaneAccess("", "lane", "k"))
    found = lanes_of(gemm((1, 8), (1, 4), (1, 8)), ROWS)
    assert found.operands[2] == LaneAccess("k", "", "lane")


@pytest.mark.parametrize(
    "lanes", [((2, 8), (1, 4), (8, 4)), ((2, 8), (2, 4), (4, 8)), ((1, 8), (1, 4), (1, 8))]
)
def test_tiles_that_do_not_fit_are_named(lanes: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(LoweringError, match=r"gemm of tiles that do not fit: t\dx8 of \dx8, t"):
        lanes_of(gemm(*lanes), TILES)


def test_other_steps_move_lane_by_lane() -> None:
    step = NestStep("add", (tensor(2, 8)[0], tensor(2, 8)[1]))
    assert lanes_of(step, TILES).operands == (LaneAccess("", "lane_b", "lane"),) * 2
    with pytest.raises(
        LoweringError, match="add of tiles that do not fit: t2x8 of 2x8, t1x8 of 1x8"
    ):
        lanes_of(NestStep("add", (tensor(2, 8)[0], tensor(1, 8)[0])), TILES)
