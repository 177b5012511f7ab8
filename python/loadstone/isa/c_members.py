# SPDX-License-Identifier: Apache-2.0
"""An instruction set as the members of runtime/include/lds_accelerator.h's structs.

In:   an InstructionTable.
Out:  for each form its members, and those of its fields, reaches, summands, keeps, never-terms,
      sets and codes; those of registers.
Next: c_table.py prints them as C; runtime/accelerators.py gives them to the C library at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from loadstone.isa.form import DRAM, MAX_FIELDS, MAX_LOOPS, Bits, InstructionForm, Keep, Reach, Set
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Factor, Sum, Term, factors

__all__ = ["FormMembers", "Member", "TableMembers", "form_members", "table_members"]

#: The value of a member: a number, those of an array, or of a struct by name in its order.
Member: TypeAlias = "int | Sequence[Member] | Mapping[str, Member]"
Struct: TypeAlias = Mapping[str, Member]
_SIGNED, _ADDRESS, _RESET = 1, 2, 4
_NO_FIELD = 255
#: lds_insn_summand.join.
_TIMES, _PLUS, _EQUAL, _LESS = range(4)


@dataclass(frozen=True)
class FormMembers:
    """An lds_insn_form."""

    table: InstructionTable
    form: InstructionForm
    summands: Sequence[Struct]
    terms: Mapping[Term, Struct]

    def plain(self) -> Mapping[str, int]:
        """The numbers."""
        form = self.form
        return {
            "opcode": form.opcode,
            "reads": sum(1 << self._registers.index(name) for name in self._read),
            "size_bytes": self.table.sizes[form.name],
            "field_count": len(form.fields),
            "reach_count": len(form.reaches),
            "keep_count": len(form.keeps),
            "never_count": len(form.never),
            "ends": int(form.ends),
            "set_count": len(form.sets),
            "code_count": len(form.codes),
        }

    def arrays(self) -> Mapping[str, Sequence[Struct]]:
        """What it points to, by the last word of the type's name."""
        return {
            "field": [self._field(field) for field in self.form.fields],
            "reach": [self._reach(reach) for reach in self.form.reaches],
            "summand": self.summands,
            "keep": [self._keep(keep) for keep in self.form.keeps],
            "term": [self.terms[term] for term in self.form.never],
            "set": [self._set(one) for one in self.form.sets],
            "code": [
                {"bit": code.at, "width": code.width, "value": code.value}
                for code in self.form.codes
            ],
        }

    @property
    def _registers(self) -> Sequence[str]:
        return [one.name for one in self.table.registers]

    @property
    def _read(self) -> Sequence[str]:
        return self.table.read_registers[self.form.name]

    def _set(self, one: Set) -> Struct:
        number = self._registers.index(one.register)
        return {"number": number, "value": self.terms[one.value], "when": self.terms[one.when]}

    def _field(self, field: Bits) -> Struct:
        return {
            "bit": self.table.places[self.form.name][field.name],
            "width": field.width,
            "flags": field.signed * _SIGNED | field.address * _ADDRESS,
            "shift": field.shift,
            "low": field.lowest % (1 << 64),
            "high": field.highest % (1 << 64),
        }

    def _reach(self, reach: Reach) -> Struct:
        memories = {DRAM: 0, **{m.name: k for k, m in enumerate(self.table.memories, 1)}}
        kept = reach.memory == DRAM and reach.first not in [f.name for f in self.form.fields]
        bank, count = self.table.banks[str(reach.first)] if kept else (-1, 0)
        words = reach.through
        bit, width = self.table.word_fields[words.memory][str(reach.first)] if words else (0, 0)
        first: Term = reach.index if kept else 0 if words else reach.first
        loops = [*reach.loops, *[(0, 0)] * (MAX_LOOPS - len(reach.loops))]
        return {
            "memory": memories[reach.memory],
            "writes": int(reach.writes),
            "loops": len(reach.loops),
            "bank": bank + 1,
            "bank_size": count,
            "words": memories[words.memory] if words else 0,
            "word_bit": bit,
            "word_width": width,
            "first": self.terms[first],
            "offset": self.terms[reach.offset],
            "extent": self.terms[reach.extent],
            "count": [self.terms[count] for count, _ in loops],
            "stride": [self.terms[stride] for _, stride in loops],
            "word_begin": self.terms[words.begin if words else 0],
            "word_end": self.terms[words.end if words else 0],
        }

    def _keep(self, keep: Keep) -> Struct:
        bank, count = self.table.banks[keep.register]
        field = [field.name for field in self.form.fields].index(keep.field)
        index = self.terms[keep.index]
        return {"bank": bank + 1, "bank_size": count, "field": field, "index": index}


class TableMembers(NamedTuple):
    """What an lds_insn_table says behind its forms."""

    memory_rows: Sequence[int]
    word_bytes: Sequence[int]
    region_bank: int
    region_count: int
    registers: Sequence[Struct]


def form_members(table: InstructionTable, form: InstructionForm) -> FormMembers:
    """Those of one instruction."""
    numbers = {field.name: k for k, field in enumerate(form.fields)}
    numbers |= {one.name: MAX_FIELDS + k for k, one in enumerate(table.registers)}
    summands: list[Struct] = []
    terms: dict[Term, Struct] = {0: {"value": 0, "summands": 0}}
    far = (reach.first for reach in form.reaches if reach.memory == DRAM)
    for term in (*form.terms(), *(first for first in far if first not in table.banks)):
        if isinstance(term, int):
            terms[term] = {"value": term, "summands": 0}
        elif term in numbers:
            terms[term] = {"value": numbers[term], "summands": 1}
        elif term not in terms:
            said = [one for factor in factors(term) for one in _factor(factor, numbers)]
            said += [_summand(_NO_FIELD, 1)] * (len(said) == 1)
            terms[term] = {"value": len(summands), "summands": len(said)}
            summands += said
    return FormMembers(table, form, summands, terms)


def table_members(table: InstructionTable) -> TableMembers:
    """Those of the whole."""
    bank, count = next(
        (table.banks[one.name] for one in table.address_registers if one.regions), (-1, 0)
    )
    words = [
        memory.lanes * np.dtype(memory.dtype).itemsize if memory.fields else 0
        for memory in table.memories
    ]
    rows = [memory.rows for memory in table.memories]
    registers: list[Struct] = [
        {
            "low": one.bits.lowest % (1 << 64),
            "high": one.bits.highest % (1 << 64),
            "reset": (one.reset or 0) % (1 << 64),
            "flags": one.signed * _SIGNED | (one.reset is not None) * _RESET,
        }
        for one in table.registers
    ]
    return TableMembers(rows or [0], words or [0], bank + 1, count, registers)


def _factor(factor: Factor, numbers: Mapping[str, int]) -> list[Struct]:
    found = _sum(factor.sum, numbers)
    if factor.other is not None:
        found[-1] = {**found[-1], "join": _LESS if factor.below else _EQUAL}
        found += _sum(factor.other, numbers)
    return found


def _sum(one: Sum, numbers: Mapping[str, int]) -> list[Struct]:
    fields = [numbers[name] for name in one.fields] or [_NO_FIELD]
    return [
        *(_summand(field, 0, _PLUS) for field in fields[:-1]),
        _summand(fields[-1], one.number),
    ]


def _summand(field: int, plus: int, join: int = _TIMES) -> Struct:
    return {"field": field, "join": join, "plus": plus}
