# SPDX-License-Identifier: Apache-2.0
"""One instruction of a table as a C function of c_machine.py's file.

In:   an InstructionForm.
Out:  C99: its fields, what it reads of registers, what it touches, what it sets, its cycles.
Next: c_machine.py prints the functions of all instructions, and what calls them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from loadstone.isa.c_meaning import function_name
from loadstone.isa.form import DRAM, Bits, InstructionForm, Reach, UnitBy
from loadstone.isa.queues import units_of
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Factor, Sum, Term, factors

__all__ = ["instruction_source"]


def instruction_source(
    table: InstructionTable, form: InstructionForm, meant: bool
) -> Iterator[str]:
    """A function `step_FORM` that does one instruction: 0 where it is refused. meant: it has a
    meaning."""
    name = table.name
    yield f"static int step_{form.name}({name}_state *state, uint64_t *const *kept,"
    yield "    machine_clock *clock, const uint8_t *insn) {"
    yield f"  {name}_{form.name}_fields i;"
    yield "  touches t;"
    yield "  (void)state, (void)kept, (void)insn, (void)i;"
    yield "  t.count = 0;"
    yield "  t.port_cycles = 0;"
    for field in form.fields:
        yield from _field(field, table.places[form.name][field.name])
    yield from _read_registers(table, form)
    for term in form.never:
        yield f"  if ({_term(term)} != 0) return 0;"
    for reach in form.reaches:
        yield from _reach(table, form, reach)
    for keep in form.keeps:
        _, count = table.banks[keep.register]
        bank = list(table.banks).index(keep.register)
        yield f"  if ({_term(keep.index)} >= {count}u) return 0;"
        yield f"  kept[{bank}][{_term(keep.index)}] = i.{keep.field};"
    if meant:
        yield f"  {function_name(table, form)}(state, &i);"
        yield "  if (state->fault != 0) return 0;"
    yield from _set_registers(table, form)
    work = [f"{form.cycles}", *(_cycles(term, each) for term, each in form.per)]
    units = [units_of(table.forms).index(unit) for unit in form.units]
    unit = f"{units[0]}u"
    if isinstance(form.unit, UnitBy):
        yield f"  static const unsigned units[] = {{{', '.join(f'{k}u' for k in units)}}};"
        unit = f"units[i.{form.unit.field}]"
    yield f"  count_time(clock, {unit}, {' + '.join(work)}, &t);"
    yield "  return 1;"
    yield "}"


def _read_registers(table: InstructionTable, form: InstructionForm) -> Iterator[str]:
    numbers, memory = [one.name for one in table.registers], len(table.memories) + 1
    for name in table.read_registers[form.name]:
        k, kind = numbers.index(name), "int64_t" if table.by_register[name].signed else "uint64_t"
        yield f"  if (clock->known[{k}] == 0) return 0;"
        yield f"  i.{name} = ({kind})clock->registers[{k}];"
        yield f"  touch_register(&t, {memory}u, {k}u, 0);"


def _set_registers(table: InstructionTable, form: InstructionForm) -> Iterator[str]:
    """Limits of all, then all: what is refused sets nothing."""
    numbers, memory = [one.name for one in table.registers], len(table.memories) + 1
    for one in form.sets:
        bits = table.by_register[one.register].bits
        kind, suffix = ("int64_t", "") if bits.signed else ("uint64_t", "u")
        value = f"({kind})({_term(one.value)})"
        whole = Bits("", 64, signed=bits.signed)
        low = [f"{value} < {bits.lowest}{suffix}"] * (bits.lowest > whole.lowest)
        high = [f"{value} > {bits.highest}{suffix}"] * (bits.highest < whole.highest)
        if low or high:
            beyond = " || ".join([*low, *high])
            yield f"  if ({_term(one.when)} != 0 && ({beyond})) return 0;"
    for one in form.sets:
        k = numbers.index(one.register)
        yield f"  if ({_term(one.when)} != 0) {{"
        yield f"    clock->registers[{k}] = (uint64_t)({_term(one.value)});"
        yield f"    clock->known[{k}] = 1;"
        yield "  }"
        yield f"  touch_register(&t, {memory}u, {k}u, 1);"


def _field(field: Bits, at: int) -> Iterator[str]:
    value, name = f"bits(insn, {at}u, {field.width}u)", f"i.{field.name}"
    if field.address:
        yield f"  {name} = times({value}, {1 << field.shift}u);"
        return
    yield f"  {name} = {f'with_sign({value}, {field.width}u)' if field.signed else value};"
    whole = Bits("", field.width, signed=field.signed)
    suffix = "" if field.signed else "u"
    if field.lowest > whole.lowest:
        yield f"  if ({name} < {field.lowest}{suffix}) return 0;"
    if field.highest < whole.highest:
        yield f"  if ({name} > {field.highest}{suffix}) return 0;"


def _reach(table: InstructionTable, form: InstructionForm, reach: Reach) -> Iterator[str]:
    memories = {DRAM: 0, **{memory.name: k for k, memory in enumerate(table.memories, 1)}}
    rows = 0 if reach.memory == DRAM else table.by_memory[reach.memory].rows
    loops = [f"{{{_term(count)}, {_term(stride)}}}" for count, stride in reach.loops]
    yield "  {"
    yield f"    uint64_t loops[][2] = {{{', '.join(loops or ['{0, 0}'])}}};"
    if reach.first in table.banks:
        _, count = table.banks[str(reach.first)]
        yield f"    const uint64_t index = {_term(reach.index)};"
        yield f"    if (index >= {count}u) return 0;"
        first = f"kept[{list(table.banks).index(str(reach.first))}][index]"
    else:
        first = _term(reach.first)
    where = f"{memories[reach.memory]}u, {rows}u, {int(reach.writes)}"
    first = f"plus({first}, {_term(reach.offset)})"
    what = f"{where}, {first}, {_term(reach.extent)}, loops, {len(reach.loops)}u"
    yield f"    if (!reach(state, clock, &t, {what})) return 0;"
    yield "  }"


def _term(term: Term) -> str:
    product = ""
    for factor in factors(term):
        one = _sum(factor.sum) if factor.other is None else _comparison(factor, factor.other)
        product = f"times({product}, {one})" if product else one
    return product


def _comparison(factor: Factor, other: Sum) -> str:
    """Sums of a comparison stay far below 2^63: fields have 32 bits there."""
    left, right = (
        " + ".join([f"{one.number}", *(f"(int64_t)i.{name}" for name in one.fields)])
        for one in (factor.sum, other)
    )
    return f"(uint64_t)({left} {'<' if factor.below else '=='} {right})"


def _sum(one: Sum) -> str:
    found = f"i.{one.fields[0]}" if one.fields else f"UINT64_C({one.number})"
    for name in one.fields[1:]:
        found = f"plus({found}, i.{name})"
    return f"plus({found}, {one.number}u)" if one.fields and one.number else found


def _cycles(term: Term, each: int | Fraction) -> str:
    exact = Fraction(each)
    product = f"times({_term(term)}, {exact.numerator}u)"
    return f"(int64_t)(plus({product}, {exact.denominator - 1}u) / {exact.denominator}u)"
