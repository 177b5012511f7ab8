# SPDX-License-Identifier: Apache-2.0
"""Run a random program, or assembler text, on the simulator: what the tests of the simulator share.

In:   a Program (programs.py), or text.
Out:  the memory, the Simulator, its Result; what the reference makes of the same program.
Next: test_sim*.py, recorded.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.backend.device import TimingConstant
from loadstone.vta.device.hw_config import HwConfig, builtin_timing, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.spec import Capability
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.result import Result
from loadstone.vta.simulator.sim import Simulator, kernels_available
from tests.programs import BASE, Program

VTA = load_config("vta-pynq")
TINY = load_config("vtaq-tiny")
#: The second generation at the least size: its stores requantize, a tile in each cycle.
TINY_STORING = replace(
    TINY,
    name="tiny-storing",
    capabilities=TINY.capabilities | Capability.STORE_REQUANTIZE,
    timing=builtin_timing("vtaq2-rtl"),
)
#: The same with windows of three rows, and with those that smaller blocks have.
TINY_WINDOWS = replace(
    TINY_STORING,
    name="tiny-windows",
    log_block=4,
    log_inp_buff=12,
    log_wgt_buff=13,
    log_acc_buff=13,
    bus_bits=64,
    capabilities=TINY_STORING.capabilities | Capability.DEPTHWISE,
)
EIGHT_WINDOWS = replace(
    TINY_WINDOWS, name="2x8x8-windows", log_batch=1, log_block=3, log_wgt_buff=12
)
FOUR_WINDOWS = replace(
    TINY_STORING,
    name="1x4x4-windows",
    capabilities=TINY_STORING.capabilities | Capability.DEPTHWISE,
)
#: All that the second generation can, with four LOADs on their way behind a memory that works on as
#: many bursts as are requested.
TINY_AHEAD = replace(
    TINY_WINDOWS,
    name="tiny-ahead",
    capabilities=TINY_WINDOWS.capabilities
    | Capability.STORE_INP
    | Capability.WEIGHTS4
    | Capability.STORE_ACC,
    timing={
        **TINY_WINDOWS.timing,
        "loads_in_flight": TimingConstant(4, "for tests"),
        "read_bursts_outstanding": TimingConstant(16, "for tests"),
    },
)
#: Weights in bit planes, of tiles of one group and of four.
CODED = [
    replace(
        device,
        name=f"{device.name}-code",
        capabilities=device.capabilities | Capability.WEIGHT_CODE,
        bus_bits=64,
    )
    for device in (TINY_AHEAD, load_config("vtaq-1x32x32"))
]
#: Weights of 4 bits in groups of one tile, two, four and eight.
GROUPED = [
    replace(
        device,
        name=f"{device.name}-weights4",
        capabilities=device.capabilities | Capability.WEIGHTS4,
        bus_bits=min(128, device.bus_bits),
    )
    for device in (load_config("vtaq-1x32x32"), TINY_WINDOWS, EIGHT_WINDOWS, FOUR_WINDOWS)
]
#: Stores that reach INP: beside windows, where a tile is a word of the bus, and alone.
TINY_INP, WORD_INP, ONLY_INP = (
    replace(
        config,
        name=name,
        capabilities=config.capabilities | Capability.STORE_INP,
        timing=TINY_STORING.timing,
    )
    for config, name in (
        (TINY_WINDOWS, "vtaq2-tiny-inp"),
        (TINY_STORING, "1x4x4-inp"),
        (TINY, "1x4x4-inp-alone"),
    )
)
#: Stores of whole accumulators: beside those that requantize, and alone, with tiles of 8 and 32
#: bytes (of INP and of ACC, beside a batch) and with those of 4 and 16.
TINY_WHOLE, WORD_WHOLE, ONLY_WHOLE = (
    replace(
        config,
        name=name,
        capabilities=config.capabilities | Capability.STORE_ACC,
        timing=TINY_STORING.timing,
    )
    for config, name in (
        (TINY_WINDOWS, "vtaq2-tiny-acc"),
        (EIGHT_WINDOWS, "2x8x8-acc"),
        (TINY, "1x4x4-acc-alone"),
    )
)
#: Devices with tiles of all shapes, with and without each capability.
DEVICES = [
    VTA,
    replace(
        VTA, name="fsim", profile="vtaq", capabilities=Capability.ALU_MUL | Capability.LOAD_ACC8
    ),
    *(load_config(name) for name in ("vtab-1x16x16", "vtab-1x8x8")),
    replace(load_config("vtab-1x8x8"), name="vtab-2x32x32", log_batch=1, log_block=5),
    *(load_config(name) for name in ("vtaq-1x16x16", "vtaq-1x32x32", "vtaq-4x16x16", "vtaq-tiny")),
    TINY_STORING,
    TINY_WINDOWS,
    EIGHT_WINDOWS,
    FOUR_WINDOWS,
    *GROUPED,
    TINY_INP,
    ONLY_INP,
    TINY_WHOLE,
    WORD_WHOLE,
    ONLY_WHOLE,
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
#: No kernels have registers for all of its sums.
LARGEST_BLOCK = replace(
    load_config("vtaq-1x32x32"),
    name="1x128x128",
    log_block=7,
    log_inp_buff=14,
    log_wgt_buff=18,
    log_acc_buff=16,
)
#: Paths of inner loops that this processor has, the portable one first.
HOST_KERNELS = kernels_available(load_config("vtaq-1x16x16"))


def refer(program: Program) -> tuple[np.ndarray, Machine]:
    """Memory after the reference's run, and its scratchpads."""
    memory = program.memory.copy()
    machine = Machine(
        program.config,
        [DramBytes(memory, base=0 if program.config.has(Capability.REGIONS) else BASE)],
    )
    machine.run(program.insns)
    return memory, machine


def simulate(program: Program, **options: object) -> tuple[np.ndarray, Simulator, Result]:
    """Memory after the run; with regions, region 0 is all of it."""
    simulator = Simulator(program.config, **options)  # type: ignore[arg-type]
    memory, result = simulate_again(simulator, program)
    return memory, simulator, result


def simulate_again(simulator: Simulator, program: Program) -> tuple[np.ndarray, Result]:
    """The same on a simulator that may have run others: its scratchpads are as those of a new
    one."""
    memory = program.memory.copy()
    simulator.unmap_all()
    simulator.reset()
    simulator.map(BASE, memory)
    if program.config.has(Capability.REGIONS):
        simulator.set_region(0, BASE, memory.size)
    return memory, simulator.run(program.insns)


def run_text(
    text: str, config: HwConfig = VTA, memory: np.ndarray | None = None, **options: object
) -> Result:
    """Assembler text on 64 KiB of zeros at BASE (all regions of devices that have them); never
    raises."""
    return simulate_text(text, config, memory, **options)[1]


def simulate_text(
    text: str, config: HwConfig, memory: np.ndarray | None = None, limit: int = 0, **options: object
) -> tuple[Simulator, Result]:
    memory = np.zeros(1 << 16, np.uint8) if memory is None else memory
    simulator = Simulator(config, **{"strict": False, **options})  # type: ignore[arg-type]
    simulator.map(BASE, memory)
    for region in range(8 * config.has(Capability.REGIONS)):
        simulator.set_region(region, BASE, memory.size, read_only=region == 7)
    return simulator, simulator.run(assemble(text, config), cycle_limit=limit, check=False)
