# SPDX-License-Identifier: Apache-2.0
"""The text of docs/isa.md: the reference of the instruction set, in Markdown.

In:   vta/isa/spec.py, vta/isa/registers.py.
Out:  `page`.
Next: __main__.py writes it; people read it.
"""

from __future__ import annotations

from enum import IntFlag

from loadstone.vta.isa import registers, spec
from loadstone.vta.isa.spec import INSTRUCTIONS, MICRO_OPS, Field, layout
from tools.isa.c_names import BANNER, DEFAULT

__all__ = ["page"]


def page() -> str:
    """The reference in Markdown."""
    parts = [
        f"<!-- {BANNER} -->\n# Instruction set\n",
        "Bits are absolute, `start:width`, for the default configuration (1x16x16: lu=13, "
        "li=11, lw=10, la=11). "
        "Where a width is written with one of those names, it and the starts behind it in "
        "the same 64-bit word follow the device.\n",
    ]
    for insn in INSTRUCTIONS:
        needs = f" Needs capability `{_caps(insn.needs)}`." if insn.needs else ""
        parts.append(
            f"## {insn.name} (opcode "
            f"{insn.opcode.value})\n\n{insn.doc}{needs}\n\n```\n{insn.pseudo}\n```\n"
        )
        parts.append(_field_table(insn.fields))
    parts.append("## Micro-op (32 bits)\n")
    parts.append(_field_table(MICRO_OPS))
    parts.append("## Values\n")
    for cls in (spec.Memory, spec.AluOp, spec.Stage, spec.ConfigRegister, spec.Rounding):
        doc = " ".join((cls.__doc__ or "").split())
        parts.append(
            f"**{cls.__name__}**: " + ", ".join(f"{m.name} {m.value}" for m in cls) + f". {doc}\n"
        )
    defaults = ", ".join(f"{r.name} {v}" for r, v in spec.CONFIG_DEFAULTS.items())
    parts.append(f"Registers at the start of a program: {defaults}.\n")
    parts.append(
        "**Capability** bits: " + ", ".join(f"{_caps(c)} {int(c)}" for c in spec.Capability) + ".\n"
    )
    parts.append("## Register blocks\n")
    for block, table in registers.BLOCKS.items():
        rows = "\n".join(
            f"| 0x{r.offset:04X} | {r.name}{f'[{r.count}]' if r.count > 1 else ''} | "
            f"{r.access} | {r.doc} |"
            for r in table
        )
        parts.append(
            f"### {block}\n\n| offset | register | access | meaning |\n| --- | --- | --- | "
            f"--- |\n{rows}\n"
        )
    parts.append("STATUS: " + ", ".join(f"{n} {v}" for n, v in registers.STATES.items()) + ".\n")
    parts.append(
        "| ERROR | name | meaning |\n| --- | --- | --- |\n"
        + "\n".join(f"| {v} | {n} | {doc} |" for n, (v, doc) in registers.ERRORS.items())
        + "\n"
    )
    return "\n".join(parts)


def _caps(capability: IntFlag | None) -> str:
    return capability.name.lower() if capability is not None and capability.name else ""


def _field_table(fields: tuple[Field, ...]) -> str:
    rows = []
    for place in layout(fields, DEFAULT).values():
        f = place.field
        width = f"{place.width} = {f.width}" if isinstance(f.width, str) else str(f.width)
        kind = "signed" if f.signed else (f.enum.__name__ if f.enum else "")
        needs = f"; needs `{_caps(f.needs)}`" if f.needs else ""
        rows.append(
            f"| {place.start}:{place.width} | {f.name} | {width} | {kind} | {f.doc}{needs} |"
        )
    return (
        "| bits | field | width | kind | meaning |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )
