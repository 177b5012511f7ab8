# SPDX-License-Identifier: Apache-2.0
"""An instruction set as a table: what an accelerator that is not VTA understands, stated once.

In:   fields, instructions and local memories, as a plug-in writes them.
Out:  InstructionTable, which gives each field its bits, refuses what cannot be, and has a
      fingerprint.
Next: codec.py (bytes <-> fields), text.py (text <-> fields), c_table.py and page.py (C, Markdown),
      machine.py (what it does and how long it takes); runtime/program.c checks programs with it.

Bit k of an instruction is bit k % 8 of its byte k / 8. Every instruction begins with the opcode,
which also says its length: 4 to 64 bytes. Fields follow each other in the order of the table unless
`at` says where one begins; bits of no field are zero, and a program that sets one is refused.

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

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from loadstone.errors import ConfigError
from loadstone.isa.capabilities import Lack, capabilities_of, forms_having
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
    Reach,
    UnitBy,
    Words,
)
from loadstone.isa.queues import UnitQueue, queue_mistake, token_fields
from loadstone.isa.reach_rules import FormRules, word_mistakes

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
    "Reach",
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
    one. lacks: what `having` left out.
    """

    name: str
    forms: tuple[InstructionForm, ...]
    memories: tuple[LocalMemory, ...] = ()
    opcode_bits: int = 8
    address_registers: tuple[AddressRegister, ...] = ()
    queues: tuple[UnitQueue, ...] = ()
    noops: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()

    def __post_init__(self) -> None:
        self._require(bool(_NAME.fullmatch(self.name)), "its name", "lower case letters, digits, _")
        self._require(1 <= self.opcode_bits <= 16, "opcode_bits", "1 to 16")
        self._require(1 <= len(self.forms) <= 1 << self.opcode_bits, "its forms", "1 to 2^opcode")
        self._distinct("instructions", [form.name.lower() for form in self.forms])
        self._distinct("opcodes", [str(form.opcode) for form in self.forms])
        self._distinct("memories", [DRAM, *(memory.name for memory in self.memories)])
        for memory in self.memories:
            self._require(1 <= memory.rows < 1 << 32, f"rows of {memory.name}", "1 to 2^32 - 1")
            self._require(memory.lanes >= 1, f"lanes of {memory.name}", "1 or more")
            kind = f"{memory.name}: dtype {memory.dtype!r}"
            wanted = "int8, int32, float32 or another of NumPy (24 bits stand in int32)"
            self._require(_is_dtype(memory.dtype), kind, wanted)
            for of_words in word_mistakes(memory):
                self._require(False, *of_words)
        registers = self.address_registers
        self._distinct("address registers", [register.name for register in registers])
        count = sum(register.count for register in registers)
        few = all(register.count >= 1 for register in registers) and count <= MAX_KEPT
        self._require(few, f"{count} address registers", f"1 of each, {MAX_KEPT} at most")
        begun = [register.name for register in registers if register.regions]
        self._require(len(begun) <= 1, f"{', '.join(begun)} that begin at regions", "one at most")
        for form in self.forms:
            self._check(form)
        mistake = queue_mistake(self.queues, self.noops, self.forms)
        self._require(mistake is None, *(mistake or ("", "")))

    def ordered_by(self, queues: Sequence[UnitQueue], *noops: InstructionForm) -> InstructionTable:
        """The same instructions and these no-ops, whose units wait for tokens: each gets the
        queues' fields behind its own."""
        more = token_fields(queues)
        forms = [replace(form, fields=(*form.fields, *more)) for form in (*self.forms, *noops)]
        names = tuple(form.name for form in noops)
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

    @cached_property
    def by_opcode(self) -> Mapping[int, InstructionForm]:
        """The instructions by opcode."""
        return {form.opcode: form for form in self.forms}

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
        forms = []
        for form in self.forms:
            said = asdict(form)
            for name in ("doc", "unit", "cycles", "per", "needs", "meaning"):
                del said[name]
            _without_texts(said["fields"])
            for reach in said["reaches"]:
                _without(reach, offset=0, index=0, through=None)
            _without(said, keeps=(), never=(), ends=False)
            forms.append({**said, "at": self.places[form.name], "size": self.sizes[form.name]})
        memories = [asdict(memory) for memory in self.memories]
        for memory in memories:
            _without_texts(memory["fields"])
            _without(memory, fields=())
        registers = [asdict(register) for register in self.address_registers]
        for register in registers:
            _without(register, regions=False)
        whole = [self.name, self.opcode_bits, forms, memories, *registers]
        whole += [asdict(queue) for queue in self.queues]
        text = json.dumps(whole, sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    # --- inside -----------------------------------------------------------------------------------
    def _require(self, sound: bool, what: str, wanted: str) -> None:
        if not sound:
            raise ConfigError(f"instruction set {self.name}: {what}: not {wanted}")

    def _distinct(self, what: str, names: list[str]) -> None:
        twice = next((one for one, other in pairwise(sorted(names)) if one == other), None)
        self._require(twice is None, f"{what}: {twice} stands twice", "each once")

    def _placed(self, form: InstructionForm) -> Mapping[str, int]:
        places, free = {}, self.opcode_bits
        for field in form.fields:
            places[field.name] = free if field.at is None else field.at
            free = places[field.name] + field.width
        return places

    def _least(self, form: InstructionForm) -> int:
        places = self._placed(form)
        end = max([self.opcode_bits, *(places[f.name] + f.width for f in form.fields)])
        return -(-end // 32) * 4

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
        rules = FormRules(form, self.by_memory, registers, where)
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
        taken = sorted((at, form_field) for form_field, at in self._placed(form).items())
        width = {field.name: field.width for field in form.fields}
        free = self.opcode_bits
        for at, name in taken:
            self._require(at >= free, f"{where}: bit {at} of {name}", f"free: {free} is the next")
            free = at + width[name]
        self._require(free <= 8 * size, f"{where}: {free} bits", f"within {size} bytes")


def _without(said: dict[str, object], **plain: object) -> None:
    """Leaves out of a fingerprint what a table does not use, so that it keeps the one that it had
    before there was such a thing."""
    for name, value in plain.items():
        if said[name] == value:
            del said[name]


def _without_texts(fields: Iterable[dict[str, object]]) -> None:
    """What needs a capability that is not there has limits."""
    for field in fields:
        for name in ("doc", "needs", "needs_from"):
            del field[name]
