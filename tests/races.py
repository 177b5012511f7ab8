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
from loadstone.vta.hw_config import HwConfig

__all__ = ["check_races"]

_SPACING = 1 << 28


def check_races(artifact: Artifact, config: HwConfig) -> None:
    """Raises AssertionError with the first findings."""
    simulator = Simulator(config, timing=False, races=True, uninitialised=True)
    for number, region in enumerate(artifact.regions):
        if region.on_device:
            memory = (
                np.frombuffer(region.data, np.uint8)
                if region.data
                else np.zeros(region.size_bytes, np.uint8)
            )
            base = _SPACING * (number + 1)
            simulator.map(base, memory, read_only=not region.device_writes)
            simulator.set_region(
                number, base, region.size_bytes, read_only=not region.device_writes
            )
    for program in artifact.programs:
        simulator.reset()
        simulator.run(program.instructions)
        findings = [f"{program.name}: {finding.text}" for finding in simulator.findings()]
        assert not findings, "\n".join(findings[:5])
