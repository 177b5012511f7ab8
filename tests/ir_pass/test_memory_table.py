# SPDX-License-Identifier: Apache-2.0
"""ir_pass/memory_table.py: the memories of a device whose instructions are a table, and what such a
table leaves open."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import NestStep
from loadstone.isa.form import Bits, InstructionForm, LocalMemory, Reach
from loadstone.isa.table import InstructionTable

FIELDS = (Bits("address", 32, address=True), *(Bits(name, 12) for name in ("row", "step", "rows")))
TARGET = Bits("target", 12)
TABLE = InstructionTable(
    "npu",
    (
        InstructionForm(
            "multiply",
            1,
            (*FIELDS, TARGET),
            reaches=(
                Reach("pad", "row", (("rows", "step"),)),
                Reach("sums", "target", extent="rows", writes=True),
            ),
        ),
        InstructionForm("keep", 2, FIELDS, reaches=(Reach("pad", "row", extent=8),)),
        InstructionForm("planes", 3, FIELDS, reaches=(Reach("pad", "row", ((3, 16),), 2),)),
        InstructionForm(
            "pair",
            4,
            FIELDS,
            reaches=(Reach("pad", "row", offset=4), Reach("pad", "row", writes=True)),
        ),
        InstructionForm("many", 5, FIELDS, reaches=(Reach("pad", "row", extent="rows*2"),)),
        InstructionForm("apart", 6, FIELDS, reaches=(Reach("pad", "row", ((2, "step"),)),)),
        InstructionForm("both", 7, FIELDS, reaches=(Reach("pad", "row"), Reach("sums", "row"))),
        InstructionForm("held", 8, FIELDS, reaches=(Reach("sums", "row", extent="(rows+1)"),)),
        InstructionForm("move", 9, FIELDS, reaches=(Reach("dram", "address"),)),
    ),
    (LocalMemory("pad", 512, 16), LocalMemory("sums", 64, 16, "int32")),
)


def of(*operands: tuple[str, str], stores: tuple[str, str] = ("multiply", "target")) -> MemoryTable:
    return MemoryTable.of(TABLE, {"gemm": operands}, stores)


@pytest.mark.parametrize(
    ("operand", "memory", "rows"),
    [
        (("multiply", "row"), "pad", 1),  # the instruction's loop is one of the nest
        (("multiply", "target"), "sums", 1),
        (("held", "row"), "sums", 1),
        (("keep", "row"), "pad", 8),
        (("planes", "row"), "pad", 34),  # 2 rows at 0, 16 and 32
        (("pair", "row"), "pad", 5),  # what reaches furthest
    ],
)
def test_an_operand_stands_where_its_instruction_reaches(
    operand: tuple[str, str], memory: str, rows: int
) -> None:
    table, step = of(("multiply", "target"), operand), NestStep("gemm", ())
    assert [table.memory(step, number) for number in range(2)] == ["sums", memory]
    assert [table.tiles(step, number) for number in range(2)] == [1, rows]


def test_memories_are_as_deep_as_they_have_rows_and_stores_read_where_they_reach() -> None:
    table = of()
    assert table.depth_tiles == {"pad": 512, "sums": 64}
    assert table.memory(NestStep("copy", ()), 1) == "sums"
    assert of(stores=("keep", "row")).memory(NestStep("copy", ()), 1) == "pad"


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        (("divide", "row"), "memories of npu: no instruction divide; it has multiply, keep, plan"),
        (("keep", "target"), "keep.target reaches 0 local memories, where an operand stands in on"),
        (("move", "address"), "move.address reaches 0 local memories"),
        (("both", "row"), "both.row reaches 2 local memories: pad, sums, where an operand stands"),
        (("many", "row"), r"many reaches rows\*2 rows of pad from row, which no number says: say"),
        (("apart", "row"), "apart reaches step rows of pad from row, which no number says"),
    ],
)
def test_what_a_table_does_not_say_is_named(operand: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        of(operand)
    with pytest.raises(ConfigError, match=message):
        of(stores=operand)
