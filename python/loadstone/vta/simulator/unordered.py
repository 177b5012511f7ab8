# SPDX-License-Identifier: Apache-2.0
"""Races, and reads of uninitialised memory, in an artifact's device programs.

In:   an artifact and its device.
Out:  findings, program by program.
Next: analysis/tokens.py names their layers; tests require none of every compiled model.

Neither depends on values, so that each program runs alone: memory contains zeros and the artifact's
constants, and the scratchpads are as after a reset, because a program must not depend on what the
program before left in them.
"""

from __future__ import annotations

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Finish, Store
from loadstone.vta.isa.spec import INSN_BYTES, Capability
from loadstone.vta.simulator.result import Finding
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.vectors import absolute

__all__ = ["findings"]

_SPACING = 1 << 28


def findings(
    artifact: Artifact, config: HwConfig, *, uninitialised: bool = True, order: str = "program"
) -> list[tuple[int, Finding]]:
    """(number of the step, finding), as they are met in this order of instructions (sim.ORDERS).
    uninitialised: also reads of scratchpad tiles that were never written. Raises SimulationError
    for a program that does not reach its FINISH."""
    simulator = Simulator(
        config, timing=False, races=True, uninitialised=uninitialised, order=order
    )
    late = Simulator(config, timing=False, strict=False, order="load-first")
    bases = [_SPACING * (number + 1) for number in range(len(artifact.regions))]
    for number, region in enumerate(artifact.regions):
        if not region.on_device:
            continue
        memory = (
            np.frombuffer(region.data, np.uint8)
            if region.data
            else np.zeros(region.size_bytes, np.uint8)
        )
        read_only = not region.device_writes
        for each in (simulator, late):
            each.map(bases[number], memory, read_only=read_only)
            if config.has(Capability.REGIONS):
                each.set_region(number, bases[number], region.size_bytes, read_only=read_only)
    found = []
    for number, program in artifact.numbered_programs:
        if program.device != 0:
            continue
        simulator.reset()
        instructions = program.instructions
        if not config.has(Capability.REGIONS):  # as the runtime does when it binds a model
            rows = np.frombuffer(instructions, np.uint8).reshape(-1, INSN_BYTES)
            instructions = absolute(rows, config, bases).tobytes()
        simulator.run(instructions)
        found += [(number, finding) for finding in simulator.findings()]
        found += [(number, finding) for finding in _unfinished(late, instructions, config)]
    return found


def _unfinished(late: Simulator, instructions: bytes, config: HwConfig) -> list[Finding]:
    """A store that FINISH does not wait for: the device would say that it is done before it is.
    late: runs stores as late as tokens allow."""
    late.reset()
    done = late.run(instructions).insns["store"]
    insns = list(decode_stream(instructions, config))
    stores = [number for number, insn in enumerate(insns) if isinstance(insn, Store)]
    if done == len(stores):
        return []
    finish = next(number for number, insn in enumerate(insns) if isinstance(insn, Finish))
    store = stores[done]
    written = insns[store]
    assert isinstance(written, Store)
    place = "INP" if written.to_inp else "DRAM"
    text = (
        f"race: instruction {finish} finishes and {store} writes {place}, and no token orders them "
        f"({late.assembler(finish)}; {late.assembler(store)})"
    )
    return [Finding("race", place, finish, store, (False, True), 0, 0, text)]
