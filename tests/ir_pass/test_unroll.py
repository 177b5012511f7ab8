# SPDX-License-Identifier: Apache-2.0
"""ir_pass/unroll.py: calls with plain numbers, and their loops as runs."""

from __future__ import annotations

from loadstone.ir_pass.compute import insert_compute
from loadstone.ir_pass.dma_copy import recognise_dma_copy
from loadstone.ir_pass.unroll import Loop, Run, offset, runs, turns, unroll
from loadstone.relax.compat import te, tirx
from tests.ir_pass.test_pipeline import lowered


def test_a_padded_copy_is_three_runs() -> None:
    x = te.placeholder((8, 16), "int8", name="x")
    inside = lambda i: tirx.all(i >= 1, i < 9)  # noqa: E731
    tile = te.compute(
        (10, 16),
        lambda i, k: tirx.if_then_else(inside(i), x[i - 1, k], tirx.IntImm("int8", -5)),
        name="tile",
    )
    out = te.compute((10, 16), lambda i, k: tile[i, k], name="out")
    calls = unroll(
        insert_compute(recognise_dma_copy(lowered(x, out, scopes={"tile": "local.acc"})))
    )
    load, store = calls
    assert [(call.name, [place.buffer.scope for place in call.operands]) for call in calls] == [
        ("dma_copy", ["local.acc", "global"]),
        ("dma_copy", ["global", "local.acc"]),
    ]
    assert load.immediates == (-5,)
    assert load.operands[1].offset == -16
    assert list(runs(load.loops[:-1])) == [
        Run(False, 1, (0, 0), (16, 16)),
        Run(True, 8, (16, 16), (16, 16)),
        Run(False, 1, (144, 144), (16, 16)),
    ]
    assert list(runs(store.loops[:-1])) == [Run(True, 10, (0, 0), (16, 16))]


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
