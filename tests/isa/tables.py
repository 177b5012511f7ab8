# SPDX-License-Identifier: Apache-2.0
"""Instruction sets that the tests draw, and one by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import TableInsn
from loadstone.isa.state import MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach

NPU = InstructionTable(
    "npu",
    (
        InstructionForm(
            "copy",
            1,
            (
                Bits("address", 40, "where", address=True, shift=4),
                Bits("stride", 16, "bytes"),
                Bits("rows", 12, "rows", low=1),
                Bits("row", 12, "first row"),
            ),
            doc="Rows from memory.",
            reaches=(
                Reach("dram", "address", (("rows", "stride"),), 16),
                Reach("pad", "row", (("rows", 1),), writes=True),
            ),
            unit="dma",
            per=(("rows", 2),),
        ),
        InstructionForm(
            "store",
            2,
            (Bits("row", 12), Bits("address", 32, address=True), Bits("rows", 8, low=1)),
            reaches=(
                Reach("dram", "address", (("rows", 16),), 16, writes=True),
                Reach("pad", "row", (("rows", 1),)),
            ),
            unit="dma",
        ),
        InstructionForm(
            "work",
            7,
            (
                Bits("mode", 2, values=("add", "max", "relu")),
                Bits("gain", 9, signed=True, low=-200),
                Bits("wide", 64, signed=True, at=64),
                Bits("all", 64, at=133),
            ),
            size_bytes=64,
        ),
        InstructionForm("end", 255),
    ),
    (LocalMemory("pad", 64, 16),),
)


@st.composite
def fields(draw: st.DrawFn) -> tuple[Bits, ...]:
    """Some fields, within 60 bytes."""
    found, bits = [], 0
    for k in range(draw(st.integers(0, 9))):
        width, signed = draw(st.integers(1, 64)), draw(st.booleans())
        if bits + width > 480:
            break
        values: tuple[str, ...] = ()
        if not signed and width > 1 and draw(st.booleans()):
            values = tuple(f"v{n}" for n in range(draw(st.integers(1, min(6, 1 << width)))))
        found.append(Bits(f"f{k}", width, signed=signed, values=values))
        bits += width
    return tuple(found)


@st.composite
def tables(draw: st.DrawFn) -> InstructionTable:
    """A set of one to five instructions of 4 to 64 bytes."""
    count = draw(st.integers(1, 5))
    opcodes = draw(st.lists(st.integers(0, 255), min_size=count, max_size=count, unique=True))
    forms = []
    for k, opcode in enumerate(opcodes):
        chosen = draw(fields())
        least = -(-(8 + sum(field.width for field in chosen)) // 8)
        size = draw(st.integers(max(4, least), 64))
        forms.append(InstructionForm(f"i{k}", opcode, chosen, size))
    return InstructionTable("drawn", tuple(forms))


def random_insns(table: InstructionTable, count: int, seed: int) -> list[TableInsn]:
    """Instructions of every kind, with values of every size."""
    rng = np.random.default_rng(seed)

    def value(field: Bits) -> int:
        span = field.highest - field.lowest + 1
        drawn = int.from_bytes(rng.bytes(8), "little") >> int(rng.integers(64))
        return (
            (field.lowest, field.highest)[int(rng.integers(2))]
            if rng.random() < 0.2
            else field.lowest + drawn % span
        )

    forms = [table.forms[int(k)] for k in rng.integers(len(table.forms), size=count)]
    return [TableInsn(f.name, {field.name: value(field) for field in f.fields}) for f in forms]


# --- what the one by hand does --------------------------------------------------------------------
def _copy(state: MachineState, i: Mapping[str, int]) -> None:
    rows = state.dram.read(i["address"], 16, i["stride"], i["rows"])
    state.memory["pad"][i["row"] : i["row"] + i["rows"]] = rows.view(np.int8)


def _store(state: MachineState, i: Mapping[str, int]) -> None:
    state.dram.write(i["address"], state.memory["pad"][i["row"] : i["row"] + i["rows"]], 16)


def _work(state: MachineState, i: Mapping[str, int]) -> None:
    state.memory["pad"][:] += np.int8(i["mode"])


def _end(state: MachineState, i: Mapping[str, int]) -> None:
    pass


NPU_MEANING = {"copy": _copy, "store": _store, "work": _work, "end": _end}


def npu(**more: Any) -> Accelerator:
    """The device of NPU."""
    return Accelerator("npu", NPU, **{"meaning": NPU_MEANING, **more})
