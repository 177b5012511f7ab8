# SPDX-License-Identifier: Apache-2.0
"""ir_pass/tile_loops.py: text of a computation in, text of its tiles out; every place is computed
once, whatever the tiles; and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable, index
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.tile_loops import tiled

ROW, COLUMN, BLOCK, TAP = Variable("i", 10), Variable("j", 6), Variable("c", 5), Variable("k", 3)


def at(axis: Variable) -> Index:
    return Index(0, {axis: 1})


def computation() -> Function:
    """out[i, j] = sum of x[i, 2*j + k, c] * w[c, k], and something more on the first rows."""
    lanes = (1, 16)
    x = NestTensor("x", (10, 13, 5), lanes, "int8")
    w = NestTensor("w", (5, 3), (16, 16), "int8")
    acc = NestTensor("acc", (10, 6), lanes, "int32", "local")
    out = NestTensor("out", (10, 6), lanes, "int8")
    here = acc[at(ROW), at(COLUMN)]
    factors = x[at(ROW), at(COLUMN) * 2 + at(TAP), at(BLOCK)], w[at(BLOCK), at(TAP)]
    return Function(
        "sum",
        (acc, x, w, out),
        (
            NestGroup(
                (
                    Nest((ROW, COLUMN), (), (NestStep("fill", (here,), (0,)),)),
                    Nest((ROW, COLUMN, BLOCK, TAP), (), (NestStep("gemm", (here, *factors)),)),
                )
            ),
            Nest((ROW, COLUMN), (6 - at(ROW),), (NestStep("add", (here,), (7,)),)),
            Nest((ROW, COLUMN), (), (NestStep("copy", (out[at(ROW), at(COLUMN)], here)),)),
        ),
    )


def test_the_text_of_tiles() -> None:
    """The axis of the sum is no level of the others, a size of one is no loop, and one that does
    not divide its axis is held by a condition."""
    assert printed(tiled(computation(), {ROW: 4, COLUMN: 1, BLOCK: 2}, (COLUMN, ROW))) == (
        """\
func sum:
  local acc: int32[10, 6] x1x16
  param x: int8[10, 13, 5] x1x16
  param w: int8[5, 3] x16x16
  param out: int8[10, 6] x1x16
  for j0<6:
    for i0<3:
      group:
        fill(acc[4*i0 + i, j0] | 0) for i<4 if -4*i0 - i + 9 >= 0
        for c0<3:
          gemm(acc[4*i0 + i, j0], x[4*i0 + i, k + 2*j0, 2*c0 + c], w[2*c0 + c, k]) for i<4 c<2 k<3 if -4*i0 - i + 9 >= 0, -2*c0 - c + 4 >= 0
      add(acc[4*i0 + i, j0] | 7) for i<4 if -4*i0 - i + 6 >= 0, -4*i0 - i + 9 >= 0
      copy(out[4*i0 + i, j0], acc[4*i0 + i, j0]) for i<4 if -4*i0 - i + 9 >= 0
"""  # noqa: E501
    )


def test_text_in_text_out() -> None:
    """A text has loops of its own for each nest, so that what is read has a single one."""
    whole = parsed(
        """\
func rows:
  param x: int8[10, 4] x1x16
  local acc: int32[10] x1x16
  max(acc[i], x[i, j]); max(acc[i] | 0) for i<10 j<4
"""
    )
    (nest,) = whole.body
    assert isinstance(nest, Nest)
    i, j = nest.loops
    assert printed(tiled(whole, {i: 4, j: 2}, (i,))) == (
        """\
func rows:
  param x: int8[10, 4] x1x16
  local acc: int32[10] x1x16
  for i0<3:
    for j0<2:
      max(acc[4*i0 + i], x[4*i0 + i, 2*j0 + j]); max(acc[4*i0 + i] | 0) for i<4 j<2 if -4*i0 - i + 9 >= 0
"""  # noqa: E501
    )


def test_a_loop_of_one_turn_is_a_level_where_it_is_ordered() -> None:
    text = printed(tiled(computation(), {ROW: 10, COLUMN: 6, BLOCK: 5}, (ROW,)))
    assert [line.strip() for line in text.splitlines() if "for" in line and line[-1] == ":"] == [
        "for i0<1:"
    ]
    assert "gemm(acc[10*i0 + i, j]" in text


def executed(
    body: tuple[Statement, ...], values: dict[Variable, int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each step that is done, with the places of its operands."""
    for statement in body:
        if isinstance(statement, NestGroup):
            yield from executed(statement.body, values)
        elif isinstance(statement, NestLoop):
            for turn in range(statement.variable.extent):
                yield from executed(statement.body, {**values, statement.variable: turn})
        elif isinstance(statement, Nest):
            for turns in product(*(range(loop.extent) for loop in statement.loops)):
                inner = {**values, **dict(zip(statement.loops, turns, strict=True))}
                if all(condition.at(inner) >= 0 for condition in statement.conditions):
                    for step in statement.steps:
                        operands = (place for access in step.operands for place in access.at)
                        yield step.name, tuple(index(place).at(inner) for place in operands)


@given(st.integers(1, 10), st.integers(1, 6), st.integers(1, 5), st.permutations([ROW, COLUMN]))
def test_every_place_is_computed_once(i: int, j: int, c: int, order: list[Variable]) -> None:
    whole = computation()
    tiles = tiled(whole, {ROW: i, COLUMN: j, BLOCK: c}, order)
    assert Counter(executed(tiles.body, {})) == Counter(executed(whole.body, {}))


def test_what_is_no_tile_of_an_axis_is_refused() -> None:
    for size in (0, 11):
        with pytest.raises(LoweringError, match=f"tile_loops: {size} is no tile of i<10"):
            tiled(computation(), {ROW: size}, (ROW,))
    with pytest.raises(LoweringError, match="tile_loops: j<6 is ordered without a size"):
        tiled(computation(), {ROW: 2}, (ROW, COLUMN))


def test_what_is_tiled_already_is_refused() -> None:
    tiles = tiled(computation(), {ROW: 2}, (ROW,))
    room = NestAllocation(NestTensor("a", (1,), (1, 16), "int32", "local", "acc"))
    for function in (tiles, computation()._replace(body=(room,))):
        with pytest.raises(LoweringError, match="nests and groups of them alone"):
            tiled(function, {COLUMN: 2}, (COLUMN,))
