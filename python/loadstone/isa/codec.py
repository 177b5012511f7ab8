# SPDX-License-Identifier: Apache-2.0
"""Instructions of a table as bytes and back: one at a time, and as columns of NumPy arrays.

In:   an InstructionTable; TableInsn objects, columns of field values, or bytes.
Out:  bytes; TableInsn objects; columns. EncodingError for what is no instruction.
Next: text.py prints and reads them; backend/program.py makes programs of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import EncodingError
from loadstone.isa.table import Bits, InstructionForm, InstructionTable

__all__ = [
    "At",
    "TableInsn",
    "check_fields",
    "decode",
    "decode_columns",
    "encode",
    "encode_columns",
    "instruction_offsets",
]


@dataclass(frozen=True)
class At:
    """The address of byte `offset_bytes` of what `symbol` names: a tensor, a constant, a region.
    Encoded as 0; a relocation says the rest."""

    symbol: str
    offset_bytes: int = 0


@dataclass(frozen=True)
class TableInsn:
    """One instruction. fields: those that are not named are 0."""

    name: str
    fields: Mapping[str, int | At]


def check_fields(table: InstructionTable, insn: TableInsn) -> InstructionForm:
    """The form of a sound instruction. Raises EncodingError naming the field, its value and its
    limits."""
    form = table.by_name.get(insn.name)
    if form is None:
        known = ", ".join(table.by_name)
        raise EncodingError(f"{table.name} has no instruction {insn.name!r}; it has {known}")
    fields = {field.name: field for field in form.fields}
    for name in insn.fields:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise EncodingError(f"{insn.name} has no field {name!r}; it has {known}")
    for field in form.fields:
        value = insn.fields.get(field.name, 0)
        if isinstance(value, At):
            if not field.address:
                raise EncodingError(f"{insn.name}: {field.name} is no address: give it a number")
        elif not field.lowest <= value <= field.highest:
            limits = f"[{field.lowest}, {field.highest}]"
            raise EncodingError(f"{insn.name}: {field.name}={value} is not in {limits}")
    return form


def encode(table: InstructionTable, insns: Sequence[TableInsn]) -> bytes:
    """The bytes of a program; addresses that are not numbers are left 0. Raises EncodingError."""
    out = bytearray()
    for insn in insns:
        form = check_fields(table, insn)
        word = form.opcode
        for field in form.fields:
            value = insn.fields.get(field.name, 0)
            if not isinstance(value, At):
                mask = (1 << field.width) - 1
                word |= (int(value) & mask) << table.places[form.name][field.name]
        out += word.to_bytes(table.sizes[form.name], "little")
    return bytes(out)


def _walk(table: InstructionTable, code: bytes) -> Iterator[tuple[int, InstructionForm]]:
    """(offset, form) of each instruction. Raises EncodingError for what is none."""
    mask, at = (1 << table.opcode_bits) - 1, 0
    while at < len(code):
        opcode = int.from_bytes(code[at : at + 4], "little") & mask
        form = table.by_opcode.get(opcode)
        if form is None:
            raise EncodingError(f"byte {at}: {table.name} has no opcode {opcode}")
        size = table.sizes[form.name]
        if at + size > len(code):
            raise EncodingError(f"byte {at}: {form.name} has {size} bytes, {len(code) - at} left")
        yield at, form
        at += size


def instruction_offsets(table: InstructionTable, code: bytes) -> NDArray[np.int64]:
    """Where each instruction of a program begins: (instructions,), in bytes. Raises
    EncodingError."""
    return np.fromiter((at for at, _ in _walk(table, code)), np.int64)


def decode(table: InstructionTable, code: bytes) -> list[TableInsn]:
    """The instructions of a program. Raises EncodingError for an unknown opcode, a value outside
    its limits, or a reserved bit."""
    insns = []
    for at, form in _walk(table, code):
        word = int.from_bytes(code[at : at + table.sizes[form.name]], "little")
        fields: dict[str, int | At] = {}
        left = word >> table.opcode_bits << table.opcode_bits
        for field in form.fields:
            place = table.places[form.name][field.name]
            raw = word >> place & (1 << field.width) - 1
            left &= ~(((1 << field.width) - 1) << place)
            fields[field.name] = _signed(raw, field)
        insn = TableInsn(form.name, fields)
        try:
            if left:
                raise EncodingError(f"{form.name}: reserved bits are set: {left:#x}")
            check_fields(table, insn)
        except EncodingError as error:
            raise EncodingError(f"byte {at}: {error}") from None
        insns.append(insn)
    return insns


def _signed(raw: int, field: Bits) -> int:
    return raw - (1 << field.width) if field.signed and raw >> field.width - 1 else raw


# --- columns --------------------------------------------------------------------------------------
def encode_columns(
    table: InstructionTable, name: str, columns: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.uint8]:
    """Many instructions of one kind: (instructions, size_bytes). columns: by field, all of one
    length, int64 (uint64 for 64 bits without a sign). Raises EncodingError."""
    form = table.by_name[name]
    count = max((len(column) for column in columns.values()), default=0)
    bits = np.zeros((count, 8 * table.sizes[name]), np.uint8)
    _put(bits, 0, table.opcode_bits, np.full(count, form.opcode, np.uint64))
    for field in form.fields:
        column = np.asarray(columns.get(field.name, np.zeros(count, np.int64)))
        bad = (column < field.lowest) | (column > field.highest)
        if bad.any():
            value = int(column[bad][0])
            limits = f"[{field.lowest}, {field.highest}]"
            raise EncodingError(f"{name}: {field.name}={value} is not in {limits}")
        _put(bits, table.places[name][field.name], field.width, column.astype(np.uint64))
    return np.packbits(bits, axis=1, bitorder="little")


def _put(bits: NDArray[np.uint8], at: int, width: int, values: NDArray[np.uint64]) -> None:
    little = values.astype("<u8").view(np.uint8).reshape(len(values), 8)
    bits[:, at : at + width] = np.unpackbits(little, axis=1, bitorder="little")[:, :width]


def decode_columns(
    table: InstructionTable, code: bytes
) -> Mapping[str, tuple[NDArray[np.int64], Mapping[str, NDArray[np.int64]]]]:
    """By instruction that occurs: positions in the program, and the values of each field, both of
    shape (instructions of that kind,). Limits are not looked at. Raises EncodingError for an
    unknown opcode."""
    offsets: dict[str, list[int]] = {}
    positions: dict[str, list[int]] = {}
    for position, (at, form) in enumerate(_walk(table, code)):
        offsets.setdefault(form.name, []).append(at)
        positions.setdefault(form.name, []).append(position)
    data, found = np.frombuffer(code, np.uint8), {}
    for name, begins in offsets.items():
        rows = data[np.array(begins)[:, None] + np.arange(table.sizes[name])]
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        columns = {
            field.name: _get(bits, table.places[name][field.name], field)
            for field in table.by_name[name].fields
        }
        found[name] = (np.array(positions[name]), columns)
    return found


def _get(bits: NDArray[np.uint8], at: int, field: Bits) -> NDArray[np.int64]:
    wide = np.zeros((len(bits), 64), np.uint8)
    wide[:, : field.width] = bits[:, at : at + field.width]
    if field.signed:
        wide[:, field.width :] = bits[:, at + field.width - 1, None]
    values = np.packbits(wide, axis=1, bitorder="little").view("<u8")[:, 0]
    return values if field.width == 64 and not field.signed else values.astype(np.int64)
