# SPDX-License-Identifier: Apache-2.0
"""What instructions mean, as nests: the texts that a table gives them, read and checked.

In:   an InstructionTable whose forms have a `meaning`.
Out:  `Meanings`: of each text a chain of steps on one value; the memories that only an instruction
      fills; the MemoryTable that follows from all of them.
Next: unify.py finds where a kernel's nest is one of them.

    meaning = [chain "then"] chain
    chain   = step {";" step} ["for" {name "<" term}] ["where" name "=" (int | name) {"," ...}]
    step    = name "(" access {"," access} ["|" term {"," term}] ")"
    access  = memory "[" index {"+" index} "]"
    index   = name | int | [term "*"] loop

It is the form of ir_pass/nest_text.py, with names in place of numbers: the instruction's fields,
and registers that instructions before it set (a stride, a scale, the row where a sum stands).
Places are rows of a local memory, bytes of `dram`. A name that is no memory is a value between the
steps. `FORM.FIELD` is what the last instruction FORM said. A chain with another behind `then` fills
what that one reads, and stays there for instructions that read it without filling it.

    gemm(accumulator[target + i], scratchpad[row + step*i], weights[0]) for i<rows where adds=1
    copy(array[k], spad[b_row + k]) for k<16 then gemm(acc[c_row + i], spad[a + i], array[0]) for ..

All steps of a meaning work on one value, one after the other. It begins as a fill, as what a copy
reads, or as what its place holds, and ends in one place. That is a chain; in a tree that computes a
layer it is a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import NamedTuple, NoReturn

from loadstone.errors import ConfigError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import COPY
from loadstone.isa.form import DRAM, InstructionForm
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Term, fields_of, number_of

__all__ = ["FILL", "Meaning", "MeaningSlot", "MeaningStep", "Meanings"]

#: The step that writes its operand without reading it.
FILL = "fill"


class MeaningSlot(NamedTuple):
    """An operand. first: the field or register that says where it begins, or a number. strides: of
    each loop of the instruction, in places."""

    memory: str
    first: Term
    strides: tuple[Term, ...]


class MeaningStep(NamedTuple):
    """One step on the value. operands: the others."""

    name: str
    operands: tuple[MeaningSlot, ...]
    immediates: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Meaning:
    """A chain: for all turns of the loops, a value goes from its source through the steps to its
    target. source: a MeaningSlot; a Term that it is filled with; None: the target itself. fixed:
    fields and registers that have these values in every instruction that means this. same: pairs of
    them that are equal. before: what the instruction fills first."""

    form: InstructionForm
    text: str
    counts: tuple[Term, ...]
    target: MeaningSlot
    source: MeaningSlot | Term | None
    steps: tuple[MeaningStep, ...]
    fixed: Mapping[str, int]
    same: tuple[tuple[str, str], ...] = ()
    before: Meaning | None = None

    @cached_property
    def slots(self) -> tuple[MeaningSlot, ...]:
        """Target, source if it is a place, and the operands of all steps."""
        source = (self.source,) if isinstance(self.source, MeaningSlot) else ()
        operands = (slot for step in self.steps for slot in step.operands)
        return (self.target, *source, *operands)

    @property
    def is_copy(self) -> bool:
        """Whether it moves a value and does nothing with it."""
        return isinstance(self.source, MeaningSlot) and not self.steps


class Meanings:
    """Those of a table, in its order. Raises ConfigError for a text that is none."""

    def __init__(self, table: InstructionTable) -> None:
        self.table = table
        self.all = tuple(
            _meaning(table, form, text) for form in table.forms for text in form.meaning
        )
        if not self.all:
            raise ConfigError(f"instruction set {table.name}: no instruction has a meaning as text")
        into = {m.target.memory for m in self.all if m.is_copy and _source(m).memory == DRAM}
        #: By memory that no copy from DRAM fills, the instruction that does.
        self.fillers: Mapping[str, Meaning] = {
            m.target.memory: m
            for m in reversed([each for m in self.all for each in (m.before, m) if each])
            if m.is_copy and m.target.memory not in {*into, DRAM}
        }

    def reached(self, slot: MeaningSlot) -> tuple[str, int]:
        """The memory from which an operand comes, also through the instruction that fills another;
        and how many places of it are one operand."""
        filler = self.fillers.get(slot.memory)
        if filler is None:
            return slot.memory, 1
        counts = [number_of(count, filler.fixed) for count in filler.counts]
        if None in counts:
            raise ConfigError(
                f"meaning of {filler.form.name}: a field says how much of {slot.memory} it fills: "
                "say a number"
            )
        return _source(filler).memory, prod(count or 0 for count in counts)

    @cached_property
    def memories(self) -> MemoryTable:
        """Where the operands of each step stand, for insert_dma_copy. Raises ConfigError where no
        instruction stores to DRAM."""
        stores = [
            m for m in self.all if m.target.memory == DRAM and isinstance(m.source, MeaningSlot)
        ]
        if not stores:
            raise ConfigError(f"meanings of {self.table.name}: no instruction stores to dram")
        result = _source(stores[0]).memory
        operands: dict[str, tuple[str, ...]] = {FILL: (result,)}
        reach: dict[tuple[str, int], int] = {}
        for meaning in self.all:
            value = meaning.target if meaning.target.memory != DRAM else _source(meaning)
            for step in meaning.steps:
                if step.name in operands:
                    continue
                found = [self.reached(slot) for slot in step.operands]
                operands[step.name] = (value.memory, *(memory for memory, _ in found))
                reach |= {(step.name, n): tiles for n, (_, tiles) in enumerate(found, 1)}
        depth = {memory.name: memory.rows for memory in self.table.memories}
        return MemoryTable(operands, depth, reach, result=result, starts=FILL)

    def stands_alone(self, filler: Meaning) -> bool:
        """Whether an instruction fills and does nothing else."""
        return filler in self.all

    def lanes(self, memory: str) -> int:
        """Of a place."""
        return self.table.by_memory[memory].lanes


def _source(meaning: Meaning) -> MeaningSlot:
    """Of one whose value comes from a place; its target where it stays there."""
    return meaning.source if isinstance(meaning.source, MeaningSlot) else meaning.target


_NAME = r"[a-z][a-z0-9_]*"
_WHOLE = re.compile(r"(?P<steps>.+?\))(?: for (?P<loops>.+?))?(?: where (?P<fixed>.+))?")
_LOOP = re.compile(rf"({_NAME})<(\S+)")
_FIXED = re.compile(rf"({_NAME}) ?= ?(-?\d+|{_NAME})")
_STEP = re.compile(rf"({_NAME})\(([^|;]+?)(?: \| ([^;]+))?\)")
_ACCESS = re.compile(rf"({_NAME})\[([^\]]+)\]")


class _Value(NamedTuple):
    """What a chain has come to: where it stands, and from where it came."""

    place: MeaningSlot
    source: MeaningSlot | Term


def _meaning(table: InstructionTable, form: InstructionForm, text: str) -> Meaning:
    """Of a whole text."""
    *first, last = " ".join(text.split()).split(" then ")
    reader = _Reader(table, form, text)
    if not first:
        return reader.meaning(last)
    before = _Reader(table, form, text).meaning(first[0])
    fills = before.is_copy and before.target.first == 0 and not (before.fixed or before.same)
    if len(first) > 1 or not fills:
        reader.fail("in front of `then` stands one copy(MEMORY[LOOP], ...) without `where`")
    made = reader.meaning(last)
    begins = [slot.first for slot in made.slots]
    if isinstance(before.source, MeaningSlot) and before.source.first in begins:
        reader.fail(f"two operands begin at {before.source.first}")
    return replace(made, before=before)


class _Reader:
    """Reads one text."""

    def __init__(self, table: InstructionTable, form: InstructionForm, text: str) -> None:
        self.table, self.form, self.text = table, form, text
        self.loops: list[str] = []

    def fail(self, why: str) -> NoReturn:
        """Raises ConfigError."""
        raise ConfigError(
            f"instruction set {self.table.name}: meaning of {self.form.name} `{self.text}`: {why}"
        )

    def meaning(self, chain: str) -> Meaning:
        """Of one chain of the text."""
        found = _WHOLE.fullmatch(chain)
        if found is None:
            self.fail("it is not STEP; STEP for LOOP<COUNT where FIELD=VALUE")
        counts = tuple(self._count(word) for word in (found["loops"] or "").split())
        words = (found["fixed"] or "").split(", ") if found["fixed"] else ()
        said = list(map(self._said, words))
        fixed = {name: value for name, value in said if isinstance(value, int)}
        same = tuple((name, value) for name, value in said if isinstance(value, str))
        value, steps = self._chain(found["steps"].split("; "))
        if not self._is_memory(value.place.memory):
            self.fail(f"its value ends in {value.place.memory}, which is no memory")
        source = None if value.source == value.place else value.source
        kept = value.place, source, tuple(steps), fixed, same
        made = Meaning(self.form, self.text, counts, *kept)
        begins = [slot.first for slot in made.slots if isinstance(slot.first, str)]
        for name in begins:
            if begins.count(name) > 1:
                self.fail(f"two operands begin at {name}")
        return made

    def _count(self, word: str) -> Term:
        """Of a loop, which is known from then on."""
        loop = _LOOP.fullmatch(word)
        if loop is None:
            self.fail(f"{word} is no loop NAME<COUNT")
        self.loops.append(loop[1])
        return self._term(loop[2])

    def _said(self, word: str) -> tuple[str, int | str]:
        one = _FIXED.fullmatch(word)
        if one is None or not self._is_known(one[1]):
            self.fail(f"{word} is no FIELD=VALUE of the instruction, and none of a register")
        if not one[2].lstrip("-").isdigit():
            if not self._is_known(one[2]):
                self.fail(f"{word}: {one[2]} is no field of the instruction, and no register")
            return one[1], one[2]
        return one[1], int(one[2])

    def _is_known(self, name: str) -> bool:
        """Whether it is a field of the instruction, or a register."""
        fields = {bits.name for bits in self.form.fields}
        return name in fields or name in self.table.by_register

    def _chain(self, texts: Sequence[str]) -> tuple[_Value, list[MeaningStep]]:
        value: _Value | None = None
        steps: list[MeaningStep] = []
        for text in texts:
            name, (place, *others), immediates = self._step(text)
            if name in (FILL, COPY):
                came = self._came(text, name, others, immediates)
                if value is not None:
                    if came != value.place or self._is_memory(value.place.memory):
                        self.fail(f"`{text}` begins a second value: an instruction has one chain")
                    came = value.source
                value = _Value(place, came)
                continue
            value = value or _Value(place, place)
            if place != value.place:
                self.fail(f"`{text}` works on another place than the step in front of it")
            steps.append(MeaningStep(name, tuple(others), immediates))
        assert value is not None
        return value, steps

    def _came(
        self, text: str, name: str, others: Sequence[MeaningSlot], immediates: Sequence[Term]
    ) -> MeaningSlot | Term:
        """What a fill or a copy begins with."""
        if name == COPY and len(others) == 1 and not immediates:
            return others[0]
        if name == COPY or len(immediates) != 1 or others:
            self.fail(f"`{text}` is not fill(A | VALUE), not copy(A, B)")
        return immediates[0]

    def _step(self, text: str) -> tuple[str, list[MeaningSlot], tuple[Term, ...]]:
        found = _STEP.fullmatch(text)
        if found is None:
            self.fail(f"`{text}` is no step NAME(ACCESS, ... | TERM, ...)")
        accesses = list(_ACCESS.finditer(found[2]))
        if not accesses or ", ".join(each[0] for each in accesses) != found[2]:
            self.fail(f"`{found[2]}` are no accesses MEMORY[INDEX]")
        immediates = tuple(self._term(each) for each in (found[3] or "").split(", ") if each)
        return found[1], [self._slot(each[1], each[2]) for each in accesses], immediates

    def _slot(self, memory: str, at: str) -> MeaningSlot:
        first: list[str] = []
        strides: dict[str, Term] = {}
        for part in at.split(" + "):
            words = part.strip().split("*")
            loops = [word for word in words if word in self.loops]
            if not loops:
                first += [] if part == "0" else [part]
                continue
            if len(loops) > 1 or loops[0] in strides:
                self.fail(f"{memory}[{at}] moves twice with a loop")
            words.remove(loops[0])
            strides[loops[0]] = self._term("*".join(words) or "1")
        if len(first) > 1:
            self.fail(f"{memory}[{at}] begins at a sum: one field says where it begins")
        begin = self._term(first[0]) if first else 0
        return MeaningSlot(memory, begin, tuple(strides.get(loop, 0) for loop in self.loops))

    def _term(self, text: str) -> Term:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        for name in fields_of(text):
            owner, _, field = name.rpartition(".")
            form = self.table.by_name.get(owner)
            of_other = form is not None and field in {bits.name for bits in form.fields}
            if not (of_other if owner else self._is_known(name)):
                self.fail(f"{name} is no field, no register, and no FORM.FIELD")
        return text

    def _is_memory(self, name: str) -> bool:
        return name == DRAM or name in self.table.by_memory
