# SPDX-License-Identifier: Apache-2.0
"""selection/setters.py: which instructions make registers hold what is wanted."""

from __future__ import annotations

import pytest

from loadstone.isa.registers import at_reset, set_registers
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Register, Set
from loadstone.selection.setters import Said, Setters
from tests.selection.devices import gemmini


def said(table: InstructionTable, **wanted: Said) -> list[tuple[str, dict[str, Said]]] | None:
    found = Setters(table).of(wanted)
    return None if found is None else [(form.name, dict(fields)) for form, fields in found]


def form(name: str, *sets: Set, fields: str = "v w", **more: int) -> InstructionForm:
    bits = tuple(Bits(each, 8, low=more.get(each)) for each in fields.split())
    return InstructionForm(name, len(name), bits, sets=sets)


def table(*forms: InstructionForm) -> InstructionTable:
    return InstructionTable("t", forms, registers=tuple(Register(name, 8) for name in "abc"))


def test_an_instruction_that_sets_no_other_register_comes_first() -> None:
    assert said(gemmini(), st_stride=64) == [("config_stride", {"stride": 64})]
    assert said(gemmini(), st_stride=64, act=1, scale=9) == [
        ("config_st", {"stride": 64, "act_of": 1, "scale_of": 9})
    ]
    assert said(gemmini(), ld2_stride=3, a_stride=2) == [
        ("config_ex", {"stride": 2}),
        ("config_ld2", {"stride": 3}),
    ] or said(gemmini(), ld2_stride=3, a_stride=2) == [
        ("config_ld2", {"stride": 3}),
        ("config_ex", {"stride": 2}),
    ]


def test_one_that_sets_more_does_so_where_there_is_no_other() -> None:
    """What it sets besides is the least that it may."""
    assert said(gemmini(), scale=9) == [("config_st", {"stride": 0, "act_of": 0, "scale_of": 9})]
    assert said(gemmini(), b_row=(2, 5)) == [
        ("preload", {"b": (2, 5), "c": 0, "accumulate": 0, "rows": 1})
    ]


def test_places_are_said_as_numbers_are() -> None:
    wanted: dict[str, Said] = {"c_row": (0, 16), "c_accumulate": 1, "c_rows": 4}
    fields = {"c": (0, 16), "accumulate": 1, "rows": 4}
    assert said(gemmini(), **wanted) == [("preload_kept", fields)]
    assert said(gemmini(), **wanted, b_row=(2, 0)) == [("preload", {"b": (2, 0), **fields})]


def test_a_number_in_the_table_must_be_the_one_that_is_wanted() -> None:
    modes = table(form("on", Set("a", 1), fields=""), form("off_", Set("a", 0), fields=""))
    assert said(modes, a=1) == [("on", {})]
    assert said(modes, a=0) == [("off_", {})]
    assert said(modes, a=2) is None


def test_one_field_says_one_thing() -> None:
    both = table(form("both", Set("a", "v"), Set("b", "v")))
    assert said(both, a=3, b=3) == [("both", {"v": 3, "w": 0})]
    assert said(both, a=3, b=4) is None


@pytest.mark.parametrize(
    "bad",
    [
        form("when", Set("a", "v", when="w")),
        form("sum", Set("a", "(v+w)")),
        InstructionForm("work", 3, (Bits("v", 8),), sets=(Set("a", "v"),), meaning=("fill(x[v])",)),
        InstructionForm("end", 4, (Bits("v", 8),), sets=(Set("a", "v"),), ends=True),
    ],
)
def test_what_does_more_than_set_is_no_setter(bad: InstructionForm) -> None:
    assert said(table(bad, InstructionForm("z", 9)), a=1) is None


def test_registers_hold_what_was_wanted_at_the_end() -> None:
    """Two that overlap: the one behind does not undo what the other set."""
    overlapping = table(
        form("ab", Set("a", "v"), Set("b", "w")), form("bca", Set("b", "v"), Set("c", "w"))
    )
    wanted: dict[str, Said] = {"a": 5, "b": 6, "c": 7}
    found = Setters(overlapping).of(wanted)
    assert found is not None
    held = at_reset(overlapping)
    for one, fields in found:
        numbers = {name: value for name, value in fields.items() if isinstance(value, int)}
        held = set_registers(overlapping, one, numbers, held)
    assert held == wanted
