# SPDX-License-Identifier: Apache-2.0
"""Whether a program of any table may run: runtime/program.c's rules in Python, and its tokens'.

In:   a table; instructions; the regions of memory that they are for.
Out:  nothing, or a ProgramRefusal with the first instruction that may not run.
Next: tests hold the validators in C against it.

As in C this is an allow-list: an instruction of the table within the limits of its fields, nothing
that the table forbids, every access inside a region that permits it or inside a local memory, words
that were loaded from constants, no token that is missing or left over.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from loadstone.errors import EncodingError, LoweringError
from loadstone.isa.codec import TableInsn, check_fields
from loadstone.isa.follow import (
    Content,
    Follower,
    InDram,
    Placed,
    ProgramRefusal,
    Touched,
    no_content,
)
from loadstone.isa.program_tokens import Where, on_bus, places_of, plain_fields, prove_flow
from loadstone.isa.table import InstructionForm, InstructionTable

__all__ = ["ProgramMemory", "RegionLimits", "check_program"]


@dataclass(frozen=True)
class RegionLimits:
    """A region as a device sees it."""

    size_bytes: int
    reads: bool = True
    writes: bool = True


@dataclass(frozen=True)
class ProgramMemory:
    """What a program may touch. where: of addresses by name. content: of constants. begins: where
    each region begins, for address registers that begin so."""

    regions: Mapping[Hashable, RegionLimits]
    where: Where = on_bus
    content: Content = no_content
    begins: Sequence[Placed] = ()


def check_program(
    table: InstructionTable, insns: Sequence[TableInsn], memory: ProgramMemory
) -> None:
    """Raises ProgramRefusal for the first instruction that may not run, then for tokens."""
    follower = Follower(table, memory.content, memory.begins)
    ending = any(form.ends for form in table.forms)
    for number, insn in enumerate(insns):
        try:
            _check_end(table, insn, ending and number == len(insns) - 1)
            _check_one(table, check_fields(table, insn), insn, follower, memory)
        except EncodingError as error:
            raise ProgramRefusal("INSTRUCTION", f"instruction {number}: {error}", number) from None
        except ProgramRefusal as refusal:
            what = f"instruction {number}, {insn.name}: {refusal}"
            raise ProgramRefusal(refusal.status, what, number) from None
    if table.queues:
        try:
            prove_flow(table, insns)
        except LoweringError as error:
            raise ProgramRefusal("TOKEN", str(error), len(insns)) from None


def _check_end(table: InstructionTable, insn: TableInsn, last: bool) -> None:
    form = table.by_name.get(insn.name)
    if form is not None and form.ends != last:
        why = "ends a program, and is not its last" if form.ends else "does not end the program"
        raise ProgramRefusal("FINISH", why)


def _check_one(
    table: InstructionTable,
    form: InstructionForm,
    insn: TableInsn,
    follower: Follower,
    memory: ProgramMemory,
) -> None:
    fields, places = plain_fields(table, insn), places_of(table, insn, memory.where)
    for touched in (found := follower.touched(form, fields, places)):
        _check_inside(table, touched, memory)
    follower.done(form, fields, places, found)


def _check_inside(table: InstructionTable, touched: Touched, memory: ProgramMemory) -> None:
    touch, space = touched.touch, touched.touch.space
    if isinstance(space, InDram):
        region = memory.regions.get(space.region)
        permits = region is not None and (region.writes if touch.writes else region.reads)
        verb = "writes" if touch.writes else "reads"
        if region is None or not permits:
            raise ProgramRefusal("DRAM", f"{verb} region {space.region}, which it may not")
        if touch.first < 0 or touched.end > region.size_bytes:
            raise ProgramRefusal(
                "DRAM",
                f"{verb} bytes {touch.first} to {touched.end - 1} of region {space.region}, which "
                f"has {region.size_bytes}",
            )
    elif isinstance(space, str) and touched.end > table.by_memory[space].rows:
        rows = table.by_memory[space].rows
        raise ProgramRefusal("SRAM", f"row {touched.end - 1} of {space}, which has {rows}")
