# SPDX-License-Identifier: Apache-2.0
"""ir_pass/verify_dma_copy.py: every way to spoil a function behind insert_dma_copy is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import Nest, NestAllocation, NestLoop, Statement
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy

ALU = dict.fromkeys(("fill", "add", "max", "shr", "rq"), ("acc",))
TABLE = MemoryTable(
    {**ALU, "gemm": ("acc", "inp", "wgt")},
    {"inp": 400, "wgt": 64, "acc": 64},
    {("rq", 1): 3},
)

#: A sum of rows that hang over, its digits through DRAM and back, with an operand of three tiles.
TEXT = """\
func digits:
  table p: int32[1, 3] x1x16
  table w: int8[3] x16x16
  param x: int8[12, 9] x1x16
  param digits: int8[2, 10] x1x16
  local acc: int32[4] x1x16
  param out: int8[10] x1x16
  for t<3 apart:
    fill(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
    for k<3:
      gemm(acc[i], x[4*t + i + 1, 3*k + j - 1 else -3], w[k]) for i<4 j<3 if -4*t - i + 9 >= 0
    copy(digits[0, 4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
    shr(acc[i] | 8) for i<4 if -4*t - i + 9 >= 0
    copy(digits[1, 4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
    gemm(acc[i], digits[d, 4*t + i], w[0]) for i<4 d<2 if -4*t - i + 9 >= 0
    rq(acc[i], p[0, 0] | 4, -128, 127, 0) for i<4 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""
WITH_COPIES = """\
func digits:
  table p: int32[1, 3] x1x16
  table w: int8[3] x16x16
  param x: int8[12, 9] x1x16
  param digits: int8[2, 10] x1x16
  param out: int8[10] x1x16
  for t<3 apart:
    alloc p_chip: int32[1, 3] x1x16 in acc
    copy(p_chip[0, a1], p[0, a1]) for a1<3
    alloc w_chip: int8[3] x16x16 in wgt
    copy(w_chip[a0], w[a0]) for a0<3
    alloc acc: int32[4] x1x16 in acc
    fill(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
    for k<3:
      alloc x_chip: int8[4, 3] x1x16 in inp
      copy(x_chip[a0, a1], x[4*t + a0 + 1, 3*k + a1 - 1 else -3]) for a0<4 a1<3 if -4*t - a0 + 9 >= 0
      gemm(acc[i], x_chip[i, j], w_chip[k]) for i<4 j<3 if -4*t - i + 9 >= 0
    copy(digits[0, 4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
    shr(acc[i] | 8) for i<4 if -4*t - i + 9 >= 0
    copy(digits[1, 4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
    alloc digits_chip: int8[2, 4] x1x16 in inp
    copy(digits_chip[a0, a1], digits[a0, 4*t + a1]) for a0<2 a1<4 if -4*t - a1 + 9 >= 0
    gemm(acc[i], digits_chip[d, i], w_chip[0]) for i<4 d<2 if -4*t - i + 9 >= 0
    rq(acc[i], p_chip[0, 0] | 4, -128, 127, 0) for i<4 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""  # noqa: E501
LOAD_X = next(line for line in WITH_COPIES.splitlines(keepends=True) if "copy(x_chip" in line)
ROOM_X = next(line for line in WITH_COPIES.splitlines(keepends=True) if "alloc x_chip" in line)
FETCH = next(line for line in WITH_COPIES.splitlines(keepends=True) if "copy(digits_chip" in line)
ROOM = next(line for line in WITH_COPIES.splitlines(keepends=True) if "alloc digits_chip" in line)
FILL = next(line for line in WITH_COPIES.splitlines(keepends=True) if "fill(" in line)
SHIFT = next(line for line in WITH_COPIES.splitlines(keepends=True) if "shr(" in line)


def test_what_the_pass_makes_is_passed() -> None:
    before = parsed(TEXT)
    after = insert_dma_copy(before, TABLE)
    assert printed(after) == WITH_COPIES
    verify_dma_copy(before, after, TABLE)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        # what is loaded
        ("x[4*t + a0 + 1", "x[4*t + a0", "x_chip is not the part of x that was used"),
        ("3*k + a1 - 1 else", "3*k + a1 else", "x_chip is not the part of x that was used"),
        ("3*k + a1 - 1 else", "2*k + a1 - 1 else", "x_chip is not the part of x that was used"),
        ("x_chip[a0, a1], x[", "x_chip[a1, a0], x[", "x_chip is loaded beyond its allocation"),
        ("w_chip: int8[3]", "w_chip: int8[2]", "w_chip is loaded beyond its allocation"),
        ("x_chip: int8[4, 3]", "x_chip: int8[3, 4]", "x_chip is loaded beyond its allocation"),
        ("param x: int8[12, 9]", "param x: int8[13, 9]", "the tensors in DRAM are others"),
        ("param x: int8[12, 9]", "param x: int32[12, 9]", "the tensors in DRAM are others"),
        ("int8[12, 9] x1x16", "int8[12, 9] x2x16", "the tensors in DRAM are others"),
        ("table w: int8[3]", "param w: int8[3]", "the tensors in DRAM are others"),
        ("w[a0]) for a0<3", "w[-a0 + 2]) for a0<3", "w_chip is not the part of w that was used"),
        (
            "digits_chip[a0, a1], digits[a0",
            "digits_chip[a0, a1], digits[-a0 + 1",
            "digits_chip is not the part",
        ),
        ("copy(w_chip[a0], w[a0]) for a0<3", "copy(w_chip[0], w[0])", "w_chip moves along an axis"),
        (
            "copy(p_chip[0, a1], p[0, a1])",
            "copy(p_chip[0, a1], x[0, a1])",
            "p_chip is not the part of p",
        ),
        (LOAD_X, "", "x_chip is used and was never loaded"),
        (ROOM_X, "", "there is no tensor x_chip"),
        (ROOM_X + LOAD_X, LOAD_X.replace("x_chip", "w_chip") + ROOM_X, "w_chip"),
        ("for a0<4 a1<3 if", "for a0<3 a1<3 if", "x_chip was loaded in part"),
        ("for a0<4 a1<3 if", "for a0<4 a1<2 if", "x_chip was loaded in part"),
        (
            "a0<4 a1<3 if -4*t - a0 + 9 >= 0",
            "a0<4 a1<3 if -4*t - a0 + 8 >= 0",
            "where its load was clipped",
        ),
        (
            "a0<4 a1<3 if -4*t - a0 + 9 >= 0",
            "a0<4 a1<3 if 1 - a1 >= 0",
            "where its load was clipped",
        ),
        (
            "a0<2 a1<4 if -4*t - a1 + 9 >= 0",
            "a0<2 a1<4",
            "a load leaves digits, which has no padding",
        ),
        ("- 1 else -3])", "- 1])", "a load leaves x, which has no padding"),
        ("else -3]) for a0", "else 0]) for a0", "x_chip is padded with 0, not with -3"),
        (
            "w_chip[a0], w[a0]) for a0<3",
            "w_chip[a0 + 1], w[a0]) for a0<2",
            "to places that are no box",
        ),
        (
            "w_chip[a0], w[a0]) for a0<3",
            "w_chip[2*a0], w[2*a0]) for a0<2",
            "to places that are no box",
        ),
        ("x_chip[a0, a1], x[", "x_chip[a0, a0], x[", "x_chip is loaded to places that are no box"),
        ("w_chip[a0], w[a0]) for a0<3", "w_chip[a0], w[a0]) for a0<2", "w_chip was loaded in part"),
        (
            "p_chip[0, a1], p[0, a1]) for a1<3",
            "p_chip[0, 0], p[0, 0])",
            "p_chip was loaded in part",
        ),
        ("p[0, a1]) for a1<3", "p[0, a1]) for a1<2", "p_chip was loaded in part"),
        # a pad that no place needs
        ("copy(w_chip[a0], w[a0])", "copy(w_chip[a0], w[a0 else 0])", None),
        # where and when
        (FILL, "    copy(acc[a0], x[a0, 0]) for a0<4\n" + FILL, "acc is not the local acc"),
        ("    for k<3:\n", SHIFT + "    for k<3:\n", "a Nest stands in place of a NestLoop"),
        (SHIFT, f"    group:\n  {SHIFT}", "a NestGroup stands in place of a Nest"),
        (
            "  param out",
            "  param more: int8[1] x1x16\n  param out",
            "the tensors in DRAM are others",
        ),
        (
            "    for k<3:\n" + ROOM_X + LOAD_X,
            LOAD_X[2:].replace("3*k", "3*t") + "    for k<3:\n",
            "x_chip",
        ),
        (
            "digits_chip: int8[2, 4] x1x16 in inp",
            "digits_chip: int8[2, 4] x1x16 in wgt",
            "gemm reads digits_chip in wgt, not inp",
        ),
        ("x_chip: int8[4, 3]", "x_chip: int8[4, 2]", "x_chip is loaded beyond its allocation"),
        ("acc[i], x_chip[i, j]", "acc[i], x_chip[i, j + 1]", "gemm leaves x_chip along axis 1"),
        ("x_chip: int8[4, 3]", "x_chip: int8[200, 3]", "x_chip has 600 tiles; inp holds 400"),
        (
            "gemm(acc[i], x_chip[i, j]",
            "gemm(acc[i], x_chip[i + 1, j]",
            "leaves x_chip along axis 0",
        ),
        ("w_chip: int8[3] x16x16 in wgt", "w_chip: int8[1] x16x16 in uop", "1 tiles; uop holds 0"),
        ("p_chip: int32[1, 3]", "p_chip: int32[1, 2]", "p_chip is loaded beyond its allocation"),
        ("p_chip[0, 0] | 4", "p_chip[0, 1] | 4", "rq leaves p_chip along axis 1"),
        (ROOM + FETCH, "", "there is no tensor digits_chip"),
        (
            SHIFT,
            ROOM.replace("digits_chip", "early") + FETCH.replace("digits_chip", "early") + SHIFT,
            None,
        ),
        # what is computed
        (
            "gemm(acc[i], x_chip[i, j], w_chip[k])",
            "gemm(acc[i], x_chip[i, j], w_chip[0])",
            "w_chip is not the part of w",
        ),
        (
            "gemm(acc[i], digits_chip[d, i]",
            "gemm(acc[-i + 3], digits_chip[d, i]",
            "acc is used at another place",
        ),
        ("shr(acc[i] | 8)", "shr(acc[i] | 7)", "shr stands in place of shr"),
        ("shr(acc[i] | 8)", "max(acc[i] | 8)", "max stands in place of shr"),
        (SHIFT, "", "a nest has other|copy stands in place of shr"),
        (SHIFT, SHIFT + SHIFT, "shr stands in place of copy"),
        (
            "    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0\n",
            "",
            "a statement is missing",
        ),
        (
            "copy(out[4*t + i], acc[i]) for i<4",
            "copy(out[3*t + i], acc[i]) for i<4",
            "copy writes another place of out",
        ),
        (
            "copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9",
            "copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 8",
            "a nest has other conditions",
        ),
        ("shr(acc[i] | 8) for i<4", "shr(acc[i] | 8) for i<3", "a nest has other loops"),
        ("for k<3:", "for k<2:", "loop k is another one"),
        ("for t<3 apart:", "for t<3:", "loop t is another one"),
        ("    for k<3:\n", "    group:\n", "there is no loop k"),
        ("param digits: int8[2, 10]", "param digit: int8[2, 10]", "there is no tensor digits"),
    ],
)
def test_a_spoilt_function_is_refused(was: str, now: str, message: str | None) -> None:
    assert was in WITH_COPIES
    spoilt = WITH_COPIES.replace(was, now, 1)
    if message is None:
        verify_dma_copy(parsed(TEXT), parsed(spoilt), TABLE)
        return
    with pytest.raises(LoweringError, match=message):
        verify_dma_copy(parsed(TEXT), parsed(spoilt), TABLE)


def without(body: tuple[Statement, ...], unwanted: Callable[[Statement], bool]) -> Any:
    """Statements without some of them."""
    return tuple(
        replace(each, body=without(each.body, unwanted)) if isinstance(each, NestLoop) else each
        for each in body
        if not unwanted(each)
    )


def test_what_is_not_allocated_is_neither_loaded_nor_used() -> None:
    before, after = parsed(TEXT), parsed(WITH_COPIES)

    def is_room(statement: Statement, name: str) -> bool:
        return isinstance(statement, NestAllocation) and statement.tensor.name == name

    def is_load(statement: Statement) -> bool:
        return (
            isinstance(statement, Nest) and statement.steps[0].operands[0].tensor.name == "p_chip"
        )

    no_room = after._replace(body=without(after.body, lambda each: is_room(each, "p_chip")))
    with pytest.raises(LoweringError, match="p_chip is loaded where it is not allocated"):
        verify_dma_copy(before, no_room, TABLE)
    neither = no_room._replace(body=without(no_room.body, is_load))
    with pytest.raises(LoweringError, match="rq uses p_chip where it is not allocated"):
        verify_dma_copy(before, neither, TABLE)


def test_a_load_moves_with_loops_around_it_alone() -> None:
    before, after = parsed(TEXT), parsed(WITH_COPIES)
    foreign = Index(0, {Variable("k", 3): 1})

    def spoilt(statement: Statement) -> Statement:
        if isinstance(statement, NestLoop):
            return replace(statement, body=tuple(map(spoilt, statement.body)))
        if isinstance(statement, Nest) and statement.steps[0].operands[0].tensor.name == "w_chip":
            target, source = statement.steps[0].operands
            step = statement.steps[0]._replace(operands=(target, source.tensor[foreign]))
            return replace(statement, steps=(step,))
        return statement

    with pytest.raises(LoweringError, match="w is loaded by a loop that is not around its load"):
        verify_dma_copy(before, after._replace(body=tuple(map(spoilt, after.body))), TABLE)


def test_a_condition_bounds_one_end_alone() -> None:
    shifted = WITH_COPIES.replace("x[4*t + a0 + 1", "x[4*t + a0 + 2").replace(
        "x_chip[i, j]", "x_chip[i - 1, j]"
    )
    with pytest.raises(LoweringError, match="gemm leaves x_chip along axis 0"):
        verify_dma_copy(parsed(TEXT), parsed(shifted), TABLE)


def test_a_local_is_not_another() -> None:
    locals_ = "".join(f"  local {name}: int32[4] x1x16\n" for name in "ab")
    text = f"func f:\n{locals_}  param out: int8[4] x1x16\n"
    begun = "  fill(a[i] | 1) for i<4\n  fill(b[i] | 2) for i<4\n"
    rooms = "".join(f"  alloc {name}: int32[4] x1x16 in acc\n" for name in "ab")
    room = f"func f:\n  param out: int8[4] x1x16\n{rooms}"
    one, other = (f"  copy(out[i], {name}[i]) for i<4\n" for name in "ab")
    verify_dma_copy(parsed(text + begun + one), parsed(room + begun + one), TABLE)
    with pytest.raises(LoweringError, match="b is not the local a"):
        verify_dma_copy(parsed(text + begun + one), parsed(room + begun + other), TABLE)


def test_what_was_written_behind_its_load_is_stale() -> None:
    early = WITH_COPIES.replace(ROOM + FETCH, "").replace(SHIFT, ROOM + FETCH + SHIFT)
    with pytest.raises(LoweringError, match="digits_chip is used, but digits was written behind"):
        verify_dma_copy(parsed(TEXT), parsed(early), TABLE)


def test_what_a_turn_stores_is_stale_in_the_next_one() -> None:
    """A load outside of the loop, of what each turn of it stores anew."""
    text = """\
func turns:
  param x: int8[4] x1x16
  table w: int8[1] x16x16
  param y: int8[4] x1x16
  local acc: int32[4] x1x16
  for t<2:
    fill(acc[i] | 0) for i<4
    gemm(acc[i], y[i], w[0]) for i<4
    copy(y[i], acc[i]) for i<4
"""
    copied = """\
func turns:
  param x: int8[4] x1x16
  table w: int8[1] x16x16
  param y: int8[4] x1x16
  alloc w_chip: int8[1] x16x16 in wgt
  copy(w_chip[0], w[0])
  alloc y_chip: int8[4] x1x16 in inp
  copy(y_chip[a0], y[a0]) for a0<4
  for t<2:
    alloc acc: int32[4] x1x16 in acc
    fill(acc[i] | 0) for i<4
    gemm(acc[i], y_chip[i], w_chip[0]) for i<4
    copy(y[i], acc[i]) for i<4
"""
    with pytest.raises(LoweringError, match="y_chip is used, but y was written behind its load"):
        verify_dma_copy(parsed(text), parsed(copied), TABLE)
    once = (text.replace("for t<2", "for t<1"), copied.replace("for t<2", "for t<1"))
    verify_dma_copy(*map(parsed, once), TABLE)


def test_a_local_begins_with_what_writes_it() -> None:
    text = "func f:\n  local acc: int32[4] x1x16\n  param out: int8[4] x1x16\n"
    body = "  add(acc[i] | 1) for i<4\n  copy(out[i], acc[i]) for i<4\n"
    room = "  alloc acc: int32[4] x1x16 in acc\n"
    head = "func f:\n  param out: int8[4] x1x16\n"
    with pytest.raises(LoweringError, match="acc begins with add"):
        verify_dma_copy(parsed(text + body), parsed(head + room + body), TABLE)
    filled = body.replace("add", "fill")
    verify_dma_copy(parsed(text + filled), parsed(head + room + filled), TABLE)
    moved = filled.replace("copy(out[i], acc[i])", "copy(out[i], acc[i + 1])")
    larger = head + room.replace("[4]", "[5]") + moved
    with pytest.raises(LoweringError, match="acc is used at another place than where it began"):
        verify_dma_copy(parsed(text + filled), parsed(larger), TABLE)
