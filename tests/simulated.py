"""Run a random program, or assembler text, on the simulator: what the tests of the simulator share.

In:   a Program (programs.py), or text.
Out:  the memory, the Simulator, its Result.
Next: test_sim*.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.simulator.sim import Result, Simulator
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.spec import Capability
from tests.programs import BASE, Program

VTA = load_config("vta-pynq")
TINY = load_config("vtaq-tiny")


def simulate(program: Program, **options: object) -> tuple[np.ndarray, Simulator, Result]:
    """Memory after the run; with regions, region 0 is all of it."""
    memory = program.memory.copy()
    simulator = Simulator(program.config, **options)  # type: ignore[arg-type]
    simulator.map(BASE, memory)
    if program.config.has(Capability.REGIONS):
        simulator.set_region(0, BASE, memory.size)
    return memory, simulator, simulator.run(program.insns)


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
