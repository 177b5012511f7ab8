# SPDX-License-Identifier: Apache-2.0
"""An instruction set as a table: what an accelerator that is not VTA understands, stated once.

In:   fields, instructions and local memories, as a plug-in writes them.
Out:  InstructionTable, which gives each field its bits, refuses what cannot be, and has a
      fingerprint.
Next: codec.py (bytes <-> fields), text.py (text <-> fields), c_table.py and page.py (C, Markdown),
      machine.py (what it does and how long it takes); runtime/program.c checks programs with it.

Bit k of an instruction is bit k % 8 of its byte k / 8. Every instruction has the opcode at the
same bits of its first four bytes, the lowest ones unless `opcode_at` says which; where several have
one opcode, `codes` tell them apart. Both also say its length: 4 to 64 bytes. Fields follow the
opcode in the order of the table unless `at` says where one begins; bits of no field are zero, and a
program that sets one is refused.

    table = InstructionTable(
        "npu",
        (
            InstructionForm(
                "copy",
                1,
                (Bits("address", 32, address=True), Bits("row", 12), Bits("rows", 12, low=1)),
                reaches=(
                    Reach("dram", "address", (("rows", 16),), 16),
                    Reach("pad", "row", (("rows", 1),), writes=True),
                ),
            ),
        ),
        (LocalMemory("pad", 4096, 16),),
    )
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from loadstone.errors import ConfigError
from loadstone.isa.capabilities import Lack, capabilities_of, forms_having
from loadstone.isa.fingerprint import fingerprint_of
from loadstone.isa.form import (
    DRAM,
    MAX_FIELDS,
    MAX_INSN_BYTES,
    MAX_KEPT,
    MAX_LOOPS,
    MIN_INSN_BYTES,
    AddressRegister,
    Bits,
    InstructionForm,
    Keep,
    LocalMemory,
    OpcodeBits,
    Reach,
    Register,
    Set,
    UnitBy,
    Words,
)
from loadstone.isa.queues import UnitQueue, queue_mistake, token_fields
from loadstone.isa.reach_rules import (
    FormRules,
    opcode_mistake,
    register_mistakes,
    word_mistakes,
)
from loadstone.isa.terms import fields_of

__all__ = [
    "DRAM",
    "MAX_INSN_BYTES",
    "MAX_KEPT",
    "MAX_LOOPS",
    "MIN_INSN_BYTES",
    "AddressRegister",
    "Bits",
    "InstructionForm",
    "InstructionTable",
    "Keep",
    "LocalMemory",
    "OpcodeBits",
    "Reach",
    "Register",
    "Set",
    "UnitBy",
    "UnitQueue",
    "Words",
]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")
_KEYWORDS = frozenset({"auto", "break", "case", "char", "const", "default", "do", "double", "else"})


def _is_dtype(name: str) -> bool:
    try:
        return np.dtype(name).kind in "biuf"
    except TypeError:
        return False


@dataclass(frozen=True)
class InstructionTable:
    """The whole set. Raises ConfigError where it contradicts itself.

    queues: of tokens between units; without any the hardware orders its units by what instructions
    touch. noops: instructions that do nothing but give and take tokens, one for each unit that has
    one. lacks: what `having` left out. registers: numbers that the device keeps between
    instructions. opcode_at: the bit where opcodes begin.
    """

    name: str
    forms: tuple[InstructionForm, ...]
    memories: tuple[LocalMemory, ...] = ()
    opcode_bits: int = 8
    address_registers: tuple[AddressRegister, ...] = ()
    queues: tuple[UnitQueue, ...] = ()
    noops: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    registers: tuple[Register, ...] = ()
    opcode_at: int = 0

    def __post_init__(self) -> None:
        self._require(bool(_NAME.fullmatch(self.name)), "its name", "lower case letters, digits, _")
        self._require(1 <= self.opcode_bits <= 16, "opcode_bits", "1 to 16")
        first = range(33 - self.opcode_bits)
        self._require(self.opcode_at in first, f"opcode_at {self.opcode_at}", f"in {first}")
        self._require(1 <= len(self.forms) <= 1 << 16, "its forms", "1 to 2^16")
        self._distinct("instructions", [form.name.lower() for form in self.forms])
        self._distinct("memories", [DRAM, *(memory.name for memory in self.memories)])
        for memory in self.memories:
            self._require(1 <= memory.rows < 1 << 32, f"rows of {memory.name}", "1 to 2^32 - 1")
            self._require(memory.lanes >= 1, f"lanes of {memory.name}", "1 or more")
            kind = f"{memory.name}: dtype {memory.dtype!r}"
            wanted = "int8, int32, float32 or another of NumPy (24 bits stand in int32)"
            self._require(_is_dtype(memory.dtype), kind, wanted)
            for of_words in word_mistakes(memory):
                self._require(False, *of_words)
        self._check_registers()
        for form in self.forms:
            self._check(form)
        alike = opcode_mistake(self.forms, self.opcodes)
        self._require(alike is None, *(alike or ("", "")))
        mistake = queue_mistake(self.queues, self.noops, self.forms)
        self._require(mistake is None, *(mistake or ("", "")))

    def _check_registers(self) -> None:
        registers = self.address_registers
        names = [register.name for register in registers]
        self._distinct("registers", [*names, *(register.name for register in self.registers)])
        for what, wanted in register_mistakes(self.registers):
            self._require(False, what, wanted)
        count = sum(register.count for register in registers)
        few = all(register.count >= 1 for register in registers) and count <= MAX_KEPT
        self._require(few, f"{count} address registers", f"1 of each, {MAX_KEPT} at most")
        begun = [register.name for register in registers if register.regions]
        self._require(len(begun) <= 1, f"{', '.join(begun)} that begin at regions", "one at most")

    def ordered_by(self, queues: Sequence[UnitQueue], *noops: InstructionForm) -> InstructionTable:
        """The same instructions and these no-ops, whose units wait for tokens: each gets the
        queues' fields behind its own."""
        first, *more = token_fields(queues)
        forms, names = [], tuple(form.name for form in noops)
        for form in (*self.forms, *noops):
            behind = replace(first, at=self._end(form)) if form.codes else first
            forms.append(replace(form, fields=(*form.fields, behind, *more)))
        return replace(self, forms=tuple(forms), queues=tuple(queues), noops=names)

    def having(self, *capabilities: str) -> InstructionTable:
        """The same on a device that has these capabilities and no other: what needs another is no
        instruction, and a field stays below what needs it."""
        for capability in capabilities:
            self.has(capability)  # is one
        forms, lacks = forms_having(self.forms, capabilities)
        return replace(self, forms=forms, lacks=(*self.lacks, *lacks))

    def has(self, capability: str) -> bool:
        """Whether the device has a capability. Raises ConfigError for one that nothing needs."""
        lacking = {needed for _, needed in self.lacks}
        known = sorted(lacking.union(capabilities_of(self.forms)))
        wanted = f"one that something needs: {', '.join(known) or 'none is'}"
        self._require(capability in known, f"capability {capability!r}", wanted)
        return capability not in lacking

    def why_not(self, what: str) -> str:
        """What an instruction, or INSTRUCTION.FIELD, needs and the device lacks, for a message that
        refuses it; "" where that is not why."""
        needed = dict(self.lacks).get(what)
        return f"; that needs capability {needed}, which the device lacks" if needed else ""

    @cached_property
    def banks(self) -> Mapping[str, tuple[int, int]]:
        """By address register, the number of its first, and how many it is."""
        found, first = {}, 0
        for register in self.address_registers:
            found[register.name] = first, register.count
            first += register.count
        return found

    @cached_property
    def opcodes(self) -> Mapping[str, tuple[int, int]]:
        """By instruction, the bits that tell it from others, as a mask, and their values."""
        found = {}
        for form in self.forms:
            own = (OpcodeBits(self.opcode_at, self.opcode_bits, form.opcode), *form.codes)
            mask = sum(((1 << code.width) - 1) << code.at for code in own)
            found[form.name] = mask, sum(code.value << code.at for code in own)
        return found

    @cached_property
    def read_registers(self) -> Mapping[str, tuple[str, ...]]:
        """By instruction, the registers that it reads, in the order of the table."""
        found = {}
        for form in self.forms:
            terms = [*form.terms(), *(term for term, _ in form.per)]
            names = {*form.reads, *(name for term in terms for name in fields_of(term))}
            found[form.name] = tuple(one.name for one in self.registers if one.name in names)
        return found

    @cached_property
    def seen_by(self) -> Mapping[str, tuple[Bits, ...]]:
        """By instruction, what its meaning is given: its fields, and the registers that it reads as
        if they were fields."""
        return {
            form.name: (*form.fields, *(self.by_register[name].bits for name in read))
            for form in self.forms
            for read in (self.read_registers[form.name],)
        }

    @cached_property
    def by_register(self) -> Mapping[str, Register]:
        """The registers by name."""
        return {register.name: register for register in self.registers}

    @cached_property
    def places(self) -> Mapping[str, Mapping[str, int]]:
        """By instruction and field, the bit where it begins."""
        return {form.name: self._placed(form) for form in self.forms}

    @cached_property
    def packing(self) -> Mapping[str, tuple[tuple[str, int, int], ...]]:
        """By instruction: name, first bit and mask of each field, for who packs many."""
        return {
            form.name: tuple(
                (field.name, self.places[form.name][field.name], (1 << field.width) - 1)
                for field in form.fields
            )
            for form in self.forms
        }

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """By instruction, its length in bytes."""
        return {form.name: form.size_bytes or self._least(form) for form in self.forms}

    @cached_property
    def by_name(self) -> Mapping[str, InstructionForm]:
        """The instructions by name."""
        return {form.name: form for form in self.forms}

    def form_at(self, code: bytes, at: int = 0) -> InstructionForm | None:
        """The instruction whose bytes stand in a program from byte `at` on, as far as its opcode
        says; None for no opcode of the table."""
        opcode = int.from_bytes(code[at : at + 4], "little") >> self.opcode_at
        for form in self._by_opcode.get(opcode & (1 << self.opcode_bits) - 1, ()):
            mask, value = self.opcodes[form.name]
            size = self.sizes[form.name]
            if not form.codes or int.from_bytes(code[at : at + size], "little") & mask == value:
                return form
        return None

    @cached_property
    def _by_opcode(self) -> Mapping[int, Sequence[InstructionForm]]:
        found: dict[int, list[InstructionForm]] = {}
        for form in self.forms:
            found.setdefault(form.opcode, []).append(form)
        return found

    @cached_property
    def word_fields(self) -> Mapping[str, Mapping[str, tuple[int, int]]]:
        """By memory that has words, and by field of these, its first bit and its width."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for memory in self.memories:
            free = 0
            for field in memory.fields:
                at = free if field.at is None else field.at
                found.setdefault(memory.name, {})[field.name] = at, field.width
                free = at + field.width
        return found

    @cached_property
    def by_memory(self) -> Mapping[str, LocalMemory]:
        """The local memories by name."""
        return {memory.name: memory for memory in self.memories}

    @cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that decide what a program means: texts and times are left out."""
        forms = [(form, self.places[form.name], self.sizes[form.name]) for form in self.forms]
        begin = [self.name, self.opcode_bits, *([{"at": self.opcode_at}] if self.opcode_at else [])]
        kept = self.address_registers, self.queues, self.registers
        return fingerprint_of(begin, forms, self.memories, *kept)

    # --- inside -----------------------------------------------------------------------------------
    def _require(self, sound: bool, what: str, wanted: str) -> None:
        if not sound:
            raise ConfigError(f"instruction set {self.name}: {what}: not {wanted}")

    def _distinct(self, what: str, names: list[str]) -> None:
        twice = next((one for one, other in pairwise(sorted(names)) if one == other), None)
        self._require(twice is None, f"{what}: {twice} stands twice", "each once")

    def _placed(self, form: InstructionForm) -> Mapping[str, int]:
        places, free = {}, self.opcode_at + self.opcode_bits
        for field in form.fields:
            places[field.name] = free if field.at is None else field.at
            free = places[field.name] + field.width
        return places

    def _end(self, form: InstructionForm) -> int:
        """The bit behind all that it has."""
        places, opcode = self._placed(form), self.opcode_at + self.opcode_bits
        fields = (places[field.name] + field.width for field in form.fields)
        return max([opcode, *(code.at + code.width for code in form.codes), *fields])

    def _least(self, form: InstructionForm) -> int:
        return -(-self._end(form) // 32) * 4

    def _check(self, form: InstructionForm) -> None:
        where = f"instruction {form.name}"
        named = _NAME.fullmatch(form.name) or _CAPITALS.fullmatch(form.name)
        self._require(bool(named), where, "letters of one case, digits, _")
        opcodes = range(1 << self.opcode_bits)
        self._require(form.opcode in opcodes, f"{where}: opcode {form.opcode}", f"in {opcodes}")
        self._distinct(f"{where}: fields", ["opcode", *(field.name for field in form.fields)])
        fields = len(form.fields)
        self._require(fields <= MAX_FIELDS, f"{where}: {fields} fields", f"at most {MAX_FIELDS}")
        for field in form.fields:
            self._check_field(field, f"{where}: field {field.name}")
        size = form.size_bytes or self._least(form)
        self._require(MIN_INSN_BYTES <= size <= MAX_INSN_BYTES, f"{where}: {size} bytes", "4 to 64")
        self._check_places(form, size, where)
        registers = {register.name: register for register in self.address_registers}
        rules = FormRules(form, self.by_memory, registers, where, self.by_register)
        for mistake in rules.mistakes():
            self._require(False, *mistake)

    def _check_field(self, field: Bits, where: str) -> None:
        named = _NAME.fullmatch(field.name) and field.name not in _KEYWORDS
        self._require(bool(named), where, "lower case letters, digits, _, no word of C")
        self._require(1 <= field.width <= 64, f"{where}: width {field.width}", "1 to 64")
        held = Bits("", field.width, signed=field.signed)
        inside = held.lowest <= field.lowest <= field.highest <= held.highest
        limits = f"{where}: limits {field.lowest} to {field.highest}"
        self._require(inside, limits, f"within the {field.width} bits' {held.lowest} and more")
        plain = not field.address or not (field.signed or field.values or field.low or field.high)
        self._require(plain, f"{where}: an address with a sign, values or limits", "a plain one")
        self._require(0 <= field.shift <= 16, f"{where}: shift {field.shift}", "0 to 16")
        if field.needs:
            self._check_needs(field, where)

    def _check_needs(self, field: Bits, where: str) -> None:
        said = f"{where}: needs {field.needs!r}"
        named = _NAME.fullmatch(field.needs) is not None
        self._require(named, said, "lower case letters, digits, _")
        self._require(not field.address, said, "of an address: say it of the instruction")
        without = field.lowest < field.needs_from <= field.highest and field.needs_from > 0
        limits = f"{max(1, field.lowest + 1)} to {field.highest}"
        self._require(without, f"{where}: needs_from {field.needs_from}", limits)

    def _check_places(self, form: InstructionForm, size: int, where: str) -> None:
        places = self._placed(form)
        parts = [("opcode", self.opcode_at, self.opcode_bits)]
        for number, code in enumerate(form.codes, 1):
            what = f"{where}: code {number}: {code.value}"
            self._require(0 <= code.value < 1 << code.width, what, f"of {code.width} bits")
            parts.append((f"code {number}", code.at, code.width))
        parts += [(field.name, places[field.name], field.width) for field in form.fields]
        free = 0
        for name, at, width in sorted(parts, key=lambda part: part[1]):
            self._require(at >= free, f"{where}: bit {at} of {name}", f"free: {free} is the next")
            free = at + width
        self._require(free <= 8 * size, f"{where}: {free} bits", f"within {size} bytes")
