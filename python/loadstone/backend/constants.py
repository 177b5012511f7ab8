# SPDX-License-Identifier: Apache-2.0
"""What a plug-in puts into a program, beside its table: fields, and constants by how they are read.

In:   an instruction table, instructions with symbols, the constants by symbol.
Out:  nothing; EncodingError for a field's value, LoweringError for a constant whose numbers are
      others on the device.
Next: program.py asks, when a constant is named and when the program is made.

An artifact holds the bytes of a constant as the array has them. Where an instruction brings them
into one memory of the device, they must be elements of this memory: an int64 in its place would be
eight of int8. Bytes (int8, uint8) are taken as they are, since a back end may have packed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loadstone.errors import EncodingError, LoweringError
from loadstone.isa.codec import At, TableInsn, check_fields
from loadstone.isa.form import DRAM, Bits, InstructionForm
from loadstone.isa.table import InstructionTable
from loadstone.isa.tiles import InTile, TiledInsn
from loadstone.numerics import Array

__all__ = ["check_address", "check_constants", "check_emitted", "check_numbers"]


def check_emitted(table: InstructionTable, operator: str, insn: TableInsn | TiledInsn) -> None:
    """As check_fields, with rows of tiles still open. Raises EncodingError naming operator,
    instruction, field, value and limits."""
    form = table.by_name.get(insn.name)
    known = {} if form is None else {field.name: field.lowest for field in form.fields}
    tiles = [name for name, value in insn.fields.items() if isinstance(value, InTile)]
    if tiles and form is not None and form.never:  # what is forbidden may depend on the rows
        return
    fields: dict[str, int | At] = {
        name: known.get(name, 0) if isinstance(value, InTile) else value
        for name, value in insn.fields.items()
    }
    try:
        check_fields(table, TableInsn(insn.name, fields))
    except EncodingError as error:
        raise EncodingError(f"{operator}: {error}") from None


def check_address(segment: str, name: str, field: Bits, at: At, addend_bytes: int) -> None:
    """addend_bytes: of the address in its region. Raises LoweringError for one that the field
    cannot say, which the runtime would refuse wherever the region begins."""
    unit = 1 << field.shift
    if addend_bytes % unit:
        more = at.offset_bytes % unit
        why = f"its offset is {more} too much" if more else f"it is byte {addend_bytes} of a region"
        raise LoweringError(
            f"{segment}: {name}.{field.name}=@{at.symbol}+{at.offset_bytes} is no multiple of "
            f"{unit}: the field counts {unit} bytes (shift={field.shift}), and {why}"
        )


def check_numbers(name: str, value: object) -> None:
    """Raises LoweringError for what has no bytes of its own."""
    kind = np.asarray(value).dtype
    if kind.kind not in "iufb" and kind.name != "bfloat16":
        raise LoweringError(f"constant {name!r} is of type {kind}, not of numbers")


def check_constants(
    table: InstructionTable, insns: Sequence[TableInsn], constants: Mapping[str, Array]
) -> None:
    """constants: of any shape, by symbol. Raises LoweringError naming the instruction, the
    constant, its type, and the memory's."""
    seen = set()
    for insn in insns:
        for field, value in insn.fields.items():
            if isinstance(value, At) and value.symbol in constants:
                read = insn.name, field, value.symbol
                if read not in seen:
                    seen.add(read)
                    _check(table, *read, constants[value.symbol])


def _check(table: InstructionTable, name: str, field: str, symbol: str, constant: Array) -> None:
    memory = _target(table.by_name[name], field)
    if memory is None or constant.dtype.itemsize == 1:
        return
    wanted = np.dtype(table.by_memory[memory].dtype)
    if constant.dtype == wanted:
        return
    values = ""
    if wanted.kind in "iu" and constant.size:
        limits, worst = np.iinfo(wanted), constant.flat[int(np.argmax(np.abs(constant)))]
        fits = limits.min <= worst <= limits.max
        values = "" if fits else f" (its {worst} is not in [{limits.min}, {limits.max}])"
    raise LoweringError(
        f"{name}.{field}: constant {symbol!r} is of {constant.dtype}, and {memory}, into which "
        f"it is read, holds {wanted}{values}: give it as {wanted}"
    )


def _target(form: InstructionForm, field: str) -> str | None:
    """The one memory that an instruction fills from the address in a field."""
    if not any(r.memory == DRAM and not r.writes and r.first == field for r in form.reaches):
        return None
    written = {reach.memory for reach in form.reaches if reach.writes and reach.memory != DRAM}
    return written.pop() if len(written) == 1 else None
