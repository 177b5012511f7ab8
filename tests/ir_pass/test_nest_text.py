# SPDX-License-Identifier: Apache-2.0
"""ir_pass/nest_text.py: what is printed parses, and is printed again as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)

TEXT = """\
func conv2d:
  table p: int32[1, 1, 3] x1x16
  local acc: int32[1, 8, 16] x1x16
  param x: int8[1, 32, 32] x1x16
  param out: int8[1, 32, 32] x1x16
  for n0<1:
    for i0<4 apart:
      alloc x_chip: int8[1, 10, 18] x1x16 in inp
      copy(x_chip[0, d, e], x[n0, 8*i0 + d - 1, e else -8]) for d<9 e<9 if i0 - d + 25 >= 0, e >= 0
      group:
        fill(acc[0, i, j] | 0) for i<8 j<16
        max(acc[0, 0, 0] | 3); min(acc[0, 0, 0] | -3)
      rq(acc[0, i, j], p[0, 0, 0] | 4, -128, 127, 0) for i<8 j<16
      copy(out[n0, 8*i0 + i, j], acc[0, i, j]) for i<8 j<16
"""


def test_a_text_parses_to_what_it_says() -> None:
    function = parsed(TEXT)
    assert printed(function) == TEXT
    assert [tensor.name for tensor in function.parameters] == ["p", "x", "out"]
    (samples,) = function.body
    assert isinstance(samples, NestLoop)
    (rows,) = samples.body
    assert isinstance(rows, NestLoop)
    assert (rows.variable.extent, rows.apart, samples.apart) == (4, True, False)
    allocation, load, *_ = rows.body
    assert isinstance(allocation, NestAllocation)
    assert isinstance(load, Nest)
    assert allocation.tensor.memory == "inp"
    target, source = load.steps[0].operands
    assert target.tensor is allocation.tensor
    assert (source.tensor, source.pad) == (function.tensors[2], -8)
    place, values = source.at[1], {rows.variable: 3, load.loops[0]: 2}
    assert isinstance(place, Index)
    assert place.at(values) == 25
    assert [guard.at({**values, load.loops[1]: 7}) for guard in load.conditions] == [26, 7]


def test_comments_and_empty_lines_say_nothing() -> None:
    noisy = "# a text\n\n" + TEXT.replace("      rq", "  # and here\n\n      rq")
    assert printed(parsed(noisy)) == TEXT


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("func conv2d:", "conv2d:", "line 1 `conv2d:`: the text begins with no `func NAME:`"),
        ("x1x16\n  local", "x1\n  local", "line 2 `table p.* declares no tensor"),
        ("local acc", "local p", "line 3 .* there is a tensor p already"),
        ("[1, 8, 16]", "[1, 0, 16]", "line 3 .* acc has an axis of 0 places"),
        ("x1x16 in inp", "x1x16", "line 8 .* x_chip is allocated in no memory"),
        ("for i0<4", "for n0<4", "line 7 .* there is a loop n0 already"),
        ("for i0<4", "for i0<0", "line 7 .* loop i0 has no turn"),
        ("for i0<4 apart", "for i0<4 aside", "line 7 .* it is no statement"),
        ("x[n0, ", "y[n0, ", "line 9 .* there is no tensor y"),
        ("x[n0, ", "x[", "line 9 .* x has 3 axes, not 2"),
        ("x[n0, ", "x[m0, ", "line 9 .* there is no loop m0"),
        ("8*i0 + d - 1", "8*i0 + d -- 1", "line 9 .* `8\\*i0 \\+ d -- 1` is no index"),
        ("8*i0 + d - 1", "i0*d", "line 9 .* `i0\\*d` is no index"),
        ("e >= 0", "e > 0", "line 9 .* `e > 0` is not of the form `INDEX >= 0`"),
        ("| 3)", "| a)", "line 12 .* is no step"),
        ("acc[0, i, j] | 0", "acc[0, i, j] acc[0, i, j] | 0", "line 11 .* is no step"),
        ("      rq", "       rq", "line 13 .* it stands in no block"),
        ("      rq", "          rq", "line 13 .* it stands in no block"),
    ],
)
def test_what_is_none_of_its_forms_is_refused_with_its_line(
    was: str, now: str, message: str
) -> None:
    assert was in TEXT
    with pytest.raises(LoweringError, match=message):
        parsed(TEXT.replace(was, now, 1))


@st.composite
def functions(draw: Any) -> Function:
    """Any that has all it names; several tensors and loops share a name."""
    names = st.sampled_from(["a", "b.c", "d_1"])
    shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)

    def tensor(role: Any, memory: str | None) -> NestTensor:
        lanes, dtype = (
            draw(st.sampled_from([(1, 16), (16, 16)])),
            draw(st.sampled_from(["int8", "int32"])),
        )
        return NestTensor(draw(names), draw(shapes), lanes, dtype, role, memory)

    def place(loops: list[Variable]) -> Place:
        terms = draw(st.dictionaries(st.sampled_from(loops), st.integers(-9, 9))) if loops else {}
        constant = draw(st.integers(-99, 99))
        return Index(constant, terms) if terms else constant

    def nest(tensors: list[NestTensor], loops: list[Variable]) -> Nest:
        own = [
            Variable(draw(names), draw(st.integers(1, 9))) for _ in range(draw(st.integers(0, 2)))
        ]
        seen, steps = loops + own, []
        for _ in range(draw(st.integers(1, 2))):
            accesses = tuple(
                NestAccess(
                    t, tuple(place(seen) for _ in t.shape), draw(st.none() | st.integers(-9, 9))
                )
                for t in draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
            )
            immediates = tuple(draw(st.lists(st.integers(-300, 300), max_size=3)))
            steps.append(
                NestStep(draw(st.sampled_from(["copy", "gemm", "shr"])), accesses, immediates)
            )
        guards = [place(seen) for _ in range(draw(st.integers(0, 2)))]
        conditions = tuple(guard for guard in guards if isinstance(guard, Index))
        return Nest(tuple(own), conditions, tuple(steps))

    def body(tensors: list[NestTensor], loops: list[Variable], depth: int) -> tuple[Statement, ...]:
        made: list[Statement] = []
        known = list(tensors)
        for kind in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
            if kind == 1:
                made.append(NestAllocation(tensor("local", draw(st.sampled_from(["inp", "acc"])))))
                known.append(made[-1].tensor)
            elif kind == 2 and depth:
                made.append(NestGroup(body(known, loops, depth - 1)))
            elif kind == 3 and depth:
                loop = Variable(draw(names), draw(st.integers(1, 9)))
                made.append(
                    NestLoop(loop, body(known, [*loops, loop], depth - 1), draw(st.booleans()))
                )
            else:
                made.append(nest(known, loops))
        return tuple(made)

    roles = draw(st.lists(st.sampled_from(["param", "table", "local"]), min_size=1, max_size=4))
    tensors = [tensor(role, None) for role in roles]
    return Function(draw(names), tuple(tensors), body(tensors, [], 2))


@given(functions())
def test_what_is_printed_parses_and_is_printed_the_same(function: Function) -> None:
    text = printed(function)
    assert printed(parsed(text)) == text
    assert shapes(parsed(text).body) == shapes(function.body)


def shapes(body: tuple[Statement, ...]) -> list[Any]:
    """What does not depend on names."""
    found: list[Any] = []
    for statement in body:
        match statement:
            case NestAllocation(tensor):
                found.append((tensor.shape, tensor.lanes, tensor.dtype, tensor.memory))
            case NestLoop(variable, inner, apart):
                found.append((variable.extent, apart, shapes(inner)))
            case NestGroup(inner):
                found.append(shapes(inner))
            case Nest(loops, conditions, steps):
                places = [
                    [
                        (tensor.shape, tensor.role, [values(place) for place in at], pad)
                        for tensor, at, pad in step.operands
                    ]
                    for step in steps
                ]
                said = [(step.name, step.immediates) for step in steps]
                found.append(
                    ([v.extent for v in loops], list(map(values, conditions)), places, said)
                )
    return found


def values(place: Place) -> Any:
    """The constant, and the factors with the extents of their loops."""
    if isinstance(place, int):
        return place, []
    return place.constant, [(n, v.extent) for v, n in place.terms.items() if n]
