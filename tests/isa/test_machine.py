# SPDX-License-Identifier: Apache-2.0
"""The simulator of a table: meaning, bounds, time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import BackendError
from loadstone.isa.accelerator import Accelerator, Port
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.cost import port_cycles
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import (
    BAD_INSTRUCTION,
    DRAM_BOUNDS,
    Dram,
    DramWindow,
    MachineFault,
    MachineRun,
)
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    Reach,
)
from tests.isa.tables import NPU, NPU_MEANING, npu

BASE = 0x1000


def machine(*insns: TableInsn, **more: object) -> tuple[TableMachine, np.ndarray, int]:
    """A machine with the program behind 512 bytes of data, which count up."""
    code = encode(NPU, insns)
    data = np.frombuffer(bytearray(bytes(range(256)) * 2 + code), np.uint8)
    dram = Dram([DramWindow(BASE, data)])
    return TableMachine(npu(**more), dram, trace=True), data, BASE + 512


def run(*insns: TableInsn, **more: object) -> MachineRun:
    made, _, address = machine(*insns, **more)
    return made.run(address, len(insns))


COPY = TableInsn("copy", {"address": BASE >> 4, "stride": 32, "rows": 3, "row": 1})
STORE = TableInsn("store", {"address": BASE + 300, "rows": 2, "row": 2})
END = TableInsn("end", {})


def test_meaning_and_bytes() -> None:
    made, data, address = machine(COPY, STORE, END)
    result = made.run(address, 3)
    assert data[300:332].tolist() == [*range(32, 48), *range(64, 80)]
    assert (result.read_bytes, result.write_bytes, result.instructions) == (48, 32, 3)


def test_time_in_order() -> None:
    """One after the other: 1 + 2 * 3 cycles, 1, 1."""
    result = run(COPY, STORE, END)
    assert [(e.name, e.start, e.end) for e in result.events] == [
        ("copy", 0, 7),
        ("store", 7, 8),
        ("end", 8, 9),
    ]
    assert result.cycles == 9
    assert result.busy_cycles == {"dma": 8, "all": 1}


def test_time_in_queues() -> None:
    """`end` works beside the unit dma; a second copy over the rows that `store` reads waits."""
    other = TableInsn("copy", {**COPY.fields, "row": 10})
    result = run(COPY, STORE, END, other, queue=4)
    times = {(e.insn, e.name): (e.start, e.end) for e in result.events}
    assert times == {
        (0, "copy"): (1, 8),
        (1, "store"): (8, 9),
        (2, "end"): (3, 4),
        (3, "copy"): (9, 16),
    }
    work = TableInsn("work", {})
    full = run(COPY, COPY, COPY, work, queue=1)
    assert full.events[3].start == full.events[1].start + 1  # only then the third copy is out


def test_time_of_the_port() -> None:
    port = Port(bytes_per_cycle=8, burst_bytes=32, burst_cycles=2, latency_cycles=10)
    gaps = Reach("dram", "a", (("n", 64),), 40)
    assert port_cycles(port, gaps, {"n": 3}) == 10 + 3 * (5 + 2 * 2)
    whole = Reach("dram", "a", (("n", 40),), 40)
    assert port_cycles(port, whole, {"n": 3}) == 10 + 15 + 4 * 2
    assert port_cycles(port, Reach("pad", "a"), {}) == 0
    result = run(COPY, STORE, END, port=port)
    assert [e.end - e.start for e in result.events] == [7 + 10 + 3 * (2 + 2), 1 + 10 + 4 + 2, 1]


@pytest.mark.parametrize(
    ("insn", "error", "address"),
    [
        (TableInsn("copy", {**COPY.fields, "row": 62}), 3, 0),
        (TableInsn("copy", {**COPY.fields, "address": 0x2000}), 2, 0x20000),
        (TableInsn("copy", {**COPY.fields, "stride": 4096}), 2, BASE),
        (TableInsn("store", {**STORE.fields, "address": BASE - 1}), 2, BASE - 1),
    ],
)
def test_bounds(insn: TableInsn, error: int, address: int) -> None:
    with pytest.raises(MachineFault) as fault:
        run(END, insn)
    assert (fault.value.instruction, fault.value.error, fault.value.address) == (1, error, address)


def test_unknown_instructions() -> None:
    made, data, address = machine(END, END, END, END)
    data[516] = 9
    with pytest.raises(MachineFault, match="opcode 9") as fault:
        made.run(address, 2)
    assert (fault.value.instruction, fault.value.error) == (1, 1)
    with pytest.raises(MachineFault):
        made.run(BASE + 10_000, 1)
    data[512:524] = 0
    data[512] = 1  # a copy of no rows
    with pytest.raises(MachineFault, match="rows=0"):
        made.run(address, 1)


def test_a_meaning_that_fails_is_one_line() -> None:
    def work(state: object, fields: dict[str, int]) -> None:
        raise ValueError(f"mode {fields['mode']}\nis none")

    broken = {"meaning": {**NPU_MEANING, "work": work}}
    with pytest.raises(BackendError) as caught:
        run(END, TableInsn("work", {"mode": 2}), **broken)
    said = str(caught.value)
    assert said.startswith(
        "accelerator npu: what instruction 1, work, means: ValueError: mode 2 is"
    )
    assert "test_machine.py:" in said


def test_address_registers() -> None:
    """Set by one instruction, used by others, and by no other program."""
    load = InstructionForm(
        "load",
        2,
        (Bits("which", 2), Bits("chunk", 4)),
        reaches=(Reach("dram", "base", index="which", offset="chunk*16", extent=16),),
        unit="load",
    )
    keeps = (Keep("base", "address", "which"),)
    point = InstructionForm("point", 1, (Bits("which", 2), Bits("address", 16, address=True)))
    point = replace(point, keeps=keeps)
    registers = (AddressRegister("base", 3),)
    table = InstructionTable("kept", (point, load), address_registers=registers)
    seen: list[tuple[int, int]] = []
    meaning = {"load": lambda s, i: seen.append((s.kept["base"][i["which"]], i["chunk"]))}
    accelerator = Accelerator("kept", table, meaning)

    def execute(*insns: TableInsn) -> None:
        code = encode(table, insns)
        data = np.frombuffer(bytearray(bytes(64) + code), np.uint8)
        TableMachine(accelerator, Dram([DramWindow(BASE, data)])).run(BASE + 64, len(insns))

    set_second = TableInsn("point", {"which": 1, "address": BASE})
    execute(set_second, TableInsn("load", {"which": 1, "chunk": 3}))
    assert seen == [(BASE, 3)]
    for insns, error in (
        ([set_second, TableInsn("load", {"which": 1, "chunk": 8})], DRAM_BOUNDS),
        ([set_second, TableInsn("load", {"which": 0})], DRAM_BOUNDS),
        ([TableInsn("point", {"which": 3})], BAD_INSTRUCTION),
        ([set_second, TableInsn("load", {"which": 3})], BAD_INSTRUCTION),
    ):
        with pytest.raises(MachineFault) as fault:
            execute(*insns)
        assert fault.value.error == error, insns
    assert len(seen) == 1
