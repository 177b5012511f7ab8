# SPDX-License-Identifier: Apache-2.0
"""What stops a program on the simulator is named: bounds, regions, deadlocks, too many cycles."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.spec import Memory
from loadstone.vta.simulator.result import SimulationStopped
from loadstone.vta.simulator.sim import Simulator
from tests.programs import BASE
from tests.simulated import (
    TINY,
    VTA,
    run_text,
)


@pytest.mark.parametrize(
    ("text", "status", "pc", "message"),
    [
        (
            "load inp[2047] = dram[256 + x] for x<2\nfinish",
            "SRAM_BOUNDS",
            0,
            "LOAD reaches tile 2048 of INP, which has 2048",
        ),
        (
            "nop compute\nload wgt[1024] = dram[16 + x] for x<1\nfinish",
            "SRAM_BOUNDS",
            1,
            "tile 1024 of WGT",
        ),
        (
            "load uop[2048] = dram[1024 + x] for x<1\nfinish",
            "SRAM_BOUNDS",
            0,
            "tile 2048 of UOP, which has 2048",
        ),
        (
            "gemm acc[u] += inp[u] * wgt[u] for i<1 j<1 u in 2047..2049\nfinish",
            "SRAM_BOUNDS",
            0,
            "uop_end reaches tile 2048",
        ),
        (
            "gemm acc[u+2047i+1j] = 0 for i<2 j<2 u in 0..1\nfinish",
            "SRAM_BOUNDS",
            0,
            "GEMM dst reaches tile 2048 of ACC",
        ),
        (
            "alu acc[u] += acc[u+1024i] for i<3 j<1 u in 0..1\nfinish",
            "SRAM_BOUNDS",
            0,
            "ALU src reaches tile 2048 of ACC",
        ),
        (
            "load inp[0] = dram[4351 + x] for x<4\nfinish",
            "BUS",
            0,
            "no memory is mapped at bus address 0x11020",
        ),
        (
            "load inp[0] = dram[256 + 4100y + x] for y<2 x<1\nfinish",
            "BUS",
            0,
            "no memory is mapped at bus address 0x11040",
        ),
        (
            "load inp[0] = dram[0 + x] for x<1\nfinish",
            "BUS",
            0,
            "no memory is mapped at bus address 0x0",
        ),
        ("store dram[4400 + x] = out[0] for x<1\nfinish", "BUS", 0, "bus address 0x11300"),
        (
            "alu acc[u] *= 3 for i<1 j<1 u in 0..1\nfinish",
            "BAD_INSTRUCTION",
            0,
            "ALU MUL needs capability alu_mul",
        ),
        (
            "load acc_8bit[0] = dram[256 + x] for x<1\nfinish",
            "BAD_INSTRUCTION",
            0,
            "ACC_8BIT needs capability load_acc8",
        ),
        (
            "nop load\nnop store\npop(load) nop compute\nfinish",
            "DEADLOCK",
            2,
            "compute at instruction 2 waits for a token from load",
        ),
        ("nop load", "DEADLOCK", 0, "ends without FINISH"),
    ],
)
def test_what_stops_a_program_is_named(text: str, status: str, pc: int, message: str) -> None:
    result = run_text(text)
    assert (result.status, result.error_pc) == (status, pc), result.message
    assert message in result.message
    assert text.splitlines()[pc] in result.message or "FINISH" in message, (
        "the instruction is named in assembler text"
    )


def test_the_same_accesses_one_tile_less_are_fine() -> None:
    for text in (
        "load inp[2046] = dram[256 + x] for x<2",
        "load uop[2047] = dram[1024 + x] for x<1",
        "gemm acc[u] += inp[u] * wgt[u] for i<1 j<1 u in 2046..2048",
        "gemm acc[u+2046i+1j] = 0 for i<2 j<2 u in 0..1",
        "alu acc[u] += acc[u+1023i] for i<3 j<1 u in 0..1",
        "load inp[0] = dram[4350 + x] for x<2",
        "store dram[4351 + x] = out[0] for x<1",
    ):
        assert run_text(text + "\nfinish").status == "NONE", text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "load inp[0] = dram[16383 + x] for x<2\nfinish",
            "bytes 65532 to 65540 of region 0, which has 65536",
        ),
        ("store dram7[0 + x] = out[0] for x<1\nfinish", "region 7 is read-only"),
    ],
)
def test_regions_bound_and_protect(text: str, message: str) -> None:
    result = run_text(text, TINY)
    assert result.status == "DRAM_BOUNDS"
    assert message in result.message
    assert run_text("load inp[0] = dram7[16382 + x] for x<2\nfinish", TINY).status == "NONE"


def test_memory_mapped_read_only_refuses_stores() -> None:
    simulator = Simulator(VTA, strict=False)
    memory = np.zeros(4096, np.uint8)
    simulator.map(BASE, memory, read_only=True)
    with pytest.raises(SimulationStopped, match="read-only"):
        simulator.run(assemble("store dram[256 + x] = out[0] for x<1\nfinish", VTA))


def test_an_access_may_span_neighbouring_segments() -> None:
    simulator = Simulator(VTA, strict=False)
    halves = np.arange(8, dtype=np.uint8), np.arange(8, 16, dtype=np.uint8)
    simulator.map(0x1000, halves[0])
    simulator.map(0x1008, halves[1])
    simulator.run(assemble("load inp[3] = dram[256 + x] for x<1\nfinish", VTA))
    assert simulator.scratchpad(Memory.INP, 3, 1)[0].tolist() == list(range(16))
    with pytest.raises(SimulationError, match="overlaps"):
        simulator.map(0x100F, np.zeros(1, np.uint8))


def test_a_deadlock_names_who_waits_for_whom() -> None:
    text = (
        "pop(compute) nop load push(compute)\npop(load) nop compute "
        "push(load)\npop(compute) nop store\npop(load) finish"
    )
    message = run_text(text).message
    assert "load at instruction 0 waits for a token from compute" in message
    assert "compute at instruction 1 waits for a token from load" in message
    assert "store at instruction 2 waits for a token from compute" in message
    assert "0: pop(compute) nop load push(compute)" in message


def test_a_queue_holds_255_tokens() -> None:
    push, pop = "nop load push(compute)\n", "pop(load) nop compute\n"
    assert run_text(push * 255 + pop * 255 + "finish").status == "NONE"
    result = run_text(push * 256 + pop * 256 + "finish")
    assert (result.status, result.error_pc) == ("DEADLOCK", 255)


def test_a_full_stage_queue_blocks_fetch() -> None:
    """512 instructions wait in load's queue, and the token that they wait for is behind them:
    hardware hangs."""
    first = "pop(compute) nop load\n"
    assert run_text(first + "nop load\n" * 511 + "nop compute push(load)\nfinish").status == "NONE"
    result = run_text(first + "nop load\n" * 512 + "nop compute push(load)\nfinish")
    assert result.status == "DEADLOCK"
    assert "fetch waits for room" in result.message


def test_the_cycle_limit_stops_at_once_what_would_never_end() -> None:
    loop = "gemm acc[u] += inp[u] * wgt[u] for i<16383 j<16383 u in 0..2048\nfinish"
    result = run_text(loop, limit=10_000)
    assert (result.status, result.error_pc) == ("CYCLE_LIMIT", 0)
    waits = run_text(
        "load wgt[0] = dram[16 + x] for x<200 push(compute)\npop(load) finish", limit=500
    )
    assert waits.status == "CYCLE_LIMIT", "also when nothing but a LOAD is under way"
    exact = run_text("nop compute\n" * 50 + "finish").cycles
    assert run_text("nop compute\n" * 50 + "finish", limit=exact).status == "NONE"
    assert run_text("nop compute\n" * 50 + "finish", limit=exact - 1).status == "CYCLE_LIMIT"


def test_a_program_may_not_change_itself() -> None:
    """A stream is copied when it starts; a store over it changes nothing, and the race check
    tells."""
    text = (
        "load uop[0] = dram[1024 + x] for x<1\nstore dram[257 + x] = out[0] for x<3\nnop "
        "compute\nfinish"
    )
    simulator = Simulator(VTA, strict=False, races=True)
    memory = np.zeros(4096, np.uint8)
    insns = assemble(text, VTA)
    memory[:64] = insns.reshape(-1)
    simulator.map(BASE, memory)
    assert simulator.run_at(BASE, 4).status == "NONE"
    assert memory[16:64].any() == 0
    assert [f.other for f in simulator.findings()] == [1]
