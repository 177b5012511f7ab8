# SPDX-License-Identifier: Apache-2.0
"""An instruction set in C: a header of its fields, and the table by which the runtime validates.

In:   an InstructionTable.
Out:  C99: places of fields with functions that read and write them; an lds_insn_table.
Next: a driver or a model of the device includes the header; `loadstone export` writes the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadstone.isa.capabilities import capability_macros
from loadstone.isa.table import (
    DRAM,
    MAX_LOOPS,
    Bits,
    InstructionForm,
    InstructionTable,
    Reach,
)
from loadstone.isa.terms import Term, factors

__all__ = ["c_header", "c_table", "form_keeps", "numbered_terms", "reach_bank"]

_SIGNED, _ADDRESS = 1, 2
_NO_FIELD = 255

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
        lines += [line for field in form.fields for line in _functions(table, form, field)]
    return "\n".join([*lines, f"#endif /* {big}_INSTRUCTIONS_H */", ""])


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
        arrays = _arrays(table, form)
        for kind, entries in arrays.items():
            if entries:
                begin = f"static const lds_insn_{kind} {form.name}_{kind}s[] = {{"
                lines += [begin, *(f"    {entry}," for entry in entries), "};"]
        counts = f"{len(form.fields)}u, {len(form.reaches)}u, {len(form.keeps)}u"
        names = [f"{form.name}_{kind}s" if entries else "0" for kind, entries in arrays.items()]
        size = table.sizes[form.name]
        forms.append(f"    {{{form.opcode}u, {size}u, {counts}, {', '.join(names)}}},")
    lines += ["static const lds_insn_form forms[] = {", *forms]
    rows = ", ".join(f"{memory.rows}u" for memory in table.memories) or "0u"
    print_bytes = ", ".join(f"{byte}u" for byte in table.fingerprint)
    lines += [
        "};",
        f"static const uint32_t memory_rows[] = {{{rows}}};",
        "",
        f"const lds_insn_table {name}_table = {{",
        f'    "{name}",',
        f"    {{{print_bytes}}},",
        f"    {table.opcode_bits}u, {len(table.forms)}u, {len(table.memories)}u,",
        "    forms, memory_rows,",
        "};",
        "",
    ]
    return "\n".join(lines)


def _arrays(table: InstructionTable, form: InstructionForm) -> Mapping[str, Sequence[str]]:
    """What an lds_insn_form points to, in its order, by the last word of the type's name."""
    keep = "{{{bank}u, {bank_size}u, {field}u, {{{index[0]}u, {index[1]}u}}}}"
    return {
        "field": [_field(table, form, field) for field in form.fields],
        "reach": [_reach(table, form, k) for k in range(len(form.reaches))],
        "factor": [f"{{{field}u, {more}u}}" for field, more in numbered_terms(table, form)[0]],
        "keep": [keep.format(**said) for said in form_keeps(table, form)],
    }


def _field(table: InstructionTable, form: InstructionForm, field: Bits) -> str:
    flags = field.signed * _SIGNED | field.address * _ADDRESS
    low, high = (value % (1 << 64) for value in (field.lowest, field.highest))
    place = table.places[form.name][field.name]
    limits = f"UINT64_C({low}), UINT64_C({high})"
    return f"{{{place}u, {field.width}u, {flags}u, {field.shift}u, {limits}}}"


def numbered_terms(
    table: InstructionTable, form: InstructionForm
) -> tuple[list[tuple[int, int]], Mapping[Term, tuple[int, int]]]:
    """(field, number) of every factor that stands in a product, and by term the two members of
    lds_insn_term."""
    numbers = {field.name: k for k, field in enumerate(form.fields)}
    banks = set(table.banks) - set(numbers)
    products: list[tuple[int, int]] = []
    terms: dict[Term, tuple[int, int]] = {0: (0, 0)}
    every = [term for reach in form.reaches for term in (reach.first, *reach.terms())]
    for term in (*every, *(keep.index for keep in form.keeps)):
        if term not in banks:
            if isinstance(term, int):
                terms[term] = term, 0
            elif term in numbers:
                terms[term] = numbers[term], 1
            elif term not in terms:
                said = [(numbers[f] if f else _NO_FIELD, more) for f, more in factors(term)]
                said += [(_NO_FIELD, 1)] * (len(said) == 1)
                terms[term] = len(products), len(said)
                products += said
    return products, terms


def _reach(table: InstructionTable, form: InstructionForm, index: int) -> str:
    reach, terms = form.reaches[index], numbered_terms(table, form)[1]
    memories = {DRAM: 0, **{memory.name: k for k, memory in enumerate(table.memories, 1)}}

    def term(value: Term) -> str:
        return "{{{}u, {}u}}".format(*terms[value])

    loops = [*reach.loops, *[(0, 0)] * (MAX_LOOPS - len(reach.loops))]
    counts = ", ".join(term(count) for count, _ in loops)
    strides = ", ".join(term(stride) for _, stride in loops)
    bank = reach_bank(table, form, reach)
    head = f"{memories[reach.memory]}u, {int(reach.writes)}u, {len(reach.loops)}u"
    first = f"{term(reach.index if bank[0] else reach.first)}, {term(reach.offset)}"
    rest = f"{term(reach.extent)}, {{{counts}}}, {{{strides}}}"
    return f"{{{head}, {bank[0]}u, {bank[1]}u, {first}, {rest}}}"


def reach_bank(table: InstructionTable, form: InstructionForm, reach: Reach) -> tuple[int, int]:
    """lds_insn_reach's bank and bank_size: of the address registers that it begins at."""
    if reach.memory != DRAM or any(field.name == reach.first for field in form.fields):
        return 0, 0
    first, count = table.banks[str(reach.first)]
    return first + 1, count


def form_keeps(table: InstructionTable, form: InstructionForm) -> list[dict[str, Any]]:
    """The members of lds_insn_keep for each address register that an instruction sets."""
    numbers, terms = {f.name: k for k, f in enumerate(form.fields)}, numbered_terms(table, form)[1]
    return [
        {
            "bank": table.banks[keep.register][0] + 1,
            "bank_size": table.banks[keep.register][1],
            "field": numbers[keep.field],
            "index": terms[keep.index],
        }
        for keep in form.keeps
    ]
