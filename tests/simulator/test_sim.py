"""The simulator: equal to vta/reference.py on random programs with all kernels; what stops a
program is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.numerics import Rounding, rq
from loadstone.simulator.sim import Result, SimulationStopped, Simulator, kernels_available
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Load, MicroOp
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from loadstone.vta.reference import Machine, Region
from tests.programs import BASE, Program, random_program
from tests.simulated import TINY, VTA, run_text, simulate

CONFIGS = [
    VTA,
    replace(
        VTA, name="fsim", profile="vtaq", capabilities=Capability.ALU_MUL | Capability.LOAD_ACC8
    ),
    *(load_config(name) for name in ("vtaq-1x16x16", "vtaq-1x32x32", "vtaq-4x16x16", "vtaq-tiny")),
    replace(
        load_config("vtaq-tiny"),
        name="2x8x8",
        log_batch=1,
        log_block=3,
        log_inp_buff=11,
        log_wgt_buff=14,
        log_acc_buff=13,
    ),
    replace(load_config("vtaq-tiny"), name="1x2x2", log_block=1),
    replace(
        load_config("vtaq-1x32x32"),
        name="2x64x64",
        log_batch=1,
        log_block=6,
        log_inp_buff=16,
        log_wgt_buff=19,
        log_acc_buff=18,
    ),
]


#: Paths of inner loops that this processor has; CI runs these tests on emulated processors, too.
HOST_KERNELS = kernels_available(load_config("vtaq-1x16x16"))


def refer(program: Program) -> tuple[np.ndarray, Machine]:
    memory = program.memory.copy()
    machine = Machine(
        program.config, [Region(memory, base=0 if program.config.has(Capability.REGIONS) else BASE)]
    )
    machine.run(program.insns)
    return memory, machine


def check_equal(program: Program, what: str) -> None:
    expected, machine = refer(program)
    for number, kernels in enumerate(HOST_KERNELS):
        memory, simulator, result = simulate(
            program, kernels=kernels, races=number == 0, uninitialised=number == 0
        )
        assert [f.text for f in simulator.findings()] == [], what
        assert result.cycles > 0
        np.testing.assert_array_equal(memory, expected, err_msg=f"{what}, {kernels}")
        for name, pad in (("ACC", machine.acc), ("INP", machine.inp), ("WGT", machine.wgt)):
            np.testing.assert_array_equal(
                simulator.scratchpad(Memory[name]).view(pad.dtype).reshape(pad.shape),
                pad,
                err_msg=f"{what}, {kernels}, {name}",
            )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_equal_to_the_reference_on_random_programs(config: HwConfig) -> None:
    for seed in range(30):
        check_equal(
            random_program(config, np.random.default_rng(seed)), f"{config.name}, seed {seed}"
        )


@pytest.mark.full
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_equal_to_the_reference_on_twenty_thousand_random_programs(config: HwConfig) -> None:
    for seed in range(1000, 1000 + 20_000 // len(CONFIGS) + 1):
        check_equal(
            random_program(config, np.random.default_rng(seed), 16), f"{config.name}, seed {seed}"
        )


EDGES = [
    0,
    1,
    -1,
    2,
    -2,
    127,
    -128,
    255,
    0x1F00,
    0x9F,
    1 << 23,
    (1 << 24) + 1,
    1 << 30,
    (1 << 30) - 1,
    -(1 << 30),
    (1 << 31) - 1,
    -(1 << 31),
]
FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    1e-45,
    3e38,
    -3e38,
    float("inf"),
    float("-inf"),
    float("nan"),
    0.0019,
    1 / 3,
]


@pytest.mark.parametrize("kernels", HOST_KERNELS)
@pytest.mark.parametrize("rounding", Rounding)
def test_requantization_at_the_edges_of_every_operand(kernels: str, rounding: Rounding) -> None:
    config = load_config("vtaq-1x16x16")
    rng = np.random.default_rng(0)
    tiles = np.empty((400, 4, 16), np.int32)  # acc, bias, multiplier, shift
    edges = np.array(
        [*EDGES, *np.array(FLOATS, np.float32).view(np.int32).tolist()], np.int64
    ).astype(np.int32)
    tiles[:] = rng.choice(edges, tiles.shape)
    tiles[::2, 3] = rng.integers(-(1 << 31), 1 << 31, (200, 16))
    for zero_point, low, high in (
        (0, -128, 127),
        (-128, -128, 127),
        ((1 << 31) - 1, -(1 << 31), (1 << 31) - 1),
        (5, 100, -100),
    ):
        memory = np.zeros(1 << 18, np.uint8)
        memory[: tiles.nbytes] = tiles.reshape(-1).view(np.uint8)
        micro_op = 150_000 // 4
        memory[4 * micro_op :][:4] = encode_uops([MicroOp(0, 1)], config).view(np.uint8)
        insns = [
            Load(memory_id=Memory.ACC, y_size=1, x_size=1600, x_stride=1600),
            Load(memory_id=Memory.UOP, dram_base=micro_op, y_size=1, x_size=1, x_stride=1),
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=rounding),
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ZERO_POINT, value=zero_point),
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_MIN, value=low),
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_MAX, value=high),
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=400, dst_in=4, src_in=4),
            Finish(),
        ]
        simulator = Simulator(config, kernels=kernels)
        simulator.map(BASE, memory)
        simulator.set_region(0, BASE, memory.size)
        simulator.run(encode_stream(insns, config))
        acc = simulator.scratchpad(Memory.ACC, 0, 1600).view("<i4").reshape(tiles.shape)
        expected = rq(
            *tiles.transpose(1, 0, 2), zero_point=zero_point, low=low, high=high, rounding=rounding
        )
        np.testing.assert_array_equal(acc[:, 0], expected)


def test_simulators_run_side_by_side_in_threads() -> None:
    programs = [random_program(VTA, np.random.default_rng(seed), 30) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for program, (memory, _, _) in zip(programs, pool.map(simulate, programs), strict=True):
            np.testing.assert_array_equal(memory, refer(program)[0])


# --- what stops a program -------------------------------------------------------------------------
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


def test_abort_from_another_thread_ends_a_run() -> None:
    simulator = Simulator(VTA, strict=False, timing=False)
    memory = np.zeros(1 << 16, np.uint8)
    simulator.map(BASE, memory)
    insns = assemble(
        "gemm acc[u] += inp[u] * wgt[u] for i<1000 j<100 u in 0..1\n" * 20_000 + "finish", VTA
    )
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(simulator.run(insns, check=False)))
    thread.start()
    while simulator.progress() == 0:
        time.sleep(0.001)
    simulator.abort()
    thread.join(30)
    assert results[0].status == "ABORTED"
    assert 0 < results[0].insns_done < 20_000


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


# --- the interface --------------------------------------------------------------------------------
def test_the_paths_of_this_processor(figure: Callable[[str], None]) -> None:
    assert HOST_KERNELS[0] == "portable"
    figure(f"simulator: kernels {', '.join(HOST_KERNELS)} on this processor")


def test_kernels_can_be_forced_and_fall_back_by_block_size() -> None:
    simulator = Simulator(TINY, kernels="portable")
    assert simulator.kernels == "portable"
    with pytest.raises(SimulationError, match="is not one of best, portable, avx2, avx512"):
        simulator.use_kernels("mmx")
    assert kernels_available(TINY) == ["portable"], "blocks of 4 are too small for vectors"
    assert kernels_available(VTA)[0] == "portable"


def test_changing_kernels_keeps_the_scratchpads() -> None:
    program = random_program(load_config("vtaq-1x16x16"), np.random.default_rng(3))
    _, simulator, _ = simulate(program, kernels="portable")
    before = {m: simulator.scratchpad(m) for m in (Memory.WGT, Memory.INP, Memory.ACC, Memory.UOP)}
    for kernels in kernels_available(program.config):
        simulator.use_kernels(kernels)
        for memory, tiles in before.items():
            np.testing.assert_array_equal(simulator.scratchpad(memory), tiles)


def test_counters_add_up() -> None:
    program = random_program(VTA, np.random.default_rng(1), 40)
    _, _, result = simulate(program)
    assert result.insns_done == len(program.objects) == sum(result.insns.values())
    assert result.gemm_steps == sum(i.steps for i in program.objects if isinstance(i, Gemm))
    assert result.macs == 256 * sum(
        i.steps for i in program.objects if isinstance(i, Gemm) and not i.reset
    )
    assert result.read_bytes["fetch"] == 16 * len(program.objects)
    assert result.read_bytes["uop"] == 4 * sum(
        i.x_size for i in program.objects if isinstance(i, Load) and i.memory_id == Memory.UOP
    )
    for stage in ("load", "compute", "store"):
        waited = result.stall_token_cycles[stage] + result.stall_fetch_cycles[stage]
        assert result.busy_cycles[stage] + waited <= result.cycles
        assert result.stall_dram_cycles[stage] <= result.busy_cycles[stage]
    assert result.utilisation(VTA) == result.macs / 256 / result.cycles


def test_names_of_timing_constants_are_checked() -> None:
    with pytest.raises(SimulationError, match="timing constant nonsense is unknown"):
        Simulator(VTA).set_timing("nonsense", 1)
    with pytest.raises(SimulationError, match="outside"):
        Simulator(VTA).set_timing("nop_cycles", -1)
