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
from loadstone.isa.columns import Column, Words, put, take, words_of
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
    "packed",
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
        why = table.why_not(insn.name) or f"; it has {known}"
        raise EncodingError(f"{table.name} has no instruction {insn.name!r}{why}")
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
            limits = (
                f"[{field.lowest}, {field.highest}]{table.why_not(f'{insn.name}.{field.name}')}"
            )
            raise EncodingError(f"{insn.name}: {field.name}={value} is not in {limits}")
    return form


def encode(table: InstructionTable, insns: Sequence[TableInsn]) -> bytes:
    """The bytes of a program; addresses that are not numbers are left 0. Raises EncodingError."""
    out = bytearray()
    for insn in insns:
        out += packed(table, check_fields(table, insn), insn.fields)
    return bytes(out)


def packed(table: InstructionTable, form: InstructionForm, fields: Mapping[str, int | At]) -> bytes:
    """The bytes of one instruction whose fields were checked; what is not named is 0."""
    word = form.opcode
    for name, start, mask in table.packing[form.name]:
        value = fields.get(name, 0)
        if not isinstance(value, At):
            word |= (value & mask) << start
    return int(word).to_bytes(table.sizes[form.name], "little")


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
    table: InstructionTable, name: str, columns: Mapping[str, Column]
) -> NDArray[np.uint8]:
    """Many instructions of one kind: (instructions, size_bytes). columns: by field, all of one
    length, int64 (uint64 for 64 bits without a sign). Raises EncodingError."""
    form = table.by_name[name]
    count = max((len(column) for column in columns.values()), default=0)
    size = table.sizes[name]
    packed = np.zeros((count, -(-size // 8)), "<u8")
    words = [packed[:, k] for k in range(packed.shape[1])]
    put(words, 0, table.opcode_bits, np.full(count, form.opcode, np.int64))
    for field in form.fields:
        column = np.asarray(columns.get(field.name, np.zeros(count, np.int64)))
        bad = (column < field.lowest) | (column > field.highest)
        if bad.any():
            value = int(column[bad][0])
            limits = f"[{field.lowest}, {field.highest}]{table.why_not(f'{name}.{field.name}')}"
            raise EncodingError(f"{name}: {field.name}={value} is not in {limits}")
        place, fits = table.places[name][field.name], not field.signed
        put(words, place, field.width, column, fits=fits)
    return packed.view(np.uint8)[:, :size]


def decode_columns(
    table: InstructionTable, code: bytes
) -> Mapping[str, tuple[NDArray[np.int64], Mapping[str, Column]]]:
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
        words = words_of(data[np.array(begins)[:, None] + np.arange(table.sizes[name])])
        columns = {
            field.name: _column(words, table.places[name][field.name], field)
            for field in table.by_name[name].fields
        }
        found[name] = (np.array(positions[name]), columns)
    return found


def _column(words: Sequence[Words], at: int, field: Bits) -> Column:
    values = take(words, at, field.width, signed=field.signed)
    return values.view(np.uint64) if field.width == 64 and not field.signed else values
