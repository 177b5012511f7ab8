"""When each instruction of a compiled model runs: its device programs alone, on the simulator, with a trace.

In:   an Artifact and its device.
Out:  a Profile per device program: cycles and counters, events, and the same by layer.
Next: timeline.py draws them; reports print them.

Cycles do not depend on what the activations hold, so nothing but the constants is put into memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadstone.artifact import Artifact, DeviceProgram
from loadstone.sim import Event, Result, Simulator
from loadstone.vectors import absolute
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Stage

__all__ = ["LayerTime", "Profile", "profile"]

_PAGE = 4096  # regions begin at multiples of it: of every tile


@dataclass(frozen=True)
class LayerTime:
    """One layer: from its first instruction's start to its last one's end, and what each stage did for it."""

    name: str
    first_cycle: int
    last_cycle: int
    busy_cycles: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """One device program."""

    program: DeviceProgram
    result: Result
    events: tuple[Event, ...]
    layer_of: tuple[str, ...]

    def layers(self) -> list[LayerTime]:
        """In the order in which they start. FINISH is no layer."""
        spans: dict[str, tuple[int, int]] = {}
        busy: dict[str, dict[str, int]] = {}
        for event in self.events:
            name = self.layer_of[event.insn]
            first, last = spans.get(name, (event.start, event.end))
            spans[name] = (min(first, event.start), max(last, event.end))
            stages = busy.setdefault(name, {s.name.lower(): 0 for s in Stage})
            stages[event.stage.name.lower()] += event.end - event.start
        times = [LayerTime(name, *spans[name], busy[name]) for name in spans if name != "finish"]
        return sorted(times, key=lambda layer: layer.first_cycle)


def profile(artifact: Artifact, config: HwConfig) -> list[Profile]:
    """Runs every device program once. Raises SimulationError when one does not reach FINISH."""
    simulator = Simulator(config, trace=True)
    bases = []
    end = _PAGE
    for number, region in enumerate(artifact.regions):
        memory = np.zeros(region.size_bytes, np.uint8)
        memory[: len(region.data)] = np.frombuffer(region.data, np.uint8)
        bases.append(end)
        simulator.map(end, memory)
        if config.has(Capability.REGIONS):
            simulator.set_region(number, end, memory.nbytes, read_only=not region.device_writes)
        end += -(-memory.nbytes // _PAGE) * _PAGE
    profiles = []
    for program in artifact.programs:
        insns = np.frombuffer(program.instructions, np.uint8)
        result = simulator.run(insns if config.has(Capability.REGIONS) else absolute(insns, config, bases))
        layer_of = [""] * len(program)
        for layer in program.layers:
            layer_of[layer.first : layer.first + layer.count] = [layer.name] * layer.count
        profiles.append(Profile(program, result, tuple(simulator.events()), tuple(layer_of)))
    return profiles
