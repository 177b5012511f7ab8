# SPDX-License-Identifier: Apache-2.0
"""An instruction set in the C library's form, in this process.

In:   an InstructionTable.
Out:  an lds_insn_table, with the members that isa/c_table.py prints for a compiler.
Next: accelerators.py passes it to a session.
"""

from __future__ import annotations

from loadstone.isa.c_members import form_members, table_members
from loadstone.isa.table import InstructionTable
from loadstone.library.native import CData, ffi

__all__ = ["table_in_c"]

#: The members of an lds_insn_form that point to arrays, by the last word of their type.
_POINTERS = {
    "field": "fields",
    "reach": "reaches",
    "summand": "summands",
    "keep": "keeps",
    "term": "never",
    "set": "sets",
    "code": "codes",
}


def table_in_c(table: InstructionTable, keep: list[object]) -> CData:
    """lds_insn_table *. keep: gets what must live as long."""

    def kept(made: CData) -> CData:
        keep.append(made)
        return made

    forms = kept(ffi.new("lds_insn_form[]", len(table.forms)))
    for entry, form in zip(forms, table.forms, strict=True):
        members = form_members(table, form)
        for name, value in members.plain().items():
            setattr(entry, name, value)
        for kind, entries in members.arrays().items():
            setattr(entry, _POINTERS[kind], kept(ffi.new(f"lds_insn_{kind}[]", list(entries))))
    said = table_members(table)
    made = kept(ffi.new("lds_insn_table *"))
    made.name = kept(ffi.new("char[]", table.name.encode()))
    made.fingerprint = list(table.fingerprint)
    made.opcode_bits, made.form_count = table.opcode_bits, len(table.forms)
    made.memory_count, made.forms = len(table.memories), forms
    made.memory_rows = kept(ffi.new("uint32_t[]", said.memory_rows))
    made.word_bytes = kept(ffi.new("uint8_t[]", said.word_bytes))
    made.region_bank, made.region_count = said.region_bank, said.region_count
    made.opcode_bit, made.register_count = table.opcode_at, len(said.registers)
    made.registers = kept(ffi.new("lds_insn_register[]", list(said.registers)))
    return made
