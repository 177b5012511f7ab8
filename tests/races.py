"""Run an artifact's device programs where races and reads of what nobody wrote are found.

In:   an artifact and its device.
Out:  AssertionError naming the instructions, when a program has either.
Next: every test that compiles something calls it.

Neither depends on the values computed, so that each program runs alone, on memory of zeros beside
the artifact's constants, its scratchpads as after a reset: it must not need what the program before
left in them.
"""

from __future__ import annotations

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.simulator.sim import Simulator
from loadstone.simulator.vectors import absolute
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import INSN_BYTES, Capability

__all__ = ["check_races"]

_SPACING = 1 << 28


def check_races(artifact: Artifact, config: HwConfig) -> None:
    """Raises AssertionError with the first findings."""
    simulator = Simulator(config, timing=False, races=True, uninitialised=True)
    bases = [_SPACING * (number + 1) for number in range(len(artifact.regions))]
    for number, region in enumerate(artifact.regions):
        if region.on_device:
            memory = (
                np.frombuffer(region.data, np.uint8)
                if region.data
                else np.zeros(region.size_bytes, np.uint8)
            )
            simulator.map(bases[number], memory, read_only=not region.device_writes)
            if config.has(Capability.REGIONS):
                simulator.set_region(
                    number, bases[number], region.size_bytes, read_only=not region.device_writes
                )
    for program in artifact.programs:
        simulator.reset()
        instructions = program.instructions
        if not config.has(Capability.REGIONS):  # as the runtime does when it binds a model
            rows = np.frombuffer(instructions, np.uint8).reshape(-1, INSN_BYTES)
            instructions = absolute(rows, config, bases).tobytes()
        simulator.run(instructions)
        findings = [f"{program.name}: {finding.text}" for finding in simulator.findings()]
        assert not findings, "\n".join(findings[:5])
