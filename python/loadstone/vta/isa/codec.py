# SPDX-License-Identifier: Apache-2.0
"""Bytes <-> fields, for whole streams (NumPy columns) and for single instructions (objects).

In:   the widths of a device's fields, and bytes or fields.
Out:  `decode_stream` / `encode_stream`: a Stream of columns per instruction kind;
      `decode` / `encode`: single objects such as `Load(memory_id=Memory.INP, x_size=4)`, whose repr
      evaluates back;
      the same for micro-ops.
Next: asm.py prints them, meaning/reference.py executes them, hw_sim reads the bytes.

Instructions are those of an InstructionTable, and its codec does the work: what is here is VTA's
own, Stream and typed objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from loadstone.errors import EncodingError
from loadstone.isa.codec import TableInsn, check_fields, decode_columns, encode_columns, packed
from loadstone.isa.columns import Column, put, take
from loadstone.numerics import Array
from loadstone.vta.isa.insn import (
    CLASSES,
    KINDS,
    Alu,
    Config,
    Depthwise,
    Finish,
    Gemm,
    Insn,
    Load,
    MicroOp,
    Store,
)
from loadstone.vta.isa.spec import (
    INSN_BYTES,
    MICRO_OPS,
    UOP_BYTES,
    BitField,
    FieldWidths,
    Opcode,
    layout,
    table_of,
)

__all__ = [
    "Alu",
    "Config",
    "Depthwise",
    "Finish",
    "Gemm",
    "Insn",
    "Load",
    "MicroOp",
    "Store",
    "Stream",
    "bit_fields",
    "decode",
    "decode_stream",
    "decode_uops",
    "encode",
    "encode_stream",
    "encode_uops",
]

Columns: TypeAlias = Mapping[str, Column]

_NO_ROWS: Column = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Stream:
    """A whole program as columns: `opcode[n]`, and per kind the positions and the fields of its
    instructions.

    `columns[Opcode.GEMM]["iter_out"][k]` belongs to instruction `index[Opcode.GEMM][k]`.
    """

    opcode: npt.NDArray[np.uint8]
    index: Mapping[Opcode, npt.NDArray[np.int64]]
    columns: Mapping[Opcode, Columns]

    def __len__(self) -> int:
        return len(self.opcode)

    def __iter__(self) -> Iterator[Insn]:
        """The instructions as objects, in order."""
        cursor = dict.fromkeys(self.index, 0)
        rows = {op: {k: v.tolist() for k, v in cols.items()} for op, cols in self.columns.items()}
        for raw in self.opcode.tolist():
            op = Opcode(raw)
            k = cursor[op]
            cursor[op] = k + 1
            yield _object(op, {name: col[k] for name, col in rows[op].items()})


@lru_cache(maxsize=64)
def _layouts(lu: int, li: int, lw: int, la: int) -> dict[Opcode, dict[str, BitField]]:
    widths = {"lu": lu, "li": li, "lw": lw, "la": la}
    return {op: layout(spec.fields, widths) for op, spec in KINDS.items()}


def bit_fields(device: FieldWidths) -> Mapping[Opcode, Mapping[str, BitField]]:
    """Address, width and limits of every field on one device."""
    return _layouts(**device.widths)


def _object(opcode: Opcode, values: Mapping[str, int]) -> Insn:
    typed: dict[str, int] = {}
    for field in KINDS[opcode].fields[1:]:
        value = int(values[field.name])
        typed[field.name] = (
            field.enum(value) if field.enum is not None and value in set(field.enum) else value
        )
    return CLASSES[opcode](**typed)


# --- whole streams --------------------------------------------------------------------------------
def decode_stream(data: bytes | npt.NDArray[np.uint8], device: FieldWidths) -> Stream:
    """Columns of a stream of 16-byte instructions. Bytes as uint8 may be of any shape. Raises
    EncodingError as isa/codec.py's decode_columns, naming the instruction."""
    found = decode_columns(table_of(device.widths), data)
    opcode = np.zeros(sum(len(rows) for rows, _ in found.values()), np.uint8)
    index, columns = {}, {}
    for op, spec in KINDS.items():
        rows, fields = found.get(spec.name, (_NO_ROWS, {}))
        opcode[rows] = op
        index[op] = rows
        columns[op] = {f.name: fields.get(f.name, _NO_ROWS) for f in spec.fields[1:]}
    return Stream(opcode, index, columns)


def encode_stream(stream: Stream | Iterable[Insn], device: FieldWidths) -> npt.NDArray[np.uint8]:
    """uint8 (N, 16). Raises EncodingError naming instruction, field, value and limit when a value
    does not fit."""
    columns = stream if isinstance(stream, Stream) else _to_columns(list(stream))
    table = table_of(device.widths)
    code = np.zeros((len(columns), INSN_BYTES // 8), "<u8")
    for op, rows in columns.index.items():
        if rows.size:
            made = encode_columns(table, KINDS[op].name, columns.columns[op], rows)
            code[rows] = made.view("<u8")
    return code.view(np.uint8)


def _does_not_fit(name: str, value: int, place: BitField) -> str:
    return f"{name}={value} does not fit {place.width} bits [{place.low}, {place.high}]"


def _to_columns(insns: Sequence[Insn]) -> Stream:
    opcode = np.array([i.SPEC.opcode for i in insns], np.uint8)
    index = {op: np.flatnonzero(opcode == op) for op in Opcode}
    columns: dict[Opcode, Columns] = {}
    for op, rows in index.items():
        names = [f.name for f in KINDS[op].fields[1:]]
        values = itemgetter(*names)
        own = chain.from_iterable(values(insns[row].__dict__) for row in rows.tolist())
        table = np.fromiter(own, np.int64, len(rows) * len(names)).reshape(len(rows), len(names))
        columns[op] = dict(zip(names, table.T, strict=True))
    return Stream(opcode, index, columns)


# --- single instructions --------------------------------------------------------------------------
def encode(insn: Insn, device: FieldWidths) -> bytes:
    """16 bytes. Raises EncodingError: `LOAD.y_pad_0=16 does not fit 4 bits [0, 15]`."""
    table, values = table_of(device.widths), insn.values()
    return packed(table, check_fields(table, TableInsn(insn.SPEC.name, values)), values)


def decode(data: bytes, device: FieldWidths) -> Insn:
    """The instruction in 16 bytes. Raises EncodingError like decode_stream."""
    if len(data) != INSN_BYTES:
        raise EncodingError(f"an instruction has {INSN_BYTES} bytes, not {len(data)}")
    return next(iter(decode_stream(bytes(data), device)))


# --- micro-ops ------------------------------------------------------------------------------------
def encode_uops(
    uops: npt.NDArray[np.int64] | Sequence[MicroOp], device: FieldWidths
) -> npt.NDArray[np.uint32]:
    """uint32 (N,) from an (N, 3) array of dst, src, wgt, or from MicroOp objects."""
    table = (
        np.array([(u.dst, u.src, u.wgt) for u in uops], np.int64).reshape(-1, 3)
        if not isinstance(uops, np.ndarray)
        else uops
    )
    result = np.zeros(len(table), np.uint64)
    for column, (name, place) in enumerate(layout(MICRO_OPS, device.widths).items()):
        values = table[:, column].astype(np.int64)
        bad = np.flatnonzero((values < place.low) | (values > place.high))
        if bad.size:
            raise EncodingError(
                f"micro-op {bad[0]}: " + _does_not_fit(name, int(values[bad[0]]), place)
            )
        put([result], place.start, place.width, values, fits=True)
    return result.astype("<u4")


def decode_uops(data: bytes | Array, device: FieldWidths) -> npt.NDArray[np.int64]:
    """(N, 3) array of dst, src, wgt."""
    raw = (
        np.frombuffer(data, np.uint8)
        if isinstance(data, bytes)
        else np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    )
    if raw.size % UOP_BYTES:
        raise EncodingError(f"micro-op table of {raw.size} bytes is not a multiple of {UOP_BYTES}")
    words = [raw.view("<u4").astype(np.uint64)]
    places = layout(MICRO_OPS, device.widths).values()
    return np.stack([take(words, p.start, p.width) for p in places], axis=1)
