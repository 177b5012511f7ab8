# SPDX-License-Identifier: Apache-2.0
"""isa/parameters.py: the same fields for devices of different sizes, as a plug-in's table has
them."""

from __future__ import annotations

from enum import IntEnum

import pytest

from loadstone.isa.codec import TableInsn, decode, encode
from loadstone.isa.form import InstructionForm
from loadstone.isa.parameters import Field, fields_of_device, layout, width_of
from loadstone.isa.table import InstructionTable


class Mode(IntEnum):
    COPY = 0
    ZERO = 1


FIELDS = (
    Field("mode", 1, "what", enum=Mode),
    Field("row", "rows", "first row"),
    Field("end", "rows+1", "one behind the last"),
    Field("gain", "max(rows,cols)", "factor", signed=True, at=32),
)


def table(rows: int, cols: int) -> InstructionTable:
    bits = fields_of_device(FIELDS, {"rows": rows, "cols": cols})
    return InstructionTable("sized", (InstructionForm("move", 1, bits),), opcode_bits=4)


@pytest.mark.parametrize(("rows", "cols"), [(3, 9), (11, 4)])
def test_the_table_places_fields_as_layout_does(rows: int, cols: int) -> None:
    sized = table(rows, cols)
    places = layout(FIELDS, {"rows": rows, "cols": cols}, first=4)
    assert sized.places["move"] == {name: place.start for name, place in places.items()}
    form = sized.by_name["move"]
    assert [bits.width for bits in form.fields] == [1, rows, rows + 1, max(rows, cols)]
    assert form.fields[0].values == ("copy", "zero")
    assert [(p.low, p.high) for p in places.values()][1:] == [
        (bits.lowest, bits.highest) for bits in form.fields[1:]
    ]
    insn = TableInsn(
        "move", {"mode": 1, "row": 2**rows - 1, "end": 2**rows, "gain": -(2 ** (rows - 1))}
    )
    assert decode(sized, encode(sized, [insn])) == [insn]


def test_widths_are_numbers_names_sums_and_the_larger_of_two() -> None:
    widths = {"a": 3, "b": 5}
    assert [width_of(width, widths) for width in (7, "a", "a+1", "max(a,b)")] == [7, 3, 4, 5]
