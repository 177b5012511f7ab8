# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/sim.py: equal to vta/meaning/reference.py on random programs with all kernels; and
what the interface promises."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.graph.bfloat16 import widened
from loadstone.library.native import ffi, lib
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Alu, Gemm, Load
from loadstone.vta.isa.spec import TOKEN_FLAGS, Capability, Memory
from loadstone.vta.simulator.sim import Simulator, kernels_available
from tests.edges import gemm_edges, gemm_loops, requantization_edges, requantization_loops
from tests.programs import Program, random_program
from tests.repeat import times
from tests.simulated import (
    DEVICES,
    HOST_KERNELS,
    LARGEST_BLOCK,
    TINY,
    VTA,
    refer,
    simulate,
    simulate_again,
)


class Paths:
    """A device on every path of inner loops that this processor has for it: one simulator each, for
    program after program."""

    def __init__(self, config: HwConfig) -> None:
        paths = kernels_available(config)
        self.simulators = [
            Simulator(config, kernels=path, races=path == paths[0], uninitialised=path == paths[0])
            for path in paths
        ]

    def check_equal(self, program: Program, what: str) -> None:
        expected, machine = refer(program)
        pads = {Memory.ACC: machine.acc, Memory.INP: machine.inp, Memory.WGT: machine.wgt}
        for simulator in self.simulators:
            where = f"{what}, {simulator.kernels}"
            memory, result = simulate_again(simulator, program)
            assert [f.text for f in simulator.findings()] == [], where
            assert result.cycles > 0
            equal(memory, expected, where)
            for name, pad in pads.items():
                tiles = simulator.scratchpad(name)
                equal(contents(tiles, pad), bits(pad), f"{where}, {name.name}")


def contents(tiles: np.ndarray, pad: np.ndarray) -> np.ndarray:
    """Tiles as they stand in DRAM, as `bits` shows them."""
    if pad.dtype == np.float32 and tiles.size < pad.nbytes:
        return bits(widened(tiles.view("<u2")).reshape(pad.shape))
    return bits(tiles.view(pad.dtype).reshape(pad.shape))


def bits(pad: np.ndarray) -> np.ndarray:
    """A scratchpad's contents; of floats the bits, one for all that are no number."""
    if pad.dtype != np.float32:
        return pad
    return np.where(np.isnan(pad), np.float32(np.nan), pad).view(np.uint32)


def equal(actual: np.ndarray, expected: np.ndarray, what: str) -> None:
    if not np.array_equal(actual, expected):
        np.testing.assert_array_equal(actual, expected, err_msg=what)  # slower, and says where


@pytest.mark.parametrize("config", DEVICES, ids=lambda c: c.name)
def test_equal_to_the_reference_on_random_programs(config: HwConfig) -> None:
    paths = Paths(config)
    for seed in range(30):
        paths.check_equal(
            random_program(config, np.random.default_rng(seed)), f"{config.name}, seed {seed}"
        )


@pytest.mark.full
@pytest.mark.parametrize("config", DEVICES, ids=lambda c: c.name)
def test_equal_to_the_reference_on_thousands_of_random_programs(config: HwConfig) -> None:
    paths = Paths(config)
    everything = 20_000 // 3 if config.is_float else 20_000 // len(DEVICES)  # three of floats
    for seed in range(1000, 1001 + times(2_000 // len(DEVICES), everything)):
        paths.check_equal(
            random_program(config, np.random.default_rng(seed), 16), f"{config.name}, seed {seed}"
        )


@pytest.mark.parametrize("kernels", HOST_KERNELS)
@pytest.mark.parametrize("rounding", Rounding)
def test_requantization_at_the_edges_of_every_operand(kernels: str, rounding: Rounding) -> None:
    for program, expected in requantization_edges(rounding):
        _, simulator, _ = simulate(program, kernels=kernels)
        acc = simulator.scratchpad(Memory.ACC, 0, 4 * len(expected)).view("<i4").reshape(-1, 4, 16)
        np.testing.assert_array_equal(acc[:, 0], expected)


@pytest.mark.parametrize("config", [*DEVICES, LARGEST_BLOCK], ids=lambda c: c.name)
def test_products_at_the_edges_of_every_operand(config: HwConfig) -> None:
    paths = Paths(config)
    for program in gemm_edges(config):
        paths.check_equal(program, config.name)


@pytest.mark.parametrize("config", [c for c in DEVICES if not c.is_float], ids=lambda c: c.name)
def test_loops_of_all_shapes(config: HwConfig) -> None:
    paths = Paths(config)
    for program in gemm_loops(config):
        paths.check_equal(program, config.name)
    if config.has(Capability.REQUANTIZE):
        for program in requantization_loops(config):
            paths.check_equal(program, config.name)


def test_a_program_that_ran_before_takes_the_cycles_that_it_takes_alone() -> None:
    """Cycles are kept with a program: each of these changes what they depend on, and back."""
    config = load_config("vtaq-1x16x16")
    program = next(requantization_loops(config))
    moved = replace(program, memory=program.memory.copy())
    uops = moved.memory[-3 * 4 :].view("<u4")
    uops[:] = uops[::-1].copy()
    longer = [
        replace(i, iter_in=i.iter_in + 1) if isinstance(i, Alu) and k % 3 == 0 else i
        for k, i in enumerate(program.objects)
    ]
    other = replace(program, objects=longer, insns=encode_stream(longer, config))
    alone = {p: simulate(p)[2].cycles for p in (program, moved, other)}
    assert len(set(alone.values())) == 3, "the test's own: that they differ is what it shows"
    simulator = Simulator(config)
    for p in (program, program, moved, program, other, other, moved, program):
        assert simulate_again(simulator, p)[1].cycles == alone[p]
    simulator.set_timing("rq_step_cycles", 9)
    slower = simulate_again(simulator, program)[1].cycles
    assert slower > alone[program]
    assert slower == simulate_again(simulator, program)[1].cycles


def test_simulators_run_side_by_side_in_threads() -> None:
    programs = [random_program(VTA, np.random.default_rng(seed), 30) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for program, (memory, _, _) in zip(programs, pool.map(simulate, programs), strict=True):
            np.testing.assert_array_equal(memory, refer(program)[0])


def test_the_paths_of_this_processor(figure: Callable[[str], None]) -> None:
    assert HOST_KERNELS[0] == "portable"
    figure(f"simulator: kernels {', '.join(HOST_KERNELS)} on this processor")


def test_the_paths_are_those_that_linux_says_this_processor_has() -> None:
    """The library asks the processor itself (hw_sim/kernels.cc); Linux asked it, too."""
    if platform.machine() != "x86_64":
        pytest.skip(f"this processor is {platform.machine()}")
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = set(text.partition("flags")[2].partition("\n")[0].split())
    wanted = {
        "avx2": {"avx2"},
        "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
    }
    there = [name for name, needed in wanted.items() if needed <= flags]
    assert kernels_available(load_config("vtaq-1x16x16")) == ["portable", *there]


def test_kernels_can_be_forced_and_fall_back_by_block_size() -> None:
    simulator = Simulator(TINY, kernels="portable")
    assert simulator.kernels == "portable"
    with pytest.raises(SimulationError, match="is not one of best, portable, avx2, avx512, neon"):
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


@pytest.mark.parametrize(
    "config", [c for c in DEVICES if not c.is_float], ids=lambda config: config.name
)
def test_inputs_that_nobody_wrote_are_zero_on_every_path(config: HwConfig) -> None:
    """Each path keeps inputs in a form of its own, in which zero need not be zeros."""
    for seed in range(times(3, 100)):
        program = random_program(config, np.random.default_rng(seed))
        insns = encode_stream(
            [
                Load(memory_id=i.memory_id, **{flag: getattr(i, flag) for flag in TOKEN_FLAGS})
                if isinstance(i, Load) and i.memory_id == Memory.INP
                else i
                for i in program.objects
            ],
            config,
        )
        dry = replace(program, insns=insns)
        expected, _ = refer(dry)
        for kernels in kernels_available(config):
            memory, _, _ = simulate(dry, kernels=kernels, strict=False)
            equal(memory, expected, f"seed {seed}, {kernels}")


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


def test_a_run_ends_before_any_instruction() -> None:
    """lds_sim_on_insn tells every instruction in its order, and ends the run where it is told to:
    the instructions before it have run, and no other."""
    config = load_config("vtaq-tiny")
    text = [f"load acc[{k}] = dram[{k} + x] for x<1" for k in range(4)]
    code = assemble("\n".join([*text, "finish"]), config)
    image = np.arange(1, 65, dtype=np.uint8)
    told: list[int] = []

    @ffi.callback("int(void *, uint32_t)")  # type: ignore[untyped-decorator]
    def ask(_: object, insn: int) -> int:
        told.append(insn)
        return int(len(told) > most)

    for most in range(6):
        told.clear()
        simulator = Simulator(config)
        simulator.map(0x1000, image)
        simulator.set_region(0, 0x1000, image.nbytes)
        lib().lds_sim_on_insn(simulator._sim, ask, ffi.NULL)
        result = simulator.run(code, address=0x8000, check=False)
        assert told == list(range(min(most + 1, 5)))
        assert (result.status, result.insns_done) == ("NONE" if most == 5 else "ABORTED", most)
        held = simulator.scratchpad(Memory.ACC, 0, 4).any(axis=1)
        assert held.tolist() == [k < most for k in range(4)]
