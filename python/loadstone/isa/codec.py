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
from loadstone.isa.columns import Column, Words, put, reserved_bits, take, words_of
from loadstone.isa.table import MAX_INSN_BYTES, Bits, InstructionForm, InstructionTable
from loadstone.isa.terms import fields_of

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
            raise EncodingError(_refusal(table, form, field, value))
    if form.never:
        _check_never(form, insn)
    return form


def _check_never(form: InstructionForm, insn: TableInsn) -> None:
    """Raises EncodingError for what the table forbids. Addresses by name stand for 0."""
    said = {f.name: insn.fields.get(f.name, 0) for f in form.fields}
    values = {name: 0 if isinstance(value, At) else value for name, value in said.items()}
    term = form.forbidden(values)
    if term is not None:
        found = ", ".join(f"{name}={values[name]}" for name in fields_of(term))
        raise EncodingError(f"{form.name}: {found}: it is no instruction where {term} is not 0")


def _refusal(table: InstructionTable, form: InstructionForm, field: Bits, value: int) -> str:
    """What is wrong with a value of a field."""
    what, lowest, highest = f"{form.name}.{field.name}", field.lowest, field.highest
    why = table.why_not(what)
    if field.values:
        known = ", ".join(f"{name} {k}" for k, name in enumerate(field.values[: highest + 1]))
        return f"{what}={value} is unknown; known are {known}{why}"
    plain = field.low is None and field.high is None
    limits = f"does not fit {field.width} bits" if plain else "is not in"
    return f"{what}={value} {limits} [{lowest}, {highest}]{why}"


def _unknown_opcode(table: InstructionTable, number: int, first: int) -> str:
    """first: the first four bytes of the instruction."""
    opcode = first >> table.opcode_at & (1 << table.opcode_bits) - 1
    known = ", ".join(f"{form.name} {form.opcode}" for form in table.forms)
    shared = any(form.codes for form in table.forms if form.opcode == opcode)
    more = ", with the codes that it has," if shared else ""
    return f"instruction {number}: opcode {opcode}{more} is unknown; known are {known}"


def encode(table: InstructionTable, insns: Sequence[TableInsn]) -> bytes:
    """The bytes of a program; addresses that are not numbers are left 0. Raises EncodingError:
    `copy.rows=4096 is not in [1, 4095]`."""
    out = bytearray()
    for insn in insns:
        out += packed(table, check_fields(table, insn), insn.fields)
    return bytes(out)


def packed(table: InstructionTable, form: InstructionForm, fields: Mapping[str, int | At]) -> bytes:
    """The bytes of one instruction whose fields were checked; what is not named is 0."""
    word = table.opcodes[form.name][1]
    for name, start, mask in table.packing[form.name]:
        value = fields.get(name, 0)
        if not isinstance(value, At):
            word |= (value & mask) << start
    return int(word).to_bytes(table.sizes[form.name], "little")


def _walk(table: InstructionTable, code: bytes) -> Iterator[tuple[int, InstructionForm]]:
    """(offset, form) of each instruction. Raises EncodingError for what is none."""
    at = number = 0
    while at < len(code):
        form = table.form_at(code, at)
        if form is None:
            first = int.from_bytes(code[at : at + 4], "little")
            raise EncodingError(_unknown_opcode(table, number, first))
        size = table.sizes[form.name]
        if at + size > len(code):
            raise EncodingError(
                f"instruction {number}: {form.name} has {size} bytes, {len(code) - at} left"
            )
        yield at, form
        at, number = at + size, number + 1


def instruction_offsets(table: InstructionTable, code: bytes) -> NDArray[np.int64]:
    """Where each instruction of a program begins: (instructions,), in bytes. Raises
    EncodingError."""
    return np.fromiter((at for at, _ in _walk(table, code)), np.int64)


def decode(table: InstructionTable, code: bytes) -> list[TableInsn]:
    """The instructions of a program. Raises EncodingError as decode_columns."""
    insns: list[TableInsn | None] = [None] * len(instruction_offsets(table, code))
    for name, (positions, columns) in decode_columns(table, code).items():
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        values = rows if columns else iter([()] * len(positions))
        for position, row in zip(positions.tolist(), values, strict=True):
            insns[position] = TableInsn(name, dict(zip(columns, row, strict=True)))
    return [insn for insn in insns if insn is not None]


# --- columns --------------------------------------------------------------------------------------
def encode_columns(
    table: InstructionTable,
    name: str,
    columns: Mapping[str, Column],
    positions: NDArray[np.int64] | None = None,
) -> NDArray[np.uint8]:
    """Many instructions of one kind: (instructions, size_bytes). columns: by field, all of one
    length, int64 (uint64 for 64 bits without a sign). positions: (instructions,), the numbers that
    these have in their program, for messages; one behind the other where there are none. Raises
    EncodingError."""
    form = table.by_name[name]
    lengths = [len(column) for column in columns.values()]
    count = max(lengths, default=0) if positions is None else len(positions)
    numbers = np.arange(count) if positions is None else positions
    size = table.sizes[name]
    words = [np.zeros(count, np.uint64) for _ in range(-(-size // 8))]
    for k, value in enumerate(_by_word(table.opcodes[name][1])[: len(words)]):
        words[k] |= value
    for field in form.fields:
        if field.name not in columns:
            if field.lowest > 0:
                raise EncodingError(f"instruction {numbers[0]}: {_refusal(table, form, field, 0)}")
            continue
        column = np.asarray(columns[field.name])
        _check_column(table, form, field, column, numbers)
        place, fits = table.places[name][field.name], not field.signed
        put(words, place, field.width, column, fits=fits)
    return np.stack(words, axis=1).astype("<u8", copy=False).view(np.uint8)[:, :size]


def decode_columns(
    table: InstructionTable, code: bytes | NDArray[np.uint8]
) -> Mapping[str, tuple[NDArray[np.int64], Mapping[str, Column]]]:
    """By instruction that occurs: positions in the program, and the values of each field, both of
    shape (instructions of that kind,). code: uint8 of any shape. Raises EncodingError for an
    unknown opcode, a value outside its limits, or a reserved bit."""
    data = (
        np.frombuffer(code, np.uint8)
        if isinstance(code, bytes)
        else np.ascontiguousarray(code, np.uint8).reshape(-1)
    )
    found = {}
    for name, (positions, words) in _words_by_form(table, data).items():
        form, places = table.by_name[name], table.places[name]
        columns = {}
        for field in form.fields:
            column = columns[field.name] = _column(words, places[field.name], field)
            if _may_exceed(field):
                _check_column(table, form, field, column, positions)
        _check_reserved(table, form, words, positions)
        found[name] = (positions, columns)
    return found


def _words_by_form(
    table: InstructionTable, data: NDArray[np.uint8]
) -> Mapping[str, tuple[NDArray[np.int64], Sequence[Words]]]:
    """By instruction that occurs: positions in the program, and the words of these."""
    sizes = set(table.sizes.values())
    if len(sizes) > 1:
        return _walked_words(table, data)
    found: dict[str, tuple[NDArray[np.int64], Sequence[Words]]] = {}
    (size,) = sizes
    if data.size % size:
        raise EncodingError(
            f"instruction stream of {data.size} bytes is no multiple of {size}: cut after "
            f"{data.size // size} instructions"
        )
    words = words_of(data.reshape(-1, size))
    known = np.zeros(len(words[0]), np.bool_)
    for form in table.forms:
        is_form = np.ones(len(known), np.bool_)
        for word, mask, value in zip(words, *map(_by_word, table.opcodes[form.name]), strict=False):
            if mask:
                is_form &= word & mask == value
        positions = np.flatnonzero(is_form)
        known |= is_form
        if positions.size:
            found[form.name] = positions, [word[positions] for word in words]
    if not known.all():
        number = int(np.flatnonzero(~known)[0])
        raise EncodingError(_unknown_opcode(table, number, int(words[0][number]) & 0xFFFFFFFF))
    return found


def _by_word(bits: int) -> list[np.uint64]:
    """Bits of an instruction as words of 64."""
    whole = bits.to_bytes(MAX_INSN_BYTES, "little")
    return [np.uint64(int.from_bytes(whole[at : at + 8], "little")) for at in range(0, 64, 8)]


def _walked_words(
    table: InstructionTable, data: NDArray[np.uint8]
) -> Mapping[str, tuple[NDArray[np.int64], Sequence[Words]]]:
    """Of instructions of several lengths."""
    walked = list(_walk(table, data.tobytes()))
    found = {}
    for form in table.forms:
        positions = np.array([k for k, (_, each) in enumerate(walked) if each is form], np.int64)
        if positions.size:
            begins = np.array([walked[k][0] for k in positions.tolist()], np.int64)
            rows = begins[:, None] + np.arange(table.sizes[form.name])
            found[form.name] = positions, words_of(data[rows])
    return found


def _column(words: Sequence[Words], at: int, field: Bits) -> Column:
    values = take(words, at, field.width, signed=field.signed)
    return values.view(np.uint64) if field.width == 64 and not field.signed else values


def _may_exceed(field: Bits) -> bool:
    """Whether its bits hold values that it may not have."""
    held = Bits("", field.width, signed=field.signed)
    return (field.lowest, field.highest) != (held.lowest, held.highest)


def _check_column(
    table: InstructionTable,
    form: InstructionForm,
    field: Bits,
    column: Column,
    numbers: NDArray[np.int64],
) -> None:
    bad = np.flatnonzero((column < field.lowest) | (column > field.highest))
    if bad.size:
        number, value = int(numbers[bad[0]]), int(column[bad[0]])
        raise EncodingError(f"instruction {number}: {_refusal(table, form, field, value)}")


def _check_reserved(
    table: InstructionTable,
    form: InstructionForm,
    words: Sequence[Words],
    numbers: NDArray[np.int64],
) -> None:
    places = table.places[form.name]
    taken = [(places[f.name], f.width) for f in form.fields]
    taken += [(table.opcode_at, table.opcode_bits), *((c.at, c.width) for c in form.codes)]
    for k, mask in enumerate(reserved_bits(taken, table.sizes[form.name])):
        bad = np.flatnonzero(words[k] & np.uint64(mask)) if mask else numbers[:0]
        if bad.size:
            first = int(words[k][bad[0]]) & mask
            bit = 64 * k + (first & -first).bit_length() - 1
            raise EncodingError(
                f"instruction {numbers[bad[0]]}: {form.name} has reserved bit {bit} set; it must "
                "be 0"
            )
