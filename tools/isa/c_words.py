# SPDX-License-Identifier: Apache-2.0
"""The text of lab/isa_words.h: the words of the assembler, and the fields that they mean.

In:   vta/isa/spec.py and the tables of vta/isa/asm_words.py.
Out:  `words`.
Next: __main__.py writes it; lab/parse.cc and lab/print.cc include it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from loadstone.vta.isa import spec
from loadstone.vta.isa.asm_words import ALU_SIGNS, NEIGHBOURS, NOOPS, PADS
from loadstone.vta.isa.spec import INSTRUCTIONS, Instruction
from tools.isa.c_names import BANNER, struct_of

__all__ = ["words"]


def words() -> str:
    """The C++ header."""
    parts = [
        f"// {BANNER}\n//\n// In:   nothing.\n// Out:  names of instructions, fields and "
        "values, in the order of the spec.\n// Next: parse.cc, print.cc.\n"
        "// SPDX-License-Identifier: Apache-2.0\n"
        "// clang-format off\n#pragma once\n\n#include <cstddef>\n#include <cstdint>\n\n"
        '#include "lds_isa.h"\n\nnamespace lds::lab {',
        "// A field: where it stands in lds_insn. It is `bits` wide, and as many more as a "
        "device says.\nstruct Field {\n  const char *name;\n  size_t offset;\n"
        "  uint32_t bytes;\n  bool is_signed;\n  uint32_t bits;\n"
        "  uint32_t lds_isa_widths::*more;\n};",
        "// A kind of instruction: its fields, tokens first.\nstruct Form {\n  const char *name;\n"
        "  uint32_t opcode;\n  const Field *fields;\n  uint32_t count;\n};",
        f"constexpr uint32_t kMostFields = {max(len(i.fields) for i in INSTRUCTIONS) - 1};",
        "\n".join(_fields(insn) for insn in INSTRUCTIONS),
        _array(
            "Form kForms",
            (
                f'{{"{i.name}", LDS_OPCODE_{i.name}, kFieldsOf{i.name}, {len(i.fields) - 1}u}}'
                for i in INSTRUCTIONS
            ),
        ),
        "struct Word {\n  const char *text;\n  uint32_t value;\n};",
        *(_names(name, members) for name, members in _ENUMERATIONS.items()),
        _words("Signs", {sign: int(op) for op, sign in ALU_SIGNS.items()}),
        _words("TokenQueues", {str(q): n for n, q in enumerate(spec.TOKEN_QUEUES)}),
        "// A side of padding: the field that says how much.\n"
        "struct Side {\n  const char *text, *field;\n};",
        _array("Side kSides", (f'{{"{side}", "{field}"}}' for side, field in PADS.items())),
        "// Flags between a stage and its neighbour.\nstruct Neighbour {\n  uint32_t stage;\n"
        "  const char *text, *pop, *push;\n};",
        _array(
            "Neighbour kNeighbours",
            (
                f'{{LDS_STAGE_{stage.name}, "{name}", "{pop}", "{push}"}}'
                for stage, flags in NEIGHBOURS.items()
                for name, (pop, push) in flags.items()
            ),
        ),
        "// What stands for an instruction that moves nothing: its opcode and its memory.\n"
        "struct Nothing {\n  const char *text;\n  uint32_t opcode, memory;\n};",
        _array(
            "Nothing kNothings",
            (
                f'{{"{text}", LDS_OPCODE_{insn.SPEC.name}, {int(insn.values()["memory_id"])}u}}'
                for text, insn in NOOPS.items()
            ),
        ),
        "}  // namespace lds::lab",
    ]
    return "\n\n".join(parts) + "\n"


_ENUMERATIONS: Mapping[str, type[IntEnum]] = {
    "Stages": spec.Stage,
    "Memories": spec.Memory,
    "Registers": spec.ConfigRegister,
    "Roundings": spec.Rounding,
}


def _fields(insn: Instruction) -> str:
    rows = []
    for field in insn.fields[1:]:
        own = field.name not in spec.TOKEN_FLAGS
        place = f"u.{struct_of(insn)}.{field.name}" if own else f"flags.{field.name}"
        rows.append(
            f'{{"{field.name}", offsetof(lds_insn, {place}), {4 if own else 1}u, '
            f"{'true' if field.signed else 'false'}, {_width(field.width)}}}"
        )
    return _array(f"Field kFieldsOf{insn.name}", rows)


def _width(width: int | str) -> str:
    """13 -> `13u, nullptr`; "lu+1" -> `1u, &lds_isa_widths::lu`."""
    if isinstance(width, int):
        return f"{width}u, nullptr"
    name, _, bits = width.partition("+")
    return f"{bits or 0}u, &lds_isa_widths::{name}"


def _names(name: str, members: type[IntEnum]) -> str:
    return _words(name, {member.name.lower(): int(member) for member in members})


def _words(name: str, values: Mapping[str, int]) -> str:
    return _array(f"Word k{name}", (f'{{"{text}", {value}u}}' for text, value in values.items()))


def _array(declared: str, rows: Iterable[str]) -> str:
    kind, name = declared.split(" ")
    return f"inline constexpr {kind} {name}[] = {{\n" + "".join(f"    {r},\n" for r in rows) + "};"
