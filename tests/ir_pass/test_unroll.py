# SPDX-License-Identifier: Apache-2.0
"""ir_pass/unroll.py: calls with plain numbers, of which the tiles are counted, and their loops as
runs."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.unroll import Call, Loop, Run, offset, runs, turns, unroll_nests

TABLE = MemoryTable(
    {"fill": ("acc",), "gemm": ("acc", "inp", "wgt")}, {"inp": 400, "wgt": 64, "acc": 256}
)
#: Tiles of 4 rows, of which the third has 2; in the fourth turn nothing is left.
ROWS = """\
func rows:
  param w: int8[3] x16x16
  param x: int8[12, 9] x1x16
  local acc: int32[4] x1x16
  param out: int8[10] x1x16
  for t<4:
    group:
      fill(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
      gemm(acc[i], x[4*t + i, j - 1 else -3], w[j]) for i<4 j<3 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""


def calls() -> list[Call]:
    return unroll_nests(insert_dma_copy(parsed(ROWS), TABLE))


def test_each_step_is_a_call_in_each_turn_that_does_anything() -> None:
    names = [call.name for call in calls()]
    assert names == ["copy", *["copy", "fill", "gemm", "copy"] * 3]
    sums = [call for call in calls() if call.name == "gemm"]
    assert [[loop.last for loop in call.loops] for call in sums] == [[4, 3], [4, 3], [2, 3]]
    assert sums[0].loops[0].strides == (1, 3, 0)
    assert sums[0].loops[1].strides == (0, 1, 1)


def test_a_buffer_lives_from_its_allocation_on() -> None:
    found = calls()
    loads = [call for call in found if call.name == "copy" and call.immediates != (0,)]
    tiles = [call.operands[0].buffer for call in loads]
    assert [(tile.name, tile.scope, tile.shape) for tile in tiles] == [
        ("x_chip", "inp", (4, 3))
    ] * 3
    assert len(set(tiles)) == 3
    weights = {call.operands[2].buffer for call in found if call.name == "gemm"}
    assert len(weights) == 1
    assert {call.operands[0].buffer.scope for call in found if call.name == "gemm"} == {"acc"}


def test_what_is_outside_a_tensor_is_a_run_of_its_own() -> None:
    load = [call for call in calls() if call.operands[0].buffer.name == "x_chip"][2]
    assert load.immediates == (-3,)
    assert (load.operands[1].buffer.scope, load.operands[1].offset) == ("global", 8 * 9 - 1)
    assert list(runs(load.loops)) == [
        Run(False, 1, (0, 0), (1, 1)),
        Run(True, 2, (1, 1), (1, 1)),
        Run(False, 1, (3, 9), (1, 1)),
        Run(True, 2, (4, 10), (1, 1)),
    ]


def test_a_tensor_that_nobody_allocated_is_named() -> None:
    with pytest.raises(LoweringError, match="unroll_nests: acc is used where it is not allocated"):
        unroll_nests(parsed(ROWS))


def test_runs_of_nests_that_are_outside_clipped_or_empty() -> None:
    line = Loop(4, 1, 4, 1, 4, (1, 2))
    assert list(runs([line])) == [Run(True, 3, (1, 2), (1, 2))]
    assert list(runs([Loop(2, 0, 2, 1, 2, (10, 20)), line])) == [
        Run(False, 3, (1, 2), (1, 2)),
        Run(True, 3, (11, 22), (1, 2)),
    ]
    assert list(runs([Loop(1, 0, 0, 0, 0, (0, 0)), line])) == []
    assert [(run.inside, run.count) for run in runs([])] == [(True, 1)]
    loops = [Loop(2, 0, 2, 0, 2, (8, 0)), line]
    assert list(turns(loops)) == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert offset(loops, (1, 3), 0) == 11
