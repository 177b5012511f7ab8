# SPDX-License-Identifier: Apache-2.0
"""A device that gathers rows through index words, and random programs for it.

In:   nothing.
Out:  its table, with tokens and without; its accelerator; random programs, whose address register
      and words are set before they are used; what C and Python say of one.
Next: test_follow.py, test_program_check.py and others.

It has all that a table can say besides fields and loops: a memory that a field chooses, rows of
padding, words that are gone through, an address register beside queues of tokens, a unit that a
field chooses, an instruction that ends the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.queues import chained
from loadstone.isa.state import MachineState
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
    UnitBy,
    Words,
)

ROWS, WORDS, LANES = 24, 8, 4
UNITS = ("in", "core", "back")

_CHOSEN = {"index": 0, "pad": 1}
_HEIGHT = "(top+rows+bottom)"
_INDEX = Words("index", "begin", "end")


def table(*, tokens: bool = False) -> InstructionTable:
    """load: words from the register, or rows with padding; gather: out[to] += pad[from] of each
    word; write: rows of out."""
    fields = (
        Bits("memory", 1),
        Bits("chunk", 4),
        Bits("row", 6),
        Bits("rows", 4),
        Bits("top", 2),
        Bits("bottom", 2),
    )
    words, pad = (f"(memory={number})" for number in _CHOSEN.values())
    load = InstructionForm(
        "load",
        1,
        fields,
        reaches=(
            Reach("dram", "base", extent=f"{words}*rows*2", offset="chunk*8"),
            Reach("index", "row", extent=f"{words}*rows", writes=True),
            Reach("dram", "base", (("rows", LANES),), f"{pad}*{LANES}", offset="chunk*8"),
            Reach("pad", "row", extent=f"{pad}*(rows>0)*{_HEIGHT}", writes=True),
        ),
        never=(f"{words}*(top+bottom)", "(row+rows>60)"),
        unit=UnitBy("memory", ("core", "in")),
        per=(("rows", 3),),
        cycles=4,
    )
    gather = InstructionForm(
        "gather",
        2,
        (Bits("begin", 4), Bits("end", 4), Bits("turns", 3), Bits("step", 3)),
        reaches=(
            Reach("pad", "source", (("turns", "step"),), through=_INDEX),
            Reach("out", "target", (("turns", 1),), through=_INDEX),
            Reach("out", "target", (("turns", 1),), through=_INDEX, writes=True),
        ),
        never=("(begin+1>end)",),
        unit="core",
        cycles=3,
        per=(("turns", 5),),
    )
    point = InstructionForm(
        "point",
        3,
        (Bits("address", 16, address=True),),
        unit="in",
        keeps=(Keep("base", "address"),),
    )
    write = InstructionForm(
        "write",
        4,
        (Bits("address", 16, address=True), Bits("row", 6), Bits("rows", 4)),
        reaches=(
            Reach("out", "row", extent="rows"),
            Reach("dram", "address", (("rows", LANES),), LANES, writes=True),
        ),
        unit="back",
        cycles=6,
    )
    end = InstructionForm("end", 5, unit="core", ends=True)
    memories = (
        LocalMemory("index", WORDS, 2, "uint8", (Bits("source", 5), Bits("target", 5, at=8))),
        LocalMemory("pad", ROWS, LANES),
        LocalMemory("out", ROWS, LANES),
    )
    registers = (AddressRegister("base"),)
    forms = (load, gather, point, write, end)
    plain = InstructionTable("gather", forms, memories, address_registers=registers)
    if not tokens:
        return plain
    noop = InstructionForm("wait", 6, unit="core")
    return plain.ordered_by(chained(*UNITS), noop)


def _load(state: MachineState, i: Mapping[str, int]) -> None:
    at, rows = state.kept["base"][0] + 8 * i["chunk"], i["rows"]
    if rows and i["memory"] == _CHOSEN["index"]:
        state.memory["index"][i["row"] : i["row"] + rows] = state.dram.read(at, 2, 2, rows)
    elif rows:
        height = i["top"] + rows + i["bottom"]
        state.memory["pad"][i["row"] : i["row"] + height] = 0
        first = i["row"] + i["top"]
        loaded = state.dram.read(at, LANES, LANES, rows)
        state.memory["pad"][first : first + rows] = loaded.view(np.int8)


def _gather(state: MachineState, i: Mapping[str, int]) -> None:
    for turn in range(i["turns"]):
        for source, target in state.memory["index"][i["begin"] : i["end"]].tolist():
            row = state.memory["pad"][(source & 31) + turn * i["step"]]
            state.memory["out"][(target & 31) + turn] += row


def _write(state: MachineState, i: Mapping[str, int]) -> None:
    if i["rows"]:
        state.dram.write(i["address"], state.memory["out"][i["row"] : i["row"] + i["rows"]], LANES)


def _end(state: MachineState, i: Mapping[str, int]) -> None:
    pass


def device(*, tokens: bool = False) -> Accelerator:
    """Its accelerator."""
    meaning = {"load": _load, "gather": _gather, "write": _write, "end": _end}
    return Accelerator("gather", table(tokens=tokens), meaning, queue=4)


def constants(seed: int) -> bytes:
    """What programs load: 16 chunks of index words of rows 0 to 15, which are rows of pad, too."""
    return np.random.default_rng(seed).integers(0, 16, 16 * 8 + 64, np.uint8).tobytes()


def random_program(seed: int, count: int) -> list[TableInsn]:
    """Sound instructions, but for tokens. Addresses are in what is named `constants` and `out`."""
    rng = np.random.default_rng(seed)

    def number(end: int) -> int:
        return int(rng.integers(end))

    whole = {"memory": 0, "chunk": number(15), "row": 0, "rows": WORDS}
    insns = [TableInsn("point", {"address": At("constants")}), TableInsn("load", whole)]
    for _ in range(count):
        kind = number(8)
        if kind == 0:
            insns.append(TableInsn("point", {"address": At("constants", 2 * number(8))}))
        elif kind < 3:
            row = number(WORDS)
            words = {"memory": 0, "chunk": number(14), "row": row, "rows": number(WORDS - row + 1)}
            insns.append(TableInsn("load", words))
        elif kind < 5:
            sizes = {"rows": number(4), "top": number(3), "bottom": number(3)}
            row = number(ROWS - 8)
            insns.append(TableInsn("load", {"memory": 1, "chunk": number(14), "row": row, **sizes}))
        elif kind < 7:
            begin = number(WORDS)
            turns = {"turns": number(4), "step": number(3)}
            words = {"begin": begin, "end": begin + 1 + number(WORDS - begin)}
            insns.append(TableInsn("gather", {**words, **turns}))
        else:
            row, rows = number(ROWS - 4), number(5)
            address = At("out", LANES * number(12))
            insns.append(TableInsn("write", {"address": address, "row": row, "rows": rows}))
    return [*insns, TableInsn("end", {})]


def on_bus(insns: Sequence[TableInsn], places: Mapping[str, int]) -> list[TableInsn]:
    """The same with the address of each name. places: by name."""

    def plain(value: int | At) -> int:
        return value if isinstance(value, int) else places[value.symbol] + value.offset_bytes

    return [TableInsn(i.name, {k: plain(v) for k, v in i.fields.items()}) for i in insns]


def changed(insns: Sequence[TableInsn], rng: np.random.Generator) -> list[TableInsn]:
    """One field of one instruction, or the place of one, is another."""
    table_of = table()
    made, at = list(insns), int(rng.integers(len(insns)))
    form = table_of.by_name[made[at].name]
    if rng.random() < 0.2 or not form.fields:
        made.insert(int(rng.integers(len(made))), made.pop(at))
        return made
    bits = form.fields[int(rng.integers(len(form.fields)))]
    old = made[at].fields.get(bits.name, 0)
    if isinstance(old, At):
        further = int(rng.integers(0, 65))
        made[at] = TableInsn(made[at].name, {**made[at].fields, bits.name: At(old.symbol, further)})
        return made
    if bits.address:
        return made
    drawn = (0, old + 1, max(old - 1, 0), bits.highest, int(rng.integers(bits.highest + 1)))
    value = min(int(rng.choice(drawn)), bits.highest)
    made[at] = TableInsn(made[at].name, {**made[at].fields, bits.name: value})
    return made
