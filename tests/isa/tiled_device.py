# SPDX-License-Identifier: Apache-2.0
"""A device of three units without tokens, and random programs for it that name tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import At, TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, DramWindow, MachineRun, MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn

BASE, LANES = 0x1000, 8
#: Rows of memory that hold constants; behind them stands what programs make.
CONSTANTS = 4

_ROW, _ROWS = Bits("row", 8), Bits("rows", 4, low=1)
_ADDRESS = Bits("address", 32, address=True)
_LINES = (("rows", LANES),)


def table(rows: int) -> InstructionTable:
    """read: DRAM to pad; mix: pad to out; write: out to DRAM. rows: of each memory."""

    def of(memory: str, first: str = "row", *, writes: bool = False) -> Reach:
        return Reach(memory, first, (("rows", 1),), writes=writes)

    def far(*, writes: bool = False) -> Reach:
        return Reach("dram", "address", _LINES, LANES, writes=writes)

    moved, mixed = (_ADDRESS, _ROW, _ROWS), (_ROW, Bits("target", 8), _ROWS, Bits("adds", 1))
    read, mix = (far(), of("pad", writes=True)), (of("pad"), of("out", "target", writes=True))
    write = (of("out"), far(writes=True))
    forms = (
        InstructionForm("read", 1, moved, 12, "", read, "in", 4, (("rows", 2),)),
        InstructionForm("mix", 2, mixed, 8, "", mix, "core", 2, (("rows", 20),)),
        InstructionForm("write", 3, moved, 12, "", write, "back", 4, (("rows", 3),)),
    )
    memories = (LocalMemory("pad", rows, LANES), LocalMemory("out", rows, LANES))
    return InstructionTable("tiled", forms, memories)


def _read(state: MachineState, i: Mapping[str, int]) -> None:
    data = state.dram.read(i["address"], LANES, LANES, i["rows"])
    state.memory["pad"][i["row"] : i["row"] + i["rows"]] = data.view(np.int8)


def _mix(state: MachineState, i: Mapping[str, int]) -> None:
    data = state.memory["pad"][i["row"] : i["row"] + i["rows"]]
    out = state.memory["out"][i["target"] : i["target"] + i["rows"]]
    out[:] = i["adds"] * out * 3 + data + np.int8(1)


def _write(state: MachineState, i: Mapping[str, int]) -> None:
    state.dram.write(i["address"], state.memory["out"][i["row"] : i["row"] + i["rows"]], LANES)


def device(rows: int, port: Port | None = None) -> Accelerator:
    """Its accelerator; two instructions wait in front of each unit."""
    meaning = {"read": _read, "mix": _mix, "write": _write}
    return Accelerator("tiled", table(rows), meaning, port=port, queue=2)


def random_program(seed: int, turns: int = 12) -> tuple[list[TiledInsn], list[int]]:
    """Instructions, and their layers: each turn reads tiles, some of what an earlier one wrote,
    mixes them, writes the sum."""
    rng = np.random.default_rng(seed)
    insns: list[TiledInsn] = []
    layers: list[int] = []
    for turn in range(turns):
        rows = int(rng.integers(1, 4))
        out = InTile(LocalTile("out", rows, f"out{turn}"))
        for adds in range(int(rng.integers(1, 4))):
            pad = LocalTile("pad", rows, f"pad{turn}.{adds}")
            for row in range(rows):
                source = At("constants", LANES * int(rng.integers(CONSTANTS)))
                if turn and rng.random() < 0.3:
                    source = At(f"made{rng.integers(turn)}")
                place = InTile(pad, row)
                insns.append(TiledInsn("read", {"address": source, "rows": 1, "row": place}))
            more = {"rows": rows, "adds": int(adds > 0)}
            insns.append(TiledInsn("mix", {"row": InTile(pad), "target": out, **more}))
        last = InTile(out.tile, int(rng.integers(rows)))
        insns.append(TiledInsn("write", {"address": At(f"made{turn}"), "rows": 1, "row": last}))
        layers += [turn // 5] * (len(insns) - len(layers))
    return insns, layers


def own_rows(insns: Sequence[TiledInsn]) -> list[TableInsn]:
    """Each tile in rows of its own, in program order: what a program means."""
    free: dict[str, int] = {}
    first: dict[LocalTile, int] = {}
    found = []
    for insn in insns:
        fields: dict[str, int | At] = {}
        for name, value in insn.fields.items():
            if isinstance(value, InTile):
                if value.tile not in first:
                    first[value.tile] = free.get(value.tile.memory, 0)
                    free[value.tile.memory] = first[value.tile] + value.tile.size_tiles
                fields[name] = first[value.tile] + value.row
            else:
                fields[name] = value
        found.append(TableInsn(insn.name, fields))
    return found


def run(accelerator: Accelerator, insns: Sequence[TableInsn]) -> tuple[bytes, MachineRun]:
    """What memory holds after a program, and its time."""
    memory = np.random.default_rng(0).integers(0, 256, 64 * LANES).astype(np.uint8)

    def placed(value: int | At) -> int:
        if not isinstance(value, At):
            return value
        made = value.symbol != "constants"
        row = CONSTANTS + int(value.symbol.removeprefix("made")) if made else 0
        return BASE + LANES * row + value.offset_bytes

    plain = [TableInsn(i.name, {k: placed(v) for k, v in i.fields.items()}) for i in insns]
    machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]))
    result = machine.run(BASE, len(plain), encode(accelerator.table, plain))
    return memory.tobytes(), result
