# SPDX-License-Identifier: Apache-2.0
"""isa/c_members.py: terms, words and registers as the structs in C have them. (What C makes of
them: test_program_check.py.)"""

from __future__ import annotations

from loadstone.isa.c_members import form_members, table_members
from loadstone.isa.table import AddressRegister, Bits, InstructionForm, InstructionTable, Reach
from tests.isa import gather

TIMES, PLUS, EQUAL, LESS = range(4)
NO_FIELD = 255


def summands(*terms: str) -> list[tuple[int, int, int]]:
    """(field, join, plus) of all that terms of the fields a, b, c need."""
    fields = tuple(Bits(name, 8) for name in "abc")
    form = InstructionForm("one", 1, fields, never=terms)
    members = form_members(InstructionTable("t", (form,)), form)
    return [(one["field"], one["join"], one["plus"]) for one in members.summands]  # type: ignore[misc]


def test_sums_and_comparisons_are_joined() -> None:
    assert summands("a*4") == [(0, TIMES, 0), (NO_FIELD, TIMES, 4)]
    assert summands("(a+b+3)*c") == [(0, PLUS, 0), (1, TIMES, 3), (2, TIMES, 0)]
    assert summands("(a+1=b)") == [(0, EQUAL, 1), (1, TIMES, 0)]
    assert summands("(a>b+c)") == [(1, PLUS, 0), (2, LESS, 0), (0, TIMES, 0)]
    assert summands("(a<5)*b") == [(0, LESS, 0), (NO_FIELD, TIMES, 5), (1, TIMES, 0)]
    assert summands("a", "7") == [(NO_FIELD, TIMES, 7), (NO_FIELD, TIMES, 1)]
    assert summands("(a+2)") == [(0, TIMES, 2), (NO_FIELD, TIMES, 1)]  # one alone is a field


def test_words_and_registers() -> None:
    table = gather.table()
    members = form_members(table, table.by_name["gather"])
    source, target, _ = members.arrays()["reach"]
    fields = {field.name: k for k, field in enumerate(table.by_name["gather"].fields)}
    for reach, bit in ((source, 0), (target, 8)):
        assert (reach["words"], reach["word_bit"], reach["word_width"]) == (1, bit, 5)
        assert reach["word_begin"] == {"value": fields["begin"], "summands": 1}
        assert reach["word_end"] == {"value": fields["end"], "summands": 1}
    assert members.plain()["never_count"] == 1
    assert form_members(table, table.by_name["end"]).plain()["ends"] == 1
    assert table_members(table) == ([8, 24, 24], [2, 0, 0], 0, 0, [])
    load = form_members(table, table.by_name["load"]).arrays()["reach"][0]
    assert (load["bank"], load["bank_size"], load["words"]) == (1, 1, 0)


def test_registers_that_begin_at_regions() -> None:
    reach = Reach("dram", "at", index="a")
    form = InstructionForm("one", 1, (Bits("a", 3),), reaches=(reach,))
    registers = (AddressRegister("other", 2), AddressRegister("at", 4, regions=True))
    found = table_members(InstructionTable("t", (form,), address_registers=registers))
    assert (found.region_bank, found.region_count) == (3, 4)
