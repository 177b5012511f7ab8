# SPDX-License-Identifier: Apache-2.0
"""ir_pass/verify_dma_copy.py: what small functions must have in common, and what they need not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable, index
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.nests import Function, Nest, NestAccess, NestLoop, Statement
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from tests.ir_pass.test_verify_dma_copy import TABLE, TEXT, WITH_COPIES


@pytest.mark.parametrize(
    ("name", "message"),
    [("w_chip", "a nest has other loops"), ("acc", "a nest has 2 steps, not 1")],
)
def test_a_nest_does_nothing_else(name: str, message: str) -> None:
    """What more a load wrote, nobody would have looked at."""
    before, after = parsed(TEXT), parsed(WITH_COPIES)

    def spoilt(statement: Statement) -> Statement:
        if isinstance(statement, NestLoop):
            return replace(statement, body=tuple(map(spoilt, statement.body)))
        if isinstance(statement, Nest) and statement.steps[0].operands[0].tensor.name == name:
            return replace(statement, steps=statement.steps * 2)
        return statement

    with pytest.raises(LoweringError, match=message):
        verify_dma_copy(before, after._replace(body=tuple(map(spoilt, after.body))), TABLE)


GROUPED = """\
func f:
{}  param out: int8[4] x1x16
{}  group:
    fill(acc[i] | 1) for i<4
    copy(out[i], acc[i]) for i<4
"""


def test_what_is_in_a_group_is_compared_and_a_loop_is_no_group() -> None:
    before = parsed(GROUPED.format("  local acc: int32[4] x1x16\n", ""))
    after = GROUPED.format("", "  alloc acc: int32[4] x1x16 in acc\n")
    verify_dma_copy(before, parsed(after), TABLE)
    with pytest.raises(LoweringError, match="copy writes another place of out"):
        verify_dma_copy(before, parsed(after.replace("out[i]", "out[-i + 3]")), TABLE)
    with pytest.raises(LoweringError, match="a NestLoop stands in place of a NestGroup"):
        verify_dma_copy(before, parsed(after.replace("group:", "for t<2:")), TABLE)


DIRECT = """\
func f:
  param p: int32[2] x1x16
{}  param out: int8[4] x1x16
{}  fill(acc[i] | 1) for i<4
  add(acc[i], p[{}]) for i<4
  copy(out[i], acc[i]) for i<4
"""


def test_what_is_read_in_dram_is_the_same_place_there() -> None:
    table = MemoryTable({**TABLE.operands, "add": ("acc", "dram")}, TABLE.depth_tiles)
    local, chip = "  local acc: int32[4] x1x16\n", "  alloc acc: int32[4] x1x16 in acc\n"

    def verify(was: str, now: str, more: str = "") -> None:
        before = parsed(DIRECT.format(local, "", was))
        verify_dma_copy(before, parsed(DIRECT.format("", chip + more, now)), table)

    verify("1", "1")
    with pytest.raises(LoweringError, match="add reads another place of p"):
        verify("1", "0")
    with pytest.raises(LoweringError, match="add leaves p, which has no padding in DRAM"):
        verify("i", "i")
    with pytest.raises(LoweringError, match="add leaves p, which has no padding in DRAM"):
        verify("2", "2")
    beyond = DIRECT.format(local, "", 1), DIRECT.format("", chip, 1)  # a store is as it was
    verify_dma_copy(*(parsed(text.replace("out[i]", "out[i + 1]")) for text in beyond), table)
    q = "  alloc q: int32[2] x1x16 in acc\n"
    loaded = DIRECT.format("", chip + q, 1).replace("p[1])", "q[1])")
    with pytest.raises(LoweringError, match="add reads q in acc, not dram"):
        verify_dma_copy(parsed(DIRECT.format(local, "", 1)), parsed(loaded), table)


def test_one_place_of_an_axis_is_loaded_and_used_wherever_it_lies() -> None:
    larger = WITH_COPIES.replace("p_chip: int32[1, 3]", "p_chip: int32[2, 3]")
    loaded = larger.replace("copy(p_chip[0, a1]", "copy(p_chip[1, a1]")
    used = loaded.replace("rq(acc[i], p_chip[0, 0]", "rq(acc[i], p_chip[1, 0]")
    verify_dma_copy(parsed(TEXT), parsed(used), TABLE)
    with pytest.raises(LoweringError, match="p_chip moves along an axis of which one place"):
        verify_dma_copy(parsed(TEXT), parsed(loaded), TABLE)


def test_each_tile_of_an_operand_was_loaded() -> None:
    before, after = TEXT.replace("[1, 3]", "[1, 5]"), WITH_COPIES.replace("[1, 3]", "[1, 5]")
    before, after = (
        before.replace("p[0, 0]", "p[0, 1]"),
        after.replace("p_chip[0, 0]", "p_chip[0, 1]"),
    )
    verify_dma_copy(
        parsed(before),
        parsed(after.replace("for a1<3\n    alloc w", "for a1<4\n    alloc w")),
        TABLE,
    )
    with pytest.raises(LoweringError, match="p_chip was loaded in part"):
        verify_dma_copy(parsed(before), parsed(after), TABLE)
    two = MemoryTable(TABLE.operands, TABLE.depth_tiles, {("rq", 1): 2})
    one = WITH_COPIES.replace("p_chip[0, a1], p[0, a1]) for a1<3", "p_chip[0, 0], p[0, 0])")
    with pytest.raises(LoweringError, match="p_chip was loaded in part"):
        verify_dma_copy(parsed(TEXT), parsed(one), two)


def test_a_condition_with_a_factor_bounds_a_load() -> None:
    text = """\
func f:
  table w: int8[1] x16x16
  param y: int8[9] x1x16
{}  param out: int8[4] x1x16
{}  for t<4:
    fill(acc[0] | 0)
{}    gemm(acc[0], {}, {}[0]) if -4*t + 8 >= 0
    copy(out[t], acc[0])
"""
    room = "  alloc acc: int32[1] x1x16 in acc\n  alloc w_chip: int8[1] x16x16 in wgt\n"
    load = "    alloc y_chip: int8[1] x1x16 in inp\n    copy(y_chip[0], y[4*t]) if -4*t + 8 >= 0\n"
    before = text.format("  local acc: int32[1] x1x16\n", "", "", "y[4*t]", "w")
    after = text.format("", room + "  copy(w_chip[0], w[0])\n", load, "y_chip[0]", "w_chip")
    verify_dma_copy(parsed(before), parsed(after), TABLE)


def with_access(name: str, number: int, change: Callable[[NestAccess], NestAccess]) -> Function:
    """WITH_COPIES, an operand of which is another one in the nests that begin with a tensor."""

    def changed(statement: Statement) -> Statement:
        if isinstance(statement, NestLoop):
            return replace(statement, body=tuple(map(changed, statement.body)))
        if isinstance(statement, Nest) and statement.steps[0].operands[0].tensor.name == name:
            (step,) = statement.steps
            if len(step.operands) > number:
                operands = list(step.operands)
                operands[number] = change(operands[number])
                return replace(statement, steps=(step._replace(operands=tuple(operands)),))
        return statement

    after = parsed(WITH_COPIES)
    return after._replace(body=tuple(map(changed, after.body)))


def test_terms_of_zero_move_nothing() -> None:
    nothing = Index(0, {Variable("z", 3): 0})
    same = with_access(
        "out", 0, lambda access: access._replace(at=tuple(index(at) + nothing for at in access.at))
    )
    verify_dma_copy(parsed(TEXT), same, TABLE)


@pytest.mark.parametrize(
    ("name", "number", "axis"), [("p_chip", 0, 1), ("digits_chip", 1, 0), ("acc", 1, 0)]
)
def test_an_access_has_a_place_for_each_axis(name: str, number: int, axis: int) -> None:
    """nest_text.py does not read others; a pass that made one would be wrong itself."""
    short = with_access(name, number, lambda access: access._replace(at=(access.at[axis],)))
    with pytest.raises((ValueError, LoweringError), match=r"zip\(\) argument 2|p_chip is loaded b"):
        verify_dma_copy(parsed(TEXT), short, TABLE)


def test_a_local_keeps_its_axes() -> None:
    head, out = "func f:\n", "  param out: int8[4] x1x16\n"
    text = "  fill(acc[i] | 1) for i<4\n  copy(out[i], acc[i]) for i<4\n"
    room = "  alloc acc: int32[4, 4] x1x16 in acc\n" + text.replace("acc[i]", "acc[i, i]")
    before = parsed(head + "  local acc: int32[4] x1x16\n" + out + text)
    with pytest.raises(LoweringError, match="acc has 2 axes, not 1"):
        verify_dma_copy(before, parsed(head + out + room), TABLE)


def test_a_loop_of_one_turn_moves_nothing() -> None:
    was, now = "shr(acc[i] | 8) for i<4", "shr(acc[i + z] | 8) for i<4 z<1"
    before = TEXT.replace(was, now.replace(" + z", ""))
    verify_dma_copy(parsed(before), parsed(WITH_COPIES.replace(was, now)), TABLE)


@pytest.mark.parametrize(("memory", "tiles"), [("inp", 12), ("wgt", 3), ("acc", 4)])
def test_a_tile_may_fill_its_memory(memory: str, tiles: int) -> None:
    """Four rows of three, three weights, and four sums."""
    held = MemoryTable(TABLE.operands, {**TABLE.depth_tiles, memory: tiles}, TABLE.reach)
    verify_dma_copy(parsed(TEXT), parsed(WITH_COPIES), held)
    less = MemoryTable(TABLE.operands, {**TABLE.depth_tiles, memory: tiles - 1}, TABLE.reach)
    with pytest.raises(LoweringError, match=f"has {tiles} tiles; {memory} holds {tiles - 1}"):
        verify_dma_copy(parsed(TEXT), parsed(WITH_COPIES), less)
