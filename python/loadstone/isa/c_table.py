# SPDX-License-Identifier: Apache-2.0
"""An instruction set in C: a header of its fields, and the table by which the runtime validates.

In:   an InstructionTable.
Out:  C99: places of fields with functions that read and write them; an lds_insn_table.
Next: a driver or a model of the device includes the header; `loadstone export` writes the table;
      c_members.py says what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.isa.c_members import Member, form_members, table_members
from loadstone.isa.capabilities import capability_macros
from loadstone.isa.table import Bits, InstructionForm, InstructionTable

__all__ = ["c_header", "c_table"]

_ACCESS = """
static inline uint64_t {name}_bits(const uint8_t *insn, unsigned bit, unsigned width) {{
  uint64_t value = 0;
  unsigned k;
  for (k = 0; k < width; ++k) value |= (uint64_t)(insn[(bit + k) / 8u] >> (bit + k) % 8u & 1u) << k;
  return value;
}}

static inline int64_t {name}_signed_bits(const uint8_t *insn, unsigned bit, unsigned width) {{
  const uint64_t value = {name}_bits(insn, bit, width), sign = (uint64_t)1 << (width - 1u);
  return value < sign ? (int64_t)value : -(int64_t)(sign - 1u - (value - sign)) - 1;
}}

static inline void {name}_put_bits(uint8_t *insn, unsigned bit, unsigned width, uint64_t value) {{
  unsigned k;
  for (k = 0; k < width; ++k) {{
    const unsigned at = (bit + k) % 8u;
    uint8_t *byte = insn + (bit + k) / 8u;
    *byte = (uint8_t)((*byte & ~(1u << at)) | (unsigned)(value >> k & 1u) << at);
  }}
}}
"""


def c_header(table: InstructionTable) -> str:
    """Opcodes, lengths and values as enumerations; for each field a function that reads it off the
    bytes of an instruction, and one that writes it."""
    name, big = table.name, table.name.upper()
    lines = [
        f"/* GENERATED: instructions of {name}. Bit k of one is bit k % 8 of its byte k / 8. */",
        f"#ifndef {big}_INSTRUCTIONS_H",
        f"#define {big}_INSTRUCTIONS_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define {big}_OPCODE_BITS {table.opcode_bits}u",
        *([f"#define {big}_OPCODE_AT {table.opcode_at}u"] if table.opcode_at else []),
        *capability_macros(name, table.forms, table.lacks),
        "enum {",
        *(f"  {big}_{form.name.upper()} = {form.opcode}," for form in table.forms),
        "};",
        "enum {",
        *(f"  {big}_{form.name.upper()}_BYTES = {table.sizes[form.name]}," for form in table.forms),
        "};",
    ]
    for form in table.forms:
        for field in form.fields:
            if field.values:
                prefix = f"{big}_{form.name}_{field.name}_".upper()
                lines += [
                    "enum {",
                    *(f"  {prefix}{_word(value)} = {k}," for k, value in enumerate(field.values)),
                    "};",
                ]
    lines.append(_ACCESS.format(name=name))
    for form in table.forms:
        lines += _is_form(table, form) if form.codes else ()
        lines += [line for field in form.fields for line in _functions(table, form, field)]
    return "\n".join([*lines, f"#endif /* {big}_INSTRUCTIONS_H */", ""])


def _is_form(table: InstructionTable, form: InstructionForm) -> Sequence[str]:
    """A function that tells whether an instruction of its opcode is one of this form."""
    tests = " && ".join(
        f"{table.name}_bits(insn, {code.at}u, {code.width}u) == {code.value}u"
        for code in form.codes
    )
    return (
        f"static inline int {table.name}_is_{form.name}(const uint8_t *insn) {{",
        f"  return {tests};",
        "}",
    )


def _word(text: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in text.upper())


def _functions(table: InstructionTable, form: InstructionForm, field: Bits) -> Sequence[str]:
    at, sign = table.places[form.name][field.name], field.signed
    kind, read = ("int64_t", "_signed_bits") if sign else ("uint64_t", "_bits")
    what = f"{table.name}_{form.name}_{field.name}"
    place = f"{at}u, {field.width}u"
    return (
        f"static inline {kind} {what}(const uint8_t *insn) {{",
        f"  return {table.name}{read}(insn, {place});",
        "}",
        f"static inline void set_{what}(uint8_t *insn, {kind} value) {{",
        f"  {table.name}_put_bits(insn, {place}, {'(uint64_t)value' if sign else 'value'});",
        "}",
    )


def c_table(table: InstructionTable) -> str:
    """A C file that defines `const lds_insn_table NAME_table`, for lds_accelerator.table."""
    name = table.name
    lines = [
        f"/* GENERATED: what the validator knows of {name}'s instructions. */",
        '#include "lds_accelerator.h"',
        "",
        f"extern const lds_insn_table {name}_table;",
    ]
    forms = []
    for form in table.forms:
        members = form_members(table, form)
        for kind, entries in members.arrays().items():
            if entries:
                begin = f"static const lds_insn_{kind} {form.name}_{kind}s[] = {{"
                lines += [begin, *(f"    {_initializer(entry)}," for entry in entries), "};"]
        plain = ", ".join(f"{value}u" for value in members.plain().values())
        names = [
            f"{form.name}_{kind}s" if entries else "0" for kind, entries in members.arrays().items()
        ]
        forms.append(f"    {{{plain}, {', '.join(names)}}},")
    lines += ["static const lds_insn_form forms[] = {", *forms]
    said = table_members(table)
    print_bytes = ", ".join(f"{byte}u" for byte in table.fingerprint)
    lines += [
        "};",
        f"static const uint32_t memory_rows[] = {_initializer(said.memory_rows)};",
        f"static const uint8_t word_bytes[] = {_initializer(said.word_bytes)};",
        *_registers(said.registers),
        "",
        f"const lds_insn_table {name}_table = {{",
        f'    "{name}",',
        f"    {{{print_bytes}}},",
        f"    {table.opcode_bits}u, {len(table.forms)}u, {len(table.memories)}u,",
        f"    forms, memory_rows, word_bytes, {said.region_bank}u, {said.region_count}u,",
        f"    {table.opcode_at}u, {len(said.registers)}u, {'registers' if table.registers else 0},",
        "};",
        "",
    ]
    return "\n".join(lines)


def _registers(said: Sequence[Member]) -> Sequence[str]:
    if not said:
        return ()
    lines = [f"    {_initializer(one)}," for one in said]
    return ("static const lds_insn_register registers[] = {", *lines, "};")


def _initializer(value: Member) -> str:
    """In C."""
    if isinstance(value, int):
        return f"{value}u" if value < 1 << 32 else f"UINT64_C({value})"
    items = value.values() if isinstance(value, Mapping) else value
    return f"{{{', '.join(map(_initializer, items))}}}"
