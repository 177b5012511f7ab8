# SPDX-License-Identifier: Apache-2.0
"""An instruction set as a page for people.

In:   an InstructionTable.
Out:  Markdown: a table of fields for each instruction, what it touches, and where it works.
Next: a plug-in keeps it beside its code, as docs/isa.md is kept for VTA.
"""

from __future__ import annotations

from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Reach, Register, UnitBy

__all__ = ["page"]


def page(table: InstructionTable) -> str:
    """The whole page."""
    lines = [
        f"# Instructions of {table.name}",
        "",
        "Bit k is bit k % 8 of byte k / 8. "
        f"Bits {_bits(table.opcode_at, table.opcode_bits)} are the opcode.",
        "",
        "| memory | rows | of |",
        "| --- | --- | --- |",
        *(f"| {m.name} | {m.rows} | {m.lanes} {m.dtype} |" for m in table.memories),
    ]
    for memory in table.memories:
        if memory.fields:
            lines += ["", f"Words of {memory.name}:", "", "| bits | field | meaning |"]
            lines += ["| --- | --- | --- |"]
        for field in memory.fields:
            at, width = table.word_fields[memory.name][field.name]
            lines.append(f"| {_bits(at, width)} | {field.name} | {field.doc} |")
    for register in table.address_registers:
        begins = "begins at a region" if register.regions else "is set by instructions"
        lines += ["", f"Address register {register.name}, {register.count} of them: {begins}."]
    lines += [line for one in table.registers for line in ("", _register(one))]
    if table.queues:
        lines += ["", "| tokens from | to | given by | taken by | at most |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        lines += [
            f"| {q.pusher} | {q.popper} | {q.push} | {q.pop} | {q.most} |" for q in table.queues
        ]
    if table.lacks:
        lines += ["", "| this device lacks | for want of |", "| --- | --- |"]
        lines += [f"| {what} | {capability} |" for what, capability in table.lacks]
    for form in table.forms:
        lines += _section(table, form)
    return "\n".join([*lines, ""])


def _section(table: InstructionTable, form: InstructionForm) -> list[str]:
    """One instruction."""
    lines = ["", f"## {form.name}: opcode {form.opcode}, {table.sizes[form.name]} bytes", ""]
    lines += [form.doc, ""] if form.doc else []
    lines += [f"Needs capability {form.needs}.", ""] if form.needs else []
    if form.codes:
        codes = ", ".join(f"bits {_bits(c.at, c.width)} are {c.value}" for c in form.codes)
        lines += [f"{codes[0].upper()}{codes[1:]}.", ""]
    if form.fields:
        lines += ["| bits | field | values | meaning |", "| --- | --- | --- | --- |"]
    for field in form.fields:
        at = table.places[form.name][field.name]
        bits = _bits(at, field.width)
        needs = f" From {field.needs_from} on: capability {field.needs}." if field.needs else ""
        lines.append(f"| {bits} | {field.name} | {_values(field)} | {field.doc}{needs} |")
    times = "".join(f" + {cycles} * {name}" for name, cycles in form.per)
    lines += ["", f"{_unit(form.unit)}, {form.cycles}{times} cycles.", *_does(table, form)]
    return lines


def _does(table: InstructionTable, form: InstructionForm) -> list[str]:
    """What it touches, sets and forbids."""
    lines = ["It ends a program, when all that comes before is done."] if form.ends else []
    lines += [f"It is no instruction where {term} is not 0." for term in form.never]
    lines += [f"It {_touches(reach)}." for reach in form.reaches]
    lines += [f"It sets {k.register}[{k.index}] to {k.field}." for k in form.keeps]
    read = table.read_registers[form.name]
    lines += [f"It reads {', '.join(read)}."] if read else []
    for one in form.sets:
        when = f" where {one.when} is not 0" if one.when != 1 else ""
        lines.append(f"It sets {one.register} to {one.value}{when}.")
    return lines


def _register(one: Register) -> str:
    sign = " with a sign" if one.signed else ""
    begin = "set before it is read"
    if one.reset is not None:
        begin = f"every program begins with {one.reset}"
    limits = f"{one.bits.lowest} to {one.bits.highest}"
    doc = f" {one.doc}" if one.doc else ""
    return f"Register {one.name}, {one.width} bits{sign}, {limits}: {begin}.{doc}"


def _bits(at: int, width: int) -> str:
    return f"{at} to {at + width - 1}" if width > 1 else f"{at}"


def _unit(unit: str | UnitBy) -> str:
    if isinstance(unit, str):
        return f"Unit {unit}"
    chosen = ", ".join(f"{name} for {k}" for k, name in enumerate(unit.units))
    return f"Unit by {unit.field} ({chosen})"


def _values(field: Bits) -> str:
    if field.values:
        return ", ".join(f"{k} {field.values[k]}" for k in range(field.highest + 1))
    if field.address:
        return "address" + (f" / {1 << field.shift}" if field.shift else "")
    return f"{field.lowest} to {field.highest}"


def _touches(reach: Reach) -> str:
    loops = "".join(f" + i{k} * {stride}" for k, (_, stride) in enumerate(reach.loops))
    turns = "".join(f" for i{k} < {count}" for k, (count, _) in enumerate(reach.loops))
    more = (f"[{reach.index}]" if reach.index else "") + (
        f" + {reach.offset}" if reach.offset else ""
    )
    verb = "writes" if reach.writes else "reads"
    first = str(reach.first)
    if reach.through is not None:
        words = reach.through
        first = f"{words.memory}[w].{first}"
        turns = f" for {words.begin} <= w < {words.end}{turns}"
    return f"{verb} {reach.extent} of {reach.memory} from {first}{more}{loops} on{turns}"
