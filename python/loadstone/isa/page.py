# SPDX-License-Identifier: Apache-2.0
"""An instruction set as a page for people.

In:   an InstructionTable.
Out:  Markdown: a table of fields for each instruction, what it touches, and where it works.
Next: a plug-in keeps it beside its code, as docs/isa.md is kept for VTA.
"""

from __future__ import annotations

from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Reach

__all__ = ["page"]


def page(table: InstructionTable) -> str:
    """The whole page."""
    lines = [
        f"# Instructions of {table.name}",
        "",
        f"Bit k is bit k % 8 of byte k / 8. Bits 0 to {table.opcode_bits - 1} are the opcode.",
        "",
        "| memory | rows | of |",
        "| --- | --- | --- |",
        *(f"| {m.name} | {m.rows} | {m.lanes} {m.dtype} |" for m in table.memories),
    ]
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
    if form.fields:
        lines += ["| bits | field | values | meaning |", "| --- | --- | --- | --- |"]
    for field in form.fields:
        at = table.places[form.name][field.name]
        bits = f"{at} to {at + field.width - 1}" if field.width > 1 else f"{at}"
        needs = f" From {field.needs_from} on: capability {field.needs}." if field.needs else ""
        lines.append(f"| {bits} | {field.name} | {_values(field)} | {field.doc}{needs} |")
    times = "".join(f" + {cycles} * {name}" for name, cycles in form.per)
    lines += ["", f"Unit {form.unit}, {form.cycles}{times} cycles."]
    lines += [f"It {_touches(reach)}." for reach in form.reaches]
    lines += [f"It sets {k.register}[{k.index}] to {k.field}." for k in form.keeps]
    return lines


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
    return f"{verb} {reach.extent} of {reach.memory} from {reach.first}{more}{loops} on{turns}"
