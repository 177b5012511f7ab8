# SPDX-License-Identifier: Apache-2.0
"""The hardware under Verilator: memory, scratchpads and cycles equal to the reference's and the
simulator's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.backend.device import TimingConstant
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.registers import BITS, ERRORS, STATES
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.simulator.rtl import RtlDevice, RtlResult
from tests.programs import BASE, Program, random_program
from tests.repeat import more, times
from tests.simulated import (
    CODED,
    EIGHT_WINDOWS,
    FOUR_WINDOWS,
    GROUPED,
    ONLY_INP,
    ONLY_WHOLE,
    TINY_AHEAD,
    TINY_INP,
    TINY_STORING,
    TINY_WHOLE,
    TINY_WINDOWS,
    WORD_INP,
    WORD_WHOLE,
    refer,
    simulate,
)

pytestmark = pytest.mark.usefixtures("verilator")

TINY, EIGHT, SIXTEEN = (load_config(f"vtaq-{size}") for size in ("tiny", "1x8x8", "1x16x16"))
TWO_BY_FOUR = replace(
    TINY, name="2x4x4", log_batch=1, log_inp_buff=11, log_acc_buff=13, bus_bits=64
)
VTA = load_config("vta-pynq")
SHARED_MULTIPLIERS = replace(TINY, name="two-products", products_per_multiplier=2)
STORING, ROUTED = (load_config(f"vtaq2-{size}") for size in ("1x16x16", "tiny"))
OTHERS = (
    *(SIXTEEN, TWO_BY_FOUR, VTA, SHARED_MULTIPLIERS),
    *(STORING, EIGHT_WINDOWS, FOUR_WINDOWS, ROUTED),
    *(WORD_INP, ONLY_INP),
    *(WORD_WHOLE, ONLY_WHOLE),
)


@pytest.fixture(scope="module")
def tiny(verilator: None) -> RtlDevice:
    return RtlDevice(TINY)


@pytest.fixture(scope="module")
def storing(verilator: None) -> RtlDevice:
    """A tile is a word of the bus: the lanes must deliver one in each cycle."""
    return RtlDevice(TINY_STORING)


@pytest.fixture(scope="module")
def windows(verilator: None) -> RtlDevice:
    """Windows of up to three rows."""
    return RtlDevice(TINY_WINDOWS)


@pytest.fixture(scope="module")
def ahead(verilator: None) -> RtlDevice:
    """LOADs request their bursts before the last one has come."""
    return RtlDevice(TINY_AHEAD)


@pytest.fixture(
    scope="module",
    params=[TINY_AHEAD, pytest.param(TINY_INP, marks=more)],
    ids=lambda config: config.name,
)
def to_inp(verilator: None, request: pytest.FixtureRequest) -> RtlDevice:
    """Stores that reach INP, in four banks; beside LOADs ahead, and without."""
    return RtlDevice(request.param)


def run(device: RtlDevice, program: Program, latency: int = 0) -> tuple[np.ndarray, RtlResult]:
    """Memory after the run; with regions, region 0 is all of it."""
    memory = program.memory.copy()
    device.unmap_all()
    device.set_latency(latency)
    device.map(BASE, memory)
    if program.config.has(Capability.REGIONS):
        device.set_region(0, BASE, memory.size)
    return memory, device.run(program.insns, cycle_limit=1 << 20)


def check(device: RtlDevice, seed: int, latencies: tuple[int, ...] = (0, 64)) -> int:
    """One random program, with one memory after the other. Returns its cycles."""
    config, latency = device.config, latencies[seed % len(latencies)]
    program = random_program(config, np.random.default_rng(seed))
    memory, result = run(device, program, latency)
    timing = dict(config.timing)
    timing["read_burst_extra_cycles"] = replace(timing["read_burst_extra_cycles"], value=latency)
    expected = refer(program)[0]
    simulated = simulate(replace(program, config=replace(config, timing=timing)), strict=False)[2]
    where = f"{config.name}, seed {seed}"
    assert result.status == "NONE", where
    assert np.array_equal(memory, expected), where
    assert result.cycles == simulated.cycles, where
    assert result.busy_cycles == tuple(simulated.busy_cycles.values()), where
    assert (result.read_beats, result.write_beats) == (
        simulated.read_beats,
        simulated.write_beats,
    ), where
    assert (result.read_bursts, result.write_bursts) == (
        simulated.read_bursts,
        simulated.write_bursts,
    ), where
    assert result.read_bytes == sum(simulated.read_bytes.values()), where
    assert result.write_bytes == simulated.write_bytes, where
    assert result.insns_done == simulated.insns_done, where
    return result.cycles


def test_random_programs_are_the_simulators_in_bytes_and_cycles(tiny: RtlDevice) -> None:
    assert sum(check(tiny, seed) for seed in range(times(60, 10_000))) > 10_000


def test_stores_that_requantize_are_the_simulators_in_bytes_and_cycles(storing: RtlDevice) -> None:
    assert sum(check(storing, seed) for seed in range(times(60, 10_000))) > 10_000


@pytest.mark.parametrize(
    "config",
    [GROUPED[0], *(pytest.param(c, marks=more) for c in GROUPED[1:-1]), GROUPED[-1]],
    ids=lambda config: config.name,
)
def test_weights_of_4_bits_are_the_simulators_in_bytes_and_cycles(config: HwConfig) -> None:
    """Groups of one tile, two, four and eight."""
    device = RtlDevice(config)
    assert sum(check(device, seed) for seed in range(times(20, 10_000))) > 3_000


@pytest.mark.parametrize(
    "config", [CODED[0], pytest.param(CODED[1], marks=more)], ids=lambda config: config.name
)
def test_weights_in_bit_planes_are_the_simulators_in_bytes_and_cycles(config: HwConfig) -> None:
    """One LOAD at a time behind another, and four; tiles of one group, and of four."""
    device = RtlDevice(config)
    latencies = (0, 64, 7)
    assert sum(check(device, seed, latencies) for seed in range(times(20, 10_000))) > 3_000


def test_windows_are_the_simulators_in_bytes_and_cycles(windows: RtlDevice) -> None:
    assert sum(check(windows, seed) for seed in range(times(60, 10_000))) > 10_000


def test_loads_ahead_are_the_simulators_in_bytes_and_cycles(ahead: RtlDevice) -> None:
    latencies = (0, 64, 7, 200)
    assert sum(check(ahead, seed, latencies) for seed in range(times(60, 10_000))) > 10_000


def test_stores_of_whole_accumulators_are_the_simulators_in_bytes_and_cycles() -> None:
    """Beside narrow ones and those that requantize; LOADs of ACC read what they wrote."""
    device = RtlDevice(TINY_WHOLE)
    assert sum(check(device, seed) for seed in range(times(60, 10_000))) > 10_000


AHEAD = """
load inp[0] = dram[0 + 9y + x] for y<4 x<6
load inp[20] = dram[256 + x] for x<6 pad top 2 left 3 right 2 bottom 1
load wgt[3] = dram[70 + x] for x<5
load inp[4] = dram[512 + x] for x<40
config load pad_value = 9
load inp[2] = dram[640 + 8y + x] for y<3 x<4 pad left 2
load inp[9] = dram[1024 + x] for y<0 x<4 pad top 1
load wgt[4] = dram[3 + 2y + x] for y<9 x<1 push(compute)
pop(load) finish
"""


@pytest.mark.parametrize("loads", [1, 2, 4])
@pytest.mark.parametrize("latency", [0, 64, 300])
def test_loads_of_the_same_tiles_leave_what_the_last_one_wrote(loads: int, latency: int) -> None:
    """Padding of the second waits for words of the first, a CONFIG for both."""
    timing = {
        **TINY_AHEAD.timing,
        "loads_in_flight": TimingConstant(loads, "for this test"),
        "read_burst_extra_cycles": TimingConstant(latency, "for this test"),
    }
    name = TINY_AHEAD.name if loads == 4 else f"tiny-ahead-{loads}"  # of a name, the same hardware
    config = replace(TINY_AHEAD, name=name, timing=timing)
    device = RtlDevice(config)
    memory = np.random.default_rng(loads).integers(0, 256, 1 << 16, np.uint8)
    program = Program(config, [], assemble(AHEAD, config), memory)
    for seed in (0, 5):
        device.set_stalls(seed)
        _, result = run(device, program, latency)
        simulated = simulate(program, strict=False)[2]
        assert seed or result.cycles == simulated.cycles
        assert seed or result.busy_cycles == tuple(simulated.busy_cycles.values())
        machine = refer(program)[1]
        for place, tiles in ((Memory.INP, machine.inp), (Memory.WGT, machine.wgt)):
            found = device.scratchpad(place).reshape(-1)
            assert np.array_equal(found, tiles.reshape(-1).view(np.uint8)), (seed, place)


@pytest.mark.parametrize(
    ("second", "error", "pc"),
    [
        ("load inp[0] = dram[16380 + x] for x<8", "DRAM_BOUNDS", 1),
        ("load inp[0] = dram6[6000 + x] for x<8", "BUS", 1),
        ("load inp[255] = dram[0 + x] for x<2", "SRAM_BOUNDS", 1),
    ],
)
def test_a_load_ahead_that_fails_is_named(
    ahead: RtlDevice, second: str, error: str, pc: int
) -> None:
    ok = "load inp[0] = dram[0 + x] for x<64"
    for _ in range(2):
        result = text(ahead, f"{ok}\n{second}\n{ok} push(compute)\npop(load) finish")
        assert (result.status, result.error_pc) == (error, pc)
    assert text(ahead, f"{ok} push(compute)\npop(load) finish").status == "NONE"


def test_stores_to_inp_are_the_simulators_in_bytes_and_cycles(to_inp: RtlDevice) -> None:
    """INP is read back by products; a LOAD and a STORE write it at once, each other tiles."""
    assert sum(check(to_inp, seed) for seed in range(times(60, 10_000))) > 10_000


@pytest.mark.parametrize("latency", [0, 64])
def test_a_tile_goes_to_inp_in_each_cycle_beside_a_load(to_inp: RtlDevice, latency: int) -> None:
    """Rows long and short, requantized or not, while the load stage fills the rest of INP."""
    half = to_inp.config.depth(Memory.INP) // 2
    for rows, columns, stride in ((1, half, 0), (2, half // 2, half // 2), (7, 3, 5), (9, 1, 0)):
        for way, cycles in (("", 0), (" rq acc[9]", 17), (" rq acc[9 + 3y]", 14 + 3 * rows)):
            text = (
                f"load acc[0] = dram[64 + x] for x<{half} push(store)\n"
                f"load inp[{half}] = dram[0 + x] for x<{half - 9} pad right 9 push(compute)\n"
                f"pop(compute) store inp[0 + {stride}y + x] = out[0]{way} for y<{rows} "
                f"x<{columns} push(compute)\npop(load) pop(store) finish"
            )
            memory = np.random.default_rng(rows).integers(0, 256, 1 << 14, np.uint8)
            program = Program(to_inp.config, [], assemble(text, to_inp.config), memory)
            expected = to_inp.scratchpad(Memory.INP).reshape(-1, 16)  # others stay as they are
            result = run(to_inp, program, latency)[1]
            assert result.status == "NONE", text
            assert result.busy_cycles[2] == 2 + rows * columns + cycles, (text, latency)
            written = stride * np.arange(rows)[:, None] + np.arange(columns)
            written = np.union1d(written, np.arange(half, 2 * half))
            inp = refer(program)[1].inp.reshape(-1, 16).view(np.uint8)
            expected[written] = inp[written]
            found = to_inp.scratchpad(Memory.INP).reshape(-1, 16)
            assert np.array_equal(found, expected), (text, latency)


@pytest.mark.parametrize(
    ("store", "error"),
    [
        ("store inp[{} + 2y + x] = out[0] for y<4 x<3", "SRAM_BOUNDS"),
        ("store inp[{} + 2y + x] = out[0] rq acc[0] for y<4 x<3", "SRAM_BOUNDS"),
        ("store inp[4294967295 + x] = out[0] for x<1", "SRAM_BOUNDS"),
        ("store inp[0 + x] = out[0] for x<1 with region=1", "BAD_INSTRUCTION"),
        ("store inp[0 + x] = out[65535] for x<1", "SRAM_BOUNDS"),
    ],
)
def test_a_store_beyond_inp_is_refused(
    to_inp: RtlDevice, storing: RtlDevice, store: str, error: str
) -> None:
    program = f"nop compute\n{store} push(compute)\npop(store) finish"
    last = to_inp.config.depth(Memory.INP) - 9
    result = text(to_inp, program.format(last + 1))
    assert (result.status, result.error_pc, result.error_address) == (error, 1, 0)
    if "{" in store:
        assert text(to_inp, program.format(last)).status == "NONE"
    lacking = text(storing, program.format(0))
    assert (lacking.status, lacking.error_pc) == ("BAD_INSTRUCTION", 1)


WINDOW = "depthwise acc[u] = inp[u+{}i+{}r] * wgt[u] for i<2 j<1 u in 0..1 r<{} c<{}"


@pytest.mark.parametrize(("rows", "stride", "columns"), [(3, 1, 2), (2, 2, 2), (1, 9, 3)])
def test_a_window_beyond_inp_is_refused(
    ahead: RtlDevice, rows: int, stride: int, columns: int
) -> None:
    last = TINY_WINDOWS.depth(Memory.INP) - (rows - 1) * stride - columns
    for first, wanted in ((last, "NONE"), (last + 1, "SRAM_BOUNDS")):
        insn = WINDOW.format(first, stride, rows, columns)
        result = text(ahead, f"load uop[0] = dram[0 + x] for x<1\n{insn}\nfinish")
        assert result.status == wanted, first
        assert result.error_pc == (1 if first > last else 0)


@pytest.mark.parametrize(
    "insn",
    [
        WINDOW.format(0, 9, 0, 1),
        WINDOW.format(0, 9, 1, 0),
    ],
)
def test_a_window_that_no_device_has_is_refused(ahead: RtlDevice, insn: str) -> None:
    bad = text(ahead, f"nop compute\n{insn}\nfinish")
    assert (bad.status, bad.error_pc) == ("BAD_INSTRUCTION", 1)


def test_a_device_without_windows_refuses_them(tiny: RtlDevice) -> None:
    bad = text(tiny, f"nop compute\n{WINDOW.format(0, 1, 1, 1)}\nfinish")
    assert (bad.status, bad.error_pc) == ("BAD_INSTRUCTION", 1)


@pytest.mark.parametrize("latency", [0, 64])
def test_rows_that_requantize_are_as_fast_as_the_bus(storing: RtlDevice, latency: int) -> None:
    """Longer than the queue behind the lanes, and short with operands of their own."""
    depth = TINY_STORING.depth(Memory.ACC)
    for rows, columns in ((1, depth), (2, depth // 2), (3, 40), (20, 1), (9, 3), (5, 18)):
        for step in ("", " + 3y"):
            text = (
                f"store dram[4 + {columns + 1}y + x] = out[0] rq acc[9{step}] "
                f"for y<{rows} x<{columns} push(compute)\npop(store) finish"
            )
            memory = np.random.default_rng(rows).integers(0, 256, 1 << 13, np.uint8)
            load = f"load acc[0] = dram[64 + x] for x<{depth} push(store)\npop(compute) "
            insns = assemble(load + text, TINY_STORING)
            program = Program(TINY_STORING, [], insns, memory)
            found, result = run(storing, program, latency)
            timing = dict(TINY_STORING.timing)
            extra = replace(timing["read_burst_extra_cycles"], value=latency)
            timing["read_burst_extra_cycles"] = extra
            timed = replace(program, config=replace(TINY_STORING, timing=timing))
            assert result.cycles == simulate(timed, strict=False)[2].cycles, (text, latency)
            assert np.array_equal(found, refer(program)[0]), (text, latency)


@pytest.mark.parametrize(
    ("store", "error"),
    [
        ("store dram[0 + 1y + x] = out[0] rq acc[{}] for y<4 x<1", "SRAM_BOUNDS"),
        ("store dram[0 + 1y + x] = out[0] rq acc[{} + 3y] for y<4 x<1", "SRAM_BOUNDS"),
        ("store dram7[0 + x] = out[0] rq acc[0] for x<1", "DRAM_BOUNDS"),
        ("store dram[0 + x] = out[0] for x<1 with operands=1", "BAD_INSTRUCTION"),
        ("config store pad_value = 3", "BAD_INSTRUCTION"),
    ],
)
def test_a_store_that_cannot_requantize_is_refused(
    storing: RtlDevice, tiny: RtlDevice, store: str, error: str
) -> None:
    last = TINY_STORING.depth(Memory.ACC) - (12 if "y]" in store else 3)
    program = f"nop compute\n{store} push(compute)\npop(store) finish"
    result = text(storing, program.format(last + 1))
    assert (result.status, result.error_pc) == (error, 1)
    if "{" in store:
        assert text(storing, program.format(last)).status == "NONE"
    lacking = text(tiny, program.format(0))
    assert (lacking.status, lacking.error_pc) == ("BAD_INSTRUCTION", 1)


@pytest.mark.parametrize(
    "config", [EIGHT, *(pytest.param(c, marks=more) for c in OTHERS)], ids=lambda c: c.name
)
def test_random_programs_of_other_devices(config: HwConfig) -> None:
    device = RtlDevice(config)
    for seed in range(times(20, 10_000)):
        check(device, seed)


@pytest.mark.parametrize(
    "config", [TINY, TINY_STORING, TINY_WINDOWS, TINY_AHEAD, TINY_INP], ids=lambda c: c.name
)
def test_a_memory_that_is_not_always_ready_changes_no_byte(
    verilator: None, config: HwConfig
) -> None:
    """Requests, words, beats and acknowledgements wait for each other, each in its own cycles."""
    device = RtlDevice(config)
    for seed in range(1, times(9, 1001)):
        program = random_program(config, np.random.default_rng(seed))
        prompt = run(device, program)[1].cycles
        device.set_stalls(seed)
        memory, result = run(device, program)
        device.set_stalls(0)
        assert result.status == "NONE", seed
        assert np.array_equal(memory, refer(program)[0]), seed
        assert result.cycles > prompt, seed


@pytest.mark.parametrize("config", [TINY, TINY_WINDOWS, TINY_AHEAD, TINY_INP], ids=lambda c: c.name)
def test_scratchpads_are_the_references(config: HwConfig) -> None:
    for seed in range(5):
        device = RtlDevice(config)
        program = random_program(config, np.random.default_rng(seed))
        run(device, program)
        machine = refer(program)[1]
        for memory, tiles in (
            (Memory.INP, machine.inp),
            (Memory.WGT, machine.wgt),
            (Memory.ACC, machine.acc),
            (Memory.OUT, machine.acc.astype(np.int8)),
        ):
            found = device.scratchpad(memory).reshape(-1)
            assert np.array_equal(found, tiles.reshape(-1).view(np.uint8)), (seed, memory)


def text(device: RtlDevice, program: str, **limits: int) -> RtlResult:
    """Assembler text on 64 KiB of zeros; region 7 refuses stores."""
    memory = np.zeros(1 << 16, np.uint8)
    device.unmap_all()
    device.set_latency(0)
    device.map(BASE, memory)
    for region in range(8):
        size = 1 << 17 if region == 6 else memory.size
        device.set_region(region, BASE, size, read_only=region == 7)
    return device.run(assemble(program, device.config), **limits)


#: FINISH comes when the instruction before it is done.
LOADED, STORED = (f"push(compute)\npop({stage}) finish" for stage in ("load", "store"))


@pytest.mark.parametrize(
    ("program", "error", "pc"),
    [
        (f"nop compute\nload inp[255] = dram[0 + x] for x<2 {LOADED}", "SRAM_BOUNDS", 1),
        (f"load inp[0] = dram[16380 + x] for x<8 {LOADED}", "DRAM_BOUNDS", 0),
        (f"store dram[16380 + x] = out[0] for x<8 {STORED}", "DRAM_BOUNDS", 0),
        (f"store dram7[0 + x] = out[0] for x<8 {STORED}", "DRAM_BOUNDS", 0),
        (f"load inp[0] = dram6[20000 + x] for x<8 {LOADED}", "BUS", 0),
        (f"store dram6[20000 + x] = out[0] for x<8 {STORED}", "BUS", 0),
        ("nop compute\ngemm acc[u+200i] = 0 for i<3 j<1 u in 0..1\nfinish", "SRAM_BOUNDS", 1),
        ("alu acc[u] += acc[u+200i] for i<3 j<1 u in 0..1\nfinish", "SRAM_BOUNDS", 0),
        ("pop(load) nop compute\nfinish", "DEADLOCK", 0),
        ("nop compute\nnop load", "DEADLOCK", 1),
    ],
)
def test_what_is_wrong_stands_in_the_registers(
    tiny: RtlDevice, program: str, error: str, pc: int
) -> None:
    for _ in range(2):  # a program that fails leaves nothing behind
        result = text(tiny, program)
    assert (result.status, result.error_pc) == (error, pc)
    if error == "BUS":
        assert result.error_address == BASE + 80_000
    assert text(tiny, "nop compute\nfinish").status == "NONE"


def test_an_instruction_that_the_device_does_not_know(tiny: RtlDevice) -> None:
    for byte, bit in ((0, 6), (0, 7), (7, 0x20)):
        insns = np.frombuffer(assemble("nop compute\nfinish", TINY), np.uint8).copy()
        insns[16 + byte] |= bit
        result = tiny.run(insns)
        expected = "BAD_INSTRUCTION"
        assert (result.status, result.error_pc) == (expected, 1), (byte, bit)
    for opcode in (6, 7):
        insns = np.frombuffer(assemble("nop compute\nfinish", TINY), np.uint8).copy()
        insns[16] = opcode
        result = tiny.run(insns)
        assert (result.status, result.error_pc, result.insns_done) == ("BAD_INSTRUCTION", 1, 1)
        assert tiny.register("STATUS") == STATES["ERROR"]


def test_abort_ends_a_long_instruction(tiny: RtlDevice) -> None:
    program = "nop compute\ngemm acc[u] = 0 for i<16383 j<16383 u in 0..1\nfinish"
    result = text(tiny, program, cycle_limit=3000)
    assert (result.status, result.error_pc, result.insns_done) == ("ABORTED", 1, 1)
    assert 3000 <= result.cycles < 3100
    assert text(tiny, "nop compute\nfinish").status == "NONE"


def test_the_page_of_registers(tiny: RtlDevice) -> None:
    tiny.hw_reset()
    assert tiny.register("ID") == 0x3153444C
    assert (tiny.register("VERSION"), tiny.register("CAPS")) == (1, int(TINY.capabilities))
    assert tiny.register("CONFIG_HASH") == TINY.config_hash
    assert tiny.register("STATUS") == STATES["IDLE"]
    tiny.set_region(3, 0x1_2345_6780, 0x77)
    assert tiny.counter("REGION_BASE") == 0
    assert tiny.read32(0x40 + 24) | tiny.read32(0x44 + 24) << 32 == 0x1_2345_6780
    text(tiny, "pop(load) nop compute\nfinish")
    assert tiny.register("STATUS") == STATES["ERROR"]
    assert tiny.register("ERROR") == ERRORS["DEADLOCK"][0]
    tiny.write32(0x10, BITS["CTRL_SOFT_RESET"])
    tiny.step(20)
    assert (tiny.register("STATUS"), tiny.register("ERROR")) == (STATES["IDLE"], 0)
    assert tiny.read32(0x40 + 24) == 0
