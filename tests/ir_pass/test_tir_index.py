# SPDX-License-Identifier: Apache-2.0
"""ir_pass/tir_index.py: indices and conditions as sums of multiples of loops."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.tir_index import bounds_of, implied, index_of
from loadstone.relax.compat import tirx

ROW, COLUMN = Variable("i", 4), Variable("j", 9)
i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
LOOPS = {i.__chandle__(): ROW, j.__chandle__(): COLUMN}


def said(place: Index) -> tuple[int, dict[str, int]]:
    return place.constant, {loop.name: factor for loop, factor in place.terms.items() if factor}


def test_sums_of_multiples_are_read() -> None:
    assert said(index_of(3 * i - (j - 2) * 4, LOOPS)) == (8, {"i": 3, "j": -4})
    assert said(index_of(tirx.IntImm("int32", 7), LOOPS)) == (7, {})
    assert said(index_of((i * 8 + j) // 1, LOOPS)) == (0, {"i": 8, "j": 1})
    for wrong in (i * j, i // 2, i % 2):
        with pytest.raises(LoweringError, match="is no sum of multiples of loops: split a loop"):
            index_of(wrong, LOOPS)


def test_conditions_are_indices_that_are_not_negative() -> None:
    both = tirx.all(i < 3, j >= 2)
    assert list(map(said, bounds_of(both, LOOPS))) == [(2, {"i": -1}), (-2, {"j": 1})]
    assert list(map(said, bounds_of(i <= j, LOOPS))) == [(0, {"j": 1, "i": -1})]
    assert list(map(said, bounds_of(i > 0, LOOPS))) == [(-1, {"i": 1})]
    assert len(bounds_of(tirx.EQ(i, j), LOOPS)) == 2
    assert bounds_of(tirx.IntImm("bool", 1), LOOPS) == []
    (never,) = bounds_of(tirx.IntImm("bool", 0), LOOPS)
    assert never.constant < 0
    with pytest.raises(LoweringError, match="is no conjunction of comparisons"):
        bounds_of(tirx.any(i < 3, j < 3), LOOPS)


def test_a_bound_follows_from_loops_or_from_others() -> None:
    assert implied(Index(3, {ROW: -1}), [])
    assert not implied(Index(2, {ROW: -1}), [])
    assert implied(Index(2, {ROW: -1}), [Index(1, {ROW: -1})])
    assert not implied(Index(1, {ROW: -1}), [Index(2, {ROW: -1})])
