# SPDX-License-Identifier: Apache-2.0
"""What an instruction may say of itself: which terms, reaches and registers make sense.

In:   one instruction of a table; the table's memories and registers; all opcodes.
Out:  what is wrong with it, as (what, what it is not).
Next: table.py refuses the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from loadstone.isa.form import (
    DRAM,
    MAX_LOOPS,
    MAX_REGISTERS,
    AddressRegister,
    Bits,
    InstructionForm,
    Keep,
    LocalMemory,
    Reach,
    Register,
    Set,
    UnitBy,
    Words,
)
from loadstone.isa.terms import MAX_FACTORS, Factor, Sum, Term, factors, fields_of

__all__ = ["FormRules", "Mistake", "opcode_mistake", "register_mistakes", "word_mistakes"]

#: What is wrong, and what it is not.
Mistake = tuple[str, str]
_MAX_WORD_BYTES = 4
#: Names of registers are those of fields.
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class FormRules:
    """One instruction among the memories and registers of its table. where: begins messages.
    numbers: the registers that stand in terms."""

    form: InstructionForm
    memories: Mapping[str, LocalMemory]
    registers: Mapping[str, AddressRegister]
    where: str
    numbers: Mapping[str, Register] = field(default_factory=dict)

    @cached_property
    def fields(self) -> Mapping[str, Bits]:
        """Those of the instruction by name."""
        return {field.name: field for field in self.form.fields}

    @cached_property
    def known(self) -> Mapping[str, Bits]:
        """What may stand in terms: fields, and registers with their limits."""
        return {**{name: one.bits for name, one in self.numbers.items()}, **self.fields}

    def mistakes(self) -> Iterator[Mistake]:
        """All that is wrong with what it reaches, sets, forbids and takes, and with its unit."""
        for reach in self.form.reaches:
            yield from self._reach(reach, f"{self.where}: reach of {reach.memory}")
        yield from self._fills_words()
        for keep in self.form.keeps:
            yield from self._keep(keep, f"{self.where}: keep of {keep.register}")
        for term in self.form.never:
            yield from self._term(term, f"{self.where}: never")
        for term, _ in self.form.per:
            if not self.known.keys() >= set(fields_of(term)):
                yield f"{self.where}: per {term}", "of fields of it"
        for one in self.form.sets:
            yield from self._set(one, f"{self.where}: set of {one.register}")
        for name in self.form.reads:
            if name not in self.numbers:
                yield f"{self.where}: reads {name}", "a register"
        for name in self.fields.keys() & self.numbers.keys():
            yield f"{self.where}: field {name}", "a name that no register has"
        if isinstance(self.form.unit, UnitBy):
            yield from self._unit(self.form.unit)

    def _unit(self, by: UnitBy) -> Iterator[Mistake]:
        field, what = self.fields.get(by.field), f"{self.where}: unit by {by.field}"
        if field is None or field.signed or field.address:
            yield what, "an unsigned field of it"
        elif field.highest >= len(by.units):
            yield f"{what}: {len(by.units)} units", f"one for each of 0 to {field.highest}"

    def _reach(self, reach: Reach, where: str) -> Iterator[Mistake]:
        known = {DRAM, *self.memories}
        if reach.memory not in known:
            yield where, f"one of {', '.join(sorted(known))}"
        if len(reach.loops) > MAX_LOOPS:
            yield where, f"at most {MAX_LOOPS} loops"
        for term in reach.terms():
            yield from self._term(term, where)
        if reach.through is not None:
            yield from self._through(reach, reach.through, where)
            return
        first = self.fields.get(reach.first) if isinstance(reach.first, str) else None
        kept = first is None and reach.first in self.registers
        begins = kept or (first is not None and first.address)
        if begins != (reach.memory == DRAM):
            yield where, "from an address field or register for DRAM"
        if not kept and reach.index != 0:
            yield f"{where}: index", "of an address register"
        if not kept:
            yield from self._term(reach.first, where)

    def _through(self, reach: Reach, words: Words, where: str) -> Iterator[Mistake]:
        held = self.memories.get(words.memory)
        if reach.memory == DRAM or reach.memory == words.memory:
            yield f"{where}: through {words.memory}", "from words of one local memory to another"
        if held is None or reach.first not in [field.name for field in held.fields]:
            yield f"{where}: {reach.first} of {words.memory}", "a field of that memory's words"
        aimed = self.memories.get(reach.memory)
        if reach.writes and aimed is not None and aimed.fields:
            yield f"{where}: written through words", "words, which are copied from DRAM"
        if reach.index != 0:
            yield f"{where}: index", "of an address register"

    def _fills_words(self) -> Iterator[Mistake]:
        """Words are copied: what they are is known from DRAM alone."""
        for reach in self.form.reaches:
            held = self.memories.get(reach.memory)
            copies = any(one.memory == DRAM and not one.writes for one in self.form.reaches)
            if held is not None and held.fields and reach.writes and not copies:
                yield f"{self.where}: writes words of {reach.memory}", "a copy of what it reads"

    def _keep(self, keep: Keep, where: str) -> Iterator[Mistake]:
        register = self.registers.get(keep.register)
        if register is None or register.regions:
            yield where, "an address register that instructions set"
        if keep.field not in self.fields or not self.fields[keep.field].address:
            yield f"{where}: {keep.field}", "an address field of it"
        yield from self._term(keep.index, where)

    def _set(self, one: Set, where: str) -> Iterator[Mistake]:
        if one.register not in self.numbers:
            yield where, "a register"
        if [other.register for other in self.form.sets].count(one.register) > 1:
            yield where, "each register once"
        field = self.fields.get(str(one.value))
        if field is None:
            yield from self._term(one.value, where)
            if one.register in self.numbers and self.numbers[one.register].width > 32:
                yield f"{where}: {one.value}", "a field alone, for more than 32 bits"
        elif field.address:
            yield f"{where}: {field.name}", "a number: addresses are kept in address registers"
        yield from self._term(one.when, where)

    def _term(self, term: Term, where: str) -> Iterator[Mistake]:
        where, parts = f"{where}: {term}", factors(term)
        if len(parts) > MAX_FACTORS:
            yield where, f"a product of at most {MAX_FACTORS}"
        for factor in parts:
            for one in factor.sums():
                yield from self._sum(term, factor, one, where)

    def _sum(self, term: Term, factor: Factor, one: Sum, where: str) -> Iterator[Mistake]:
        if not 0 <= one.number < 1 << 32:
            yield where, "0 to 2^32 - 1"
        for name in one.fields:
            field = self.known.get(name)
            if field is None:
                yield where, "a field of it"
                continue
            alone = term == name and field.address
            signed = field.signed and factor.other is None
            if signed or not (alone or (field.width <= 32 and not field.address)):
                yield where, "an unsigned field of at most 32 bits (compared: a signed one, too)"


def register_mistakes(registers: Sequence[Register]) -> Iterator[Mistake]:
    """What is wrong with the registers of a table."""
    if len(registers) > MAX_REGISTERS:
        yield f"{len(registers)} registers", f"{MAX_REGISTERS} at most"
    for one in registers:
        where = f"register {one.name}"
        if not _NAME.fullmatch(one.name) or one.name == "opcode":
            yield where, "lower case letters, digits, _"
        if not 1 <= one.width <= 64:
            yield f"{where}: width {one.width}", "1 to 64"
            continue
        held, bits = Bits("", one.width, signed=one.signed), one.bits
        if not held.lowest <= bits.lowest <= bits.highest <= held.highest:
            limits = f"{where}: limits {bits.lowest} to {bits.highest}"
            yield limits, f"within the {one.width} bits' {held.lowest} to {held.highest}"
        elif one.reset is not None and not bits.lowest <= one.reset <= bits.highest:
            yield f"{where}: reset {one.reset}", f"in [{bits.lowest}, {bits.highest}]"


def opcode_mistake(
    forms: Sequence[InstructionForm], opcodes: Mapping[str, tuple[int, int]]
) -> Mistake | None:
    """Two instructions whose bytes nothing tells apart. opcodes: of each, mask and value."""
    for one, other in combinations(forms, 2):
        (mask, value), (mask_2, value_2) = opcodes[one.name], opcodes[other.name]
        if (value ^ value_2) & mask & mask_2 == 0:
            both = f"opcodes: {one.opcode} of {one.name} and of {other.name}"
            return both, "told apart by the opcode, or by a value of codes that both have"
    return None


def word_mistakes(memory: LocalMemory) -> Iterator[Mistake]:
    """What is wrong with the fields of a memory's words."""
    if not memory.fields:
        return
    where, row_bytes = f"words of {memory.name}", memory.lanes * np.dtype(memory.dtype).itemsize
    if np.dtype(memory.dtype).kind not in "iu" or row_bytes > _MAX_WORD_BYTES:
        yield f"{where}: {row_bytes} bytes of {memory.dtype}", "integers of at most 4 bytes"
    free = 0
    for bits in memory.fields:
        at = free if bits.at is None else bits.at
        if not _is_plain(bits):
            yield f"{where}: field {bits.name}", "unsigned, of 1 to 32 bits, and no more"
        if at < free:
            yield f"{where}: bit {at} of {bits.name}", f"free: {free} is the next"
        free = at + bits.width
    if free > 8 * row_bytes:
        yield f"{where}: {free} bits", f"within {row_bytes} bytes"
    names = [field.name for field in memory.fields]
    if len(set(names)) < len(names):
        yield f"{where}: {', '.join(names)}", "each name once"


def _is_plain(field: Bits) -> bool:
    """Whether it is a number as its bits are."""
    more = (field.signed, field.address, field.values, field.needs)
    limits = (field.low, field.high)
    return not any(more) and limits == (None, None) and 1 <= field.width <= 32
