# SPDX-License-Identifier: Apache-2.0
"""selection/unify.py by hand: each thing that a meaning can say, what it matches, and what comes
nearest to it and does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from loadstone.isa.form import Bits, InstructionForm, LocalMemory, Register
from loadstone.isa.table import InstructionTable
from loadstone.selection.meanings import Meanings
from loadstone.selection.unify import ChainLoop, ChainStep, ValueChain, bound, matches, solved


def form(name: str, opcode: int, fields: str, *meaning: str) -> InstructionForm:
    """`rows:4:5` is a field of these limits."""
    bits = []
    for each in fields.split():
        field, *limits = each.split(":")
        low, high = map(int, limits) if limits else (None, None)
        address = field == "address"
        bits.append(Bits(field, 8, low=low, high=high, address=address))
    return InstructionForm(name, opcode, tuple(bits), meaning=meaning)


TABLE = InstructionTable(
    "hand",
    (
        form(
            "load",
            1,
            "address row rows:4:5 step",
            "copy(pad[row + step*i], dram[address + stride*i]) for i<rows",
        ),
        form("store", 2, "address row", "copy(dram[address], pad[row])"),
        form("keep", 3, "row size:0:2", "copy(kept[k], pad[row + size*k]) for k<2"),
        form("fill", 4, "row rows value", "fill(pad[row + i] | value) for i<rows where mode=1"),
        form(
            "mul",
            5,
            "row rows by",
            "mul(pad[row + i], kept[0] | by) for i<rows where rows=count",
        ),
        form("how", 6, "by"),
        form(
            "each",
            7,
            "row rows step",
            "sub(pad[row + i], kept[0 + step*i] | how.by, -1) for i<rows",
        ),
        form("fixed", 8, "row", "max(pad[0], pad[row])"),
        form("none", 9, "row other", "min(pad[row + i], pad[other + i]) for i<0"),
        form(
            "again", 10, "row rows more", "add(pad[row + i], kept[0]) for i<rows where more=never"
        ),
        form(
            "same",
            11,
            "row rows more:0:3",
            "or(pad[row + i], kept[0]) for i<rows where more=rows",
        ),
        form("sum", 12, "row a b", "xor(pad[row], kept[0] | a*b, (a+b))"),
    ),
    (LocalMemory("pad", 64, 4), LocalMemory("kept", 1, 8)),
    registers=(
        Register("stride", 8, high=40),
        Register("mode", 2),
        Register("count", 8, low=2, high=6),
        Register("never", 8),
    ),
)
MEANINGS = Meanings(TABLE)


def found(
    memories: str,
    loops: Sequence[tuple[int, ...]] = (),
    *steps: ChainStep,
    fill: int | None = None,
) -> list[tuple[str, tuple[int | None, ...], tuple[int, ...], dict[str, int]]]:
    """Of a chain. memories: of its slots; a value that moves if there are two and no step. loops:
    extent and strides."""
    names = tuple(memories.split())
    moved = len(names) == 2 and not steps
    each = tuple(ChainLoop(loop[0], loop[1:]) for loop in loops)
    chain = ValueChain(names, fill, moved, steps, each)
    return [
        (m.meaning.form.name, m.loops, m.counts, dict(m.fields)) for m in matches(MEANINGS, chain)
    ]


def test_a_register_is_solved_for_as_a_field_is() -> None:
    assert found("pad dram", [(5, 2, 32)]) == [
        ("load", (0,), (5,), {"rows": 5, "step": 2, "stride": 32})
    ]
    assert found("pad dram", [(5, 2, 41)]) == []  # beyond its limit


def test_a_long_loop_leaves_a_rest_that_can_be_done() -> None:
    assert [counts for _, _, counts, _ in found("pad dram", [(9, 1, 1)])] == [(5,)]
    assert [counts for _, _, counts, _ in found("pad dram", [(10, 1, 1)])] == [(5,)]
    assert found("pad dram", [(7, 1, 1)]) == []  # 5 and 2
    assert found("pad dram", [(3, 1, 1)]) == []
    assert found("pad dram") == []  # one turn is too few, too
    assert found("pad pad", [(4, 1, 1)], ChainStep("min", 1, ())) == []  # no turn at all


def test_what_a_value_is_filled_with_is_an_equation() -> None:
    assert found("pad", [(3, 1)], fill=7) == [
        ("fill", (0,), (3,), {"mode": 1, "rows": 3, "value": 7}),
        ("fill", (None,), (1,), {"mode": 1, "rows": 1, "value": 7}),
    ]
    assert found("pad", [(3, 1)], fill=0)[0][3]["value"] == 0
    assert found("pad", [(3, 1)], fill=256) == []
    assert found("pad", [(3, 1)]) == []  # what is there is no fill


def test_names_that_are_equal_keep_the_limits_of_both() -> None:
    mul = ChainStep("mul", 1, (9,))
    assert found("pad pad", [(6, 1, 0)], mul) == [
        ("mul", (0,), (6,), {"rows": 6, "by": 9, "count": 6})
    ]
    assert found("pad pad", [(2, 1, 0)], mul)[0][3]["count"] == 2
    assert found("pad pad", [(1, 1, 0)], mul) == []
    assert found("pad pad", [(7, 1, 0)], mul) == []
    same = ChainStep("or", 1, ())
    assert found("pad pad", [(3, 1, 0)], same)[0][3] == {"rows": 3, "more": 3}
    assert [one[1] for one in found("pad pad", [(4, 1, 0)], same)] == [(None,)]


def test_names_that_are_equal_say_one_thing() -> None:
    """`more=never`: no equation says either."""
    assert found("pad pad", [(3, 1, 0)], ChainStep("add", 1, ())) == []
    (meaning,) = (m for m in MEANINGS.all if m.form.name == "mul")
    loops = (ChainLoop(3, (1, 0)),)
    steps = (ChainStep("mul", 1, (9,)),)
    chain = ValueChain(("pad", "pad"), None, is_moved=False, steps=steps, loops=loops)
    for count, wanted in ((3, True), (4, False)):
        fixed = replace(meaning, fixed={"count": count}, same=(("count", "rows"),))
        assert (bound(MEANINGS, fixed, chain, ((0,), (3,))) is not None) == wanted


def test_what_another_instruction_said() -> None:
    sub = ChainStep("sub", 1, (4, -1))
    assert found("pad pad", [(3, 1, 0)], sub)[0] == (
        "each",
        (0,),
        (3,),
        {"rows": 3, "how.by": 4, "step": 0},
    )
    assert found("pad pad", [(3, 1, 0)], ChainStep("sub", 1, (4, -2))) == []
    assert found("pad pad", [(3, 1, 0)], ChainStep("sub", 1, (256, -1))) == []


def test_what_is_filled_stays_while_an_instruction_turns() -> None:
    """The array could be stepped through; the places behind it cannot."""
    sub = ChainStep("sub", 1, (4, -1))
    assert [one[1] for one in found("pad pad", [(3, 1, 1)], sub)] == [(None,)]


def test_the_instruction_that_fills_steps_as_its_source_does() -> None:
    """It writes the memory that others read, so that its own places move."""
    filler = MEANINGS.fillers["kept"]
    for stride, fields in ((2, {"size": 2}), (3, None)):
        loops = (ChainLoop(2, (1, stride)),)
        chain = ValueChain(("kept", "pad"), None, is_moved=True, steps=(), loops=loops)
        assert bound(MEANINGS, filler, chain, ((0,), (2,))) == fields


def test_a_number_is_no_place_of_a_nest() -> None:
    """A chain begins anywhere; only what another instruction fills is always at one place."""
    assert found("pad pad", (), ChainStep("max", 1, ())) == []


def test_two_that_are_open_wait_for_another_equation() -> None:
    assert found("pad pad", (), ChainStep("xor", 1, (6, 5))) == []
    sum_form = TABLE.by_name["sum"]
    assert solved(TABLE, sum_form, ("a*b", 6), {}) == {"": 1}
    assert solved(TABLE, sum_form, ("a*b", 6), {"a": 3}) == {"b": 2}
    assert solved(TABLE, sum_form, ("(a+b)", 5), {}) == {"": 1}
    assert solved(TABLE, sum_form, ("(a+b+1)", 5), {"b": 3}) == {"a": 1}
    assert solved(TABLE, sum_form, ("(a+b)*b", 10), {"b": 2}) == {"a": 3}
    assert solved(TABLE, sum_form, ("(3=a)", 1), {}) == {"": 1}


@pytest.mark.parametrize(("term", "value", "wanted"), [(-128, -128, {}), (-128, 128, None)])
def test_a_number_below_zero(term: int, value: int, wanted: dict[str, int] | None) -> None:
    assert solved(TABLE, TABLE.by_name["sum"], (term, value), {}) == wanted


def test_other_numbers_of_immediates_or_steps_are_no_match() -> None:
    mul = ChainStep("mul", 1, (9,))
    for steps in ((mul, mul), (ChainStep("mul", 1, ()),), (ChainStep("mul", 0, (9,)),)):
        memories = "pad" + " pad" * sum(step.operands for step in steps)
        assert found(memories, [(3, *[1] * len(memories.split()))], *steps) == []
