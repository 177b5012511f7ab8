# SPDX-License-Identifier: Apache-2.0
"""A device of three units that tokens order, and random programs for it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import At, TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.queues import UnitQueue, chained
from loadstone.isa.state import Dram, DramWindow, MachineRun, MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach

BASE, ROWS, LANES = 0x1000, 16, 8


def _read(state: MachineState, i: Mapping[str, int]) -> None:
    pad = state.memory["pad"]
    rows = state.dram.read(i["address"], LANES, LANES, i["rows"])
    pad[i["row"] : i["row"] + i["rows"]] = rows.view(np.int8)


def _mix(state: MachineState, i: Mapping[str, int]) -> None:
    pad, out, rows = state.memory["pad"], state.memory["out"], i["rows"]
    read, target = pad[i["row"] : i["row"] + rows], out[i["target"] : i["target"] + rows]
    target[:] = 3 * target + read + np.int8(1)


def _write(state: MachineState, i: Mapping[str, int]) -> None:
    out = state.memory["out"]
    state.dram.write(i["address"], out[i["row"] : i["row"] + i["rows"]], LANES)


def table(queues: tuple[UnitQueue, ...] = (), *noops: str) -> InstructionTable:
    """read: DRAM to pad; mix: pad to out; write: out to DRAM. noops: units that have one."""
    row, rows = Bits("row", 8), Bits("rows", 4, low=1)
    address = Bits("address", 32, address=True)
    lines = (("rows", LANES),)

    def of(memory: str, first: str = "row", *, writes: bool = False) -> Reach:
        return Reach(memory, first, (("rows", 1),), writes=writes)

    def far(*, writes: bool = False) -> Reach:
        return Reach("dram", "address", lines, LANES, writes=writes)

    cost = (("rows", 5),)
    moved = (address, row, rows)
    forms = (
        InstructionForm(
            "read", 1, moved, 12, "", (far(), of("pad", writes=True)), "in", 4, (("rows", 2),)
        ),
        InstructionForm(
            "mix",
            2,
            (row, Bits("target", 8), rows),
            8,
            "",
            (of("pad"), of("out", "target"), of("out", "target", writes=True)),
            "core",
            2,
            cost,
        ),
        InstructionForm(
            "write", 3, moved, 12, "", (of("out"), far(writes=True)), "back", 4, (("rows", 3),)
        ),
    )
    memories = (LocalMemory("pad", ROWS, LANES), LocalMemory("out", ROWS, LANES))
    plain = InstructionTable("tokened", forms, memories)
    still = [InstructionForm(f"wait_{unit}", 8 + k, unit=unit) for k, unit in enumerate(noops)]
    return plain.ordered_by(queues, *still) if queues else plain


def device(queues: tuple[UnitQueue, ...] = (), *noops: str, queue: int = 4) -> Accelerator:
    """Its accelerator."""
    meaning = {"read": _read, "mix": _mix, "write": _write}
    return Accelerator("tokened", table(queues, *noops), meaning, queue=queue)


CHAIN = chained("in", "core", "back")


def random_program(seed: int, count: int, base: int = BASE) -> list[TableInsn]:
    """Reads, mixes and writes of few rows, so that nearly all depend on each other."""
    rng, insns = np.random.default_rng(seed), []
    for _ in range(count):
        name = ("read", "mix", "write")[int(rng.integers(3))]
        rows = int(rng.integers(1, 4))
        fields = {"row": int(rng.integers(ROWS - rows)), "rows": rows}
        if name == "mix":
            fields["target"] = int(rng.integers(ROWS - rows))
        else:
            fields["address"] = base + LANES * int(rng.integers(32 - rows))
        insns.append(TableInsn(name, fields))
    return insns


def no_names(at: At) -> tuple[str, int]:
    raise AssertionError(at)


def run(accelerator: Accelerator, insns: list[TableInsn]) -> tuple[bytes, MachineRun]:
    """What memory holds after a program, and its time."""
    memory = np.arange(256, dtype=np.int64).astype(np.uint8)
    machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]), trace=True)
    code = encode(accelerator.table, insns)
    result = machine.run(BASE, len(insns), code)
    return memory.tobytes(), result
