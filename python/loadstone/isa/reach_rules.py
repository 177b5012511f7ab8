# SPDX-License-Identifier: Apache-2.0
"""What an instruction may say of itself: which terms, reaches and registers make sense.

In:   one instruction of a table; the table's memories and address registers.
Out:  what is wrong with it, as (what, what it is not).
Next: table.py refuses the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadstone.isa.form import (
    DRAM,
    MAX_LOOPS,
    AddressRegister,
    Bits,
    InstructionForm,
    Keep,
    LocalMemory,
    Reach,
    UnitBy,
    Words,
)
from loadstone.isa.terms import MAX_FACTORS, Factor, Sum, Term, factors, fields_of

__all__ = ["FormRules", "Mistake", "word_mistakes"]

#: What is wrong, and what it is not.
Mistake = tuple[str, str]
_MAX_WORD_BYTES = 4


@dataclass(frozen=True)
class FormRules:
    """One instruction among the memories and registers of its table. where: begins messages."""

    form: InstructionForm
    memories: Mapping[str, LocalMemory]
    registers: Mapping[str, AddressRegister]
    where: str

    @cached_property
    def fields(self) -> Mapping[str, Bits]:
        """Those of the instruction by name."""
        return {field.name: field for field in self.form.fields}

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
            if not self.fields.keys() >= set(fields_of(term)):
                yield f"{self.where}: per {term}", "of fields of it"
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
            field = self.fields.get(name)
            if field is None:
                yield where, "a field of it"
                continue
            alone = term == name and field.address
            signed = field.signed and factor.other is None
            if signed or not (alone or (field.width <= 32 and not field.address)):
                yield where, "an unsigned field of at most 32 bits (compared: a signed one, too)"


def word_mistakes(memory: LocalMemory) -> Iterator[Mistake]:
    """What is wrong with the fields of a memory's words."""
    if not memory.fields:
        return
    where, row_bytes = f"words of {memory.name}", memory.lanes * np.dtype(memory.dtype).itemsize
    if np.dtype(memory.dtype).kind not in "iu" or row_bytes > _MAX_WORD_BYTES:
        yield f"{where}: {row_bytes} bytes of {memory.dtype}", "integers of at most 4 bytes"
    free = 0
    for field in memory.fields:
        at = free if field.at is None else field.at
        if not _is_plain(field):
            yield f"{where}: field {field.name}", "unsigned, of 1 to 32 bits, and no more"
        if at < free:
            yield f"{where}: bit {at} of {field.name}", f"free: {free} is the next"
        free = at + field.width
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
