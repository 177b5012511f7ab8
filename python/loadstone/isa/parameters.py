# SPDX-License-Identifier: Apache-2.0
"""Instructions whose fields are as wide as a device's parameters say.

In:   fields whose width is a number, a name, or a sum of such; the parameters of one device.
Out:  each field's place; an InstructionTable of that device.
Next: vta/isa/spec.py states VTA's instructions so; the generated C computes the same widths.

    Field("row", "log_rows+1")     # with {"log_rows": 11}: 12 bits
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TypeAlias

from loadstone.isa.form import Bits

__all__ = ["BitField", "Field", "Width", "Widths", "fields_of_device", "layout", "width_of"]

#: A number, a name, "a+b+1", or "max(a,b)".
Width: TypeAlias = int | str
#: What the names are on one device.
Widths: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Field:
    """One field of an instruction: `width` in bits is a number or a sum such as "lu+1" or
    "max(la,li)".

    `at` is the absolute bit where it begins; without it the field follows its predecessor. An
    `enum` has the values
    0, 1, 2 ... and others do not decode. `needs` names the capability without which the field must
    be 0.
    """

    name: str
    width: Width
    doc: str
    signed: bool = False
    enum: type[IntEnum] | None = None
    at: int | None = None
    needs: IntFlag | None = None

    def bits(self, widths: Widths) -> Bits:
        """The field of one device."""
        names = tuple(value.name.lower() for value in self.enum or ())
        width = width_of(self.width, widths)
        needs = (self.needs.name or "").lower() if self.needs is not None else ""
        return Bits(self.name, width, self.doc, self.signed, self.at, names, needs=needs)


@dataclass(frozen=True)
class BitField:
    """A field with its place: absolute bits [start, start+width) of the instruction or micro-op."""

    field: Field
    start: int
    width: int

    @property
    def low(self) -> int:
        """Smallest value that fits."""
        return -(1 << (self.width - 1)) if self.field.signed else 0

    @property
    def high(self) -> int:
        """Largest value that fits."""
        return (1 << (self.width - self.field.signed)) - 1


def width_of(width: Width, widths: Widths) -> int:
    """Bits of a field for one device: a number, a name, a sum, or a max of two names."""
    if isinstance(width, int):
        return width
    if width.startswith("max("):
        return max(widths[name] for name in width[4:-1].split(","))
    return sum(int(term) if term.isdigit() else widths[term] for term in width.split("+"))


def layout(fields: Iterable[Field], widths: Widths, first: int = 0) -> dict[str, BitField]:
    """Places `fields` for a device with these widths, by name, in order, from bit `first` on."""
    placed: dict[str, BitField] = {}
    position = first
    for field in fields:
        position = position if field.at is None else field.at
        width = width_of(field.width, widths)
        placed[field.name] = BitField(field, position, width)
        position += width
    return placed


def fields_of_device(fields: Sequence[Field], widths: Widths) -> tuple[Bits, ...]:
    """The fields as an InstructionForm takes them."""
    return tuple(field.bits(widths) for field in fields)
