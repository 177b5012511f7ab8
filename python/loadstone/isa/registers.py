# SPDX-License-Identifier: Apache-2.0
"""What the registers of a device hold while a program is followed.

In:   a table; the fields of one instruction after the other.
Out:  with each, the registers that it reads, as if they were fields; what they hold behind it.
Next: follow.py, machine.py and tile_order.py follow programs with it; runtime/program.c does the
      same in C.

A program begins with what registers have at reset, whatever the one before it left there; of the
others it knows nothing before it sets them. What an instruction reads is what it finds, and what it
sets is there behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from loadstone.errors import LoadstoneError, LoweringError
from loadstone.isa.form import InstructionForm
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import term_value

__all__ = ["SeenFields", "at_reset", "followed", "set_registers", "with_registers"]


class SeenFields(dict[str, int]):
    """Fields of an instruction by name, and the registers that it reads. What its meaning asks for
    besides is refused by name."""

    form = ""

    def __missing__(self, name: str) -> int:
        raise LoadstoneError(
            f"{self.form}: its meaning asks for {name}, which is no field of it and no register "
            "that it reads: name a register in its terms, or in `reads`"
        )


def at_reset(table: InstructionTable) -> dict[str, int]:
    """What registers hold when a program begins."""
    return {one.name: one.reset for one in table.registers if one.reset is not None}


def with_registers(
    table: InstructionTable,
    form: InstructionForm,
    fields: Mapping[str, int],
    held: Mapping[str, int],
) -> Mapping[str, int]:
    """The fields, and the registers that the instruction reads. held: by register that is set.
    Raises LoweringError for one that is not."""
    if not table.registers:
        return fields
    found = SeenFields(fields)
    found.form = form.name
    for name in table.read_registers[form.name]:
        if name not in held:
            raise LoweringError(f"reads register {name}, which is not set")
        found[name] = held[name]
    return found


def set_registers(
    table: InstructionTable,
    form: InstructionForm,
    values: Mapping[str, int],
    held: Mapping[str, int],
) -> dict[str, int]:
    """What registers hold behind an instruction. values: of with_registers. Raises LoweringError
    for a number outside a register's limits."""
    found = dict(held)
    for one in form.sets:
        if term_value(one.when, values) == 0:
            continue
        value, bits = values.get(str(one.value)), table.by_register[one.register].bits
        if value is None:
            value = term_value(one.value, values)
        if not bits.lowest <= value <= bits.highest:
            raise LoweringError(
                f"sets register {one.register} to {value}, which is not in [{bits.lowest}, "
                f"{bits.highest}]"
            )
        found[one.register] = value
    return found


def followed(
    table: InstructionTable, program: Iterable[tuple[InstructionForm, Mapping[str, int]]]
) -> Iterator[Mapping[str, int]]:
    """Of each instruction of a program, its fields and the registers that it reads. Raises
    LoweringError as above."""
    held = at_reset(table)
    for form, fields in program:
        values = with_registers(table, form, fields, held)
        yield values
        held = set_registers(table, form, values, held)
