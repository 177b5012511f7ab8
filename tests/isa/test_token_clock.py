# SPDX-License-Identifier: Apache-2.0
"""isa/token_clock.py: when instructions of several units start, and what happens where none can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.isa.accelerator import Port
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import DEADLOCK, Dram, DramWindow, MachineFault, MachineRun
from tests.isa.tokened import CHAIN, device

BASE = 0x1000


def run(*insns: TableInsn, queue: int = 4, port: Port | None = None) -> MachineRun:
    accelerator = replace(device(CHAIN, "core", queue=queue), port=port)
    memory = np.zeros(512, np.uint8)
    machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]), trace=True)
    return machine.run(BASE, len(insns), encode(accelerator.table, insns))


def read(**more: int) -> TableInsn:
    return TableInsn("read", {"address": BASE, "rows": 1, **more})  # 4 + 2 cycles


def mix(**more: int) -> TableInsn:
    return TableInsn("mix", {"rows": 1, **more})  # 2 + 5 cycles


def test_units_overlap_where_no_token_says_otherwise() -> None:
    result = run(read(), mix())
    assert [(e.unit, e.start, e.end) for e in result.events] == [("in", 1, 7), ("core", 2, 9)]
    assert result.stalled_cycles == {"in": 0, "core": 0}
    waits = run(read(push_next=1), mix(pop_prev=1))
    assert [(e.unit, e.ready, e.start, e.end) for e in waits.events] == [
        ("in", 1, 1, 7),
        ("core", 2, 7, 14),
    ]
    assert (waits.cycles, waits.busy_cycles, waits.stalled_cycles) == (
        14,
        {"in": 6, "core": 7},
        {"in": 0, "core": 5},
    )


def test_a_token_may_be_given_behind_the_instruction_that_takes_it() -> None:
    result = run(mix(pop_prev=1), read(push_next=1))
    assert [(e.insn, e.start) for e in result.events] == [(1, 2), (0, 8)]


def test_a_full_queue_stops_what_is_handed_out() -> None:
    many = run(*[read()] * 4, mix(), queue=2)
    # the fourth waits until the second starts, and so does what stands behind it
    assert next(e.start for e in many.events if e.unit == "core") == 8
    assert next(e.start for e in run(*[read()] * 4, mix(), queue=4).events if e.unit == "core") == 5


def test_transfers_take_the_port_one_at_a_time() -> None:
    port = Port(bytes_per_cycle=8, burst_cycles=0, latency_cycles=10)
    back = TableInsn("write", {"address": BASE + 64, "rows": 1})
    result = run(read(), back, port=port)
    assert [(e.unit, e.start, e.end) for e in result.events] == [("in", 1, 18), ("back", 12, 30)]


def test_waiting_for_a_token_that_nobody_gives() -> None:
    with pytest.raises(MachineFault, match="2 instructions wait for tokens") as fault:
        run(read(), mix(pop_prev=1), mix())
    assert (fault.value.error, fault.value.instruction) == (DEADLOCK, 1)
