# SPDX-License-Identifier: Apache-2.0
"""A device whose instructions are short because registers say the rest, with opcodes where RISC-V
has them, and random programs for it.

In:   nothing.
Out:  its table; its accelerator, whose meanings are in Python or in C; random programs, and changed
      ones.
Next: test_registers.py, test_c_machine.py and others.

    config stride rows            for LOAD and STORE; rows may be kept
    mode   mode                   0, as every program begins, or 1: what ADD does
    place  row                    where LOAD, ADD and STORE work
    factor factor                 of ADD
    load   address row            pad[place + row + i] = dram[address + i * stride]
    add    rows                   pad[place + i] += factor in mode 1, -= in mode 0
    store  address                dram[address + i * stride] = pad[place + i]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from loadstone.isa.accelerator import Accelerator, Meaning, Port
from loadstone.isa.codec import At, TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.queues import chained
from loadstone.isa.state import Dram, DramWindow, MachineRun, MachineState
from loadstone.isa.table import (
    Bits,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    OpcodeBits,
    Reach,
    Register,
    Set,
)
from loadstone.runtime.c_meanings import c_meanings

ROWS, LANES = 24, 4
#: Bytes of what programs read, and of what they write; where these are on the bus.
SIZE = 200
BUS = {"out": 0x8000, "in": 0x1000}
REGISTERS = (
    Register("stride", 8, low=1, high=64),
    Register("rows", 5, low=1),
    Register("mode", 2, high=1, reset=0),
    Register("place", 6),
    Register("factor", 8, low=-100, signed=True),
)
_LINES = (("rows", "stride"),)
_SOME = (("rows", 1),)


def _form(name: str, funct3: int, funct7: int, *fields: Bits, **more: object) -> InstructionForm:
    codes = OpcodeBits(12, 3, funct3), OpcodeBits(25, 7, funct7)
    return InstructionForm(name, 0x7B, fields, codes=codes, **more)  # type: ignore[arg-type]


def table(*, tokens: bool = False) -> InstructionTable:
    """Every instruction has opcode 0x7B; two fields stand between it and the codes."""
    rows = Bits("count", 5, at=7)
    address = Bits("address", 32, at=32, address=True)
    offset = Bits("row", 5, at=7)
    pad = {"first": "(place+row)", "loops": _SOME, "writes": True}
    forms = (
        _form(
            "config",
            0,
            0,
            Bits("step", 8, at=15),
            rows,
            Bits("keep", 1, at=23),
            unit="in",
            sets=(Set("stride", "step"), Set("rows", "count", when="(keep=0)")),
        ),
        _form("mode", 0, 1, Bits("kind", 2, at=7), unit="core", sets=(Set("mode", "kind"),)),
        _form("place", 0, 2, rows, unit="in", sets=(Set("place", "(count+1)"),)),
        _form(
            "factor",
            0,
            3,
            Bits("by", 9, at=15, signed=True),
            unit="in",
            sets=(Set("factor", "by"),),
        ),
        _form(
            "load",
            1,
            0,
            offset,
            address,
            reaches=(Reach("dram", "address", _LINES, LANES), Reach("pad", **pad)),  # type: ignore[arg-type]
            never=("(place+row>20)",),
            unit="in",
            cycles=3,
        ),
        _form(
            "add",
            2,
            0,
            rows,
            reaches=(
                Reach("pad", "place", (("count", 1),)),
                Reach("pad", "place", (("count", 1),), writes=True),
            ),
            reads=("factor", "mode"),
            unit="core",
            per=(("count*(mode+1)", 2),),
        ),
        _form(
            "store",
            3,
            0,
            address,
            reaches=(
                Reach("pad", "place", _SOME),
                Reach("dram", "address", _LINES, LANES, writes=True),
            ),
            unit="out",
        ),
    )
    memories = (LocalMemory("pad", ROWS, LANES),)
    plain = InstructionTable("registered", forms, memories, opcode_bits=7, registers=REGISTERS)
    if not tokens:
        return plain
    queues = chained("in", "core", "out")
    wait = _form("wait", 7, 0, unit="core")
    return plain.ordered_by(queues, wait)


def _load(state: MachineState, i: Mapping[str, int]) -> None:
    rows = state.dram.read(i["address"], LANES, i["stride"], i["rows"])
    first = i["place"] + i["row"]
    state.memory["pad"][first : first + i["rows"]] = rows.view(np.int8)


def _add(state: MachineState, i: Mapping[str, int]) -> None:
    signed = i["factor"] if i["mode"] else -i["factor"]
    rows = state.memory["pad"][i["place"] : i["place"] + i["count"]]
    rows[:] = (rows.astype(int) + signed).astype(np.int8)


def _store(state: MachineState, i: Mapping[str, int]) -> None:
    rows = state.memory["pad"][i["place"] : i["place"] + i["rows"]]
    state.dram.write(i["address"], rows, i["stride"])


MEANING: Mapping[str, Meaning] = {"load": _load, "add": _add, "store": _store}
MEANING_IN_C = """
#include "registered_meaning.h"
#include <string.h>
void registered_mean_load(registered_state *state, const registered_load_fields *i) {
  uint64_t k;
  for (k = 0; k < i->rows; ++k) {
    const uint8_t *from = registered_read(state, i->address + k * i->stride, 4);
    if (from == NULL) return;
    memcpy(state->pad + 4 * (i->place + i->row + k), from, 4);
  }
}
void registered_mean_add(registered_state *state, const registered_add_fields *i) {
  const int64_t factor = i->mode ? i->factor : -i->factor;
  uint64_t k;
  for (k = 0; k < 4 * i->count; ++k) state->pad[4 * i->place + k] += (int8_t)factor;
}
void registered_mean_store(registered_state *state, const registered_store_fields *i) {
  uint64_t k;
  for (k = 0; k < i->rows; ++k) {
    uint8_t *to = registered_write(state, i->address + k * i->stride, 4);
    if (to == NULL) return;
    memcpy(to, state->pad + 4 * (i->place + k), 4);
  }
}
"""


def device(*, tokens: bool = False, in_c: Path | None = None) -> Accelerator:
    """Its accelerator. in_c: a folder for the meanings in C; None: in Python."""
    own, meaning = table(tokens=tokens), MEANING
    if in_c is not None:
        (in_c / "registered.c").write_text(MEANING_IN_C, encoding="utf-8")
        meaning = c_meanings(own, in_c / "registered.c")
    return Accelerator("registered", own, meaning, port=Port(), queue=4)


def random_program(seed: int, count: int) -> list[TableInsn]:
    """Sound instructions, but for tokens; addresses are in what is named `in` and `out`."""
    rng = np.random.default_rng(seed)

    def number(first: int, last: int) -> int:
        return int(rng.integers(first, last + 1))

    def config(keep: int) -> TableInsn:
        return TableInsn("config", {"step": number(4, 16), "count": number(1, 5), "keep": keep})

    def place() -> TableInsn:
        return TableInsn("place", {"count": number(0, 15)})

    def factor() -> TableInsn:
        return TableInsn("factor", {"by": number(-100, 127)})

    def load() -> TableInsn:
        return TableInsn("load", {"address": At("in", number(0, 131)), "row": number(0, 3)})

    def store() -> TableInsn:
        return TableInsn("store", {"address": At("out", number(0, 131))})

    insns = [config(0), place(), factor()]
    for _ in range(count):
        made = (
            load(),
            store(),
            TableInsn("add", {"count": number(0, 8)}),
            config(number(0, 1)),
            place(),
            factor(),
            TableInsn("mode", {"kind": number(0, 1)}),
        )
        insns.append(made[number(0, len(made) - 1)])
    return insns


def changed(insns: Sequence[TableInsn], rng: np.random.Generator) -> list[TableInsn]:
    """One field of one instruction is another, or an instruction is missing or elsewhere."""
    made, at = list(insns), int(rng.integers(len(insns)))
    bits = table().by_name[made[at].name].fields
    if rng.random() < 0.3 or not bits:
        moved = made.pop(at)
        if rng.random() < 0.5:
            made.insert(int(rng.integers(len(made))), moved)
        return made
    field = bits[int(rng.integers(len(bits)))]
    value: int | At = int(rng.integers(field.lowest, min(field.highest, 70) + 1))
    if field.address:
        value = At("out", int(rng.integers(SIZE + 20)))
    made[at] = TableInsn(made[at].name, {**made[at].fields, field.name: value})
    return made


def run(insns: Sequence[TableInsn], machine: TableMachine) -> MachineRun:
    """On a memory of its own. Raises MachineFault."""
    rng = np.random.default_rng(3)
    windows = [
        DramWindow(BUS[name], rng.integers(0, 256, SIZE, np.uint8), name == "out") for name in BUS
    ]
    machine.use(Dram(windows))
    plain = [
        TableInsn(
            insn.name,
            {
                name: BUS[value.symbol] + value.offset_bytes if isinstance(value, At) else value
                for name, value in insn.fields.items()
            },
        )
        for insn in insns
    ]
    return machine.run(0, len(plain), encode(machine.table, plain))


def dram_of(machine: TableMachine) -> bytes:
    """All that it can reach."""
    return b"".join(window.data.tobytes() for window in machine.state.dram.windows)


#: A program that sets all that LOAD, ADD and STORE read.
BEGIN = [
    TableInsn("config", {"step": 8, "count": 3}),
    TableInsn("place", {"count": 4}),
    TableInsn("factor", {"by": -7}),
]
LOAD = TableInsn("load", {"address": At("in"), "row": 2})
ADD = TableInsn("add", {"count": 3})
STORE = TableInsn("store", {"address": At("out", 16)})
