# SPDX-License-Identifier: Apache-2.0
"""isa/fingerprint.py: what changes a program's meaning changes it, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

from loadstone.isa.table import InstructionForm, InstructionTable, Register
from tests.isa import registered
from tests.isa.tables import NPU

TABLE = registered.table()


def test_the_fingerprint_holds_registers_and_opcodes() -> None:
    """Not their texts."""
    others = [
        replace(TABLE, registers=(*TABLE.registers, Register("more", 3))),
        replace(TABLE, registers=(replace(TABLE.registers[0], high=63), *TABLE.registers[1:])),
        replace(TABLE, forms=(replace(TABLE.forms[1], sets=()), *TABLE.forms[2:])),
    ]
    prints = {TABLE.fingerprint, *(other.fingerprint for other in others)}
    assert len(prints) == 1 + len(others)
    told = replace(TABLE, registers=tuple(replace(one, doc="text") for one in TABLE.registers))
    assert told.fingerprint == TABLE.fingerprint


def test_what_a_table_does_not_use_is_no_part_of_it() -> None:
    """Artifacts of tables without registers stay valid."""
    table = InstructionTable("plain", (InstructionForm("one", 1),))
    assert table.fingerprint.hex().startswith("9ecf30594d7cd9a5")
    assert NPU.fingerprint != table.fingerprint
    assert replace(table, opcode_at=1).fingerprint != table.fingerprint
