# SPDX-License-Identifier: Apache-2.0
"""The time of each instruction of a compiled model: its device programs alone, on the simulator,
with a trace.

In:   an Artifact and its device.
Out:  a Profile per device program: cycles and counters, events, and the same by layer; or the
      cycles alone.
Next: layers.py computes the cost of each layer; programs.py is the interface for other modules.

Cycles do not depend on the values of activations, so that memory contains only the constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.backend.device import ProgramStep
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.timing_tables import (
    BURST,
    EXTRA,
    FETCH_SPLITS,
    WORST_EXTRA,
    builtin_timing,
)
from loadstone.vta.isa.spec import Capability, Stage
from loadstone.vta.simulator.result import Event, Result
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.together import bus_companions, groups_of, time_together
from loadstone.vta.simulator.vectors import absolute

__all__ = [
    "LayerTime",
    "Profile",
    "cycles",
    "longest_cycles",
    "profile",
    "traced_programs",
]

_POOL = 0x10000000  # where driver/hal_sim.c has its memory
_STREAM_ALIGN = 64  # runtime/session.c
_SPEEDS = 4  # parts of the worst delay of memory


@dataclass(frozen=True)
class LayerTime:
    """One layer: from its first instruction's start to its last one's end, and what each stage did
    for it."""

    name: str
    first_cycle: int
    last_cycle: int
    busy_cycles: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """One device program."""

    program: ProgramStep
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


def traced_programs(
    artifact: Artifact, config: HwConfig, device: int = 0
) -> Iterator[tuple[ProgramStep, Simulator, Result]]:
    """Runs every program of a device of the artifact, by its number, once; the simulator has the
    events of that one until the next. Raises SimulationError when one does not reach FINISH."""
    simulator = Simulator(config, trace=True)
    for program, result in _runs(simulator, artifact, device):
        yield program, simulator, result


def profile(artifact: Artifact, config: HwConfig, device: int = 0) -> list[Profile]:
    """Runs every program of a device once. Raises SimulationError when one does not reach
    FINISH."""
    profiles = []
    for program, simulator, result in traced_programs(artifact, config, device):
        layer_of = [""] * len(program)
        for layer in program.layers:
            layer_of[layer.first : layer.first + layer.count] = [layer.name] * layer.count
        profiles.append(Profile(program, result, tuple(simulator.events()), tuple(layer_of)))
    return profiles


def longest_cycles(artifact: Artifact, config: HwConfig, device: int = 0) -> list[int]:
    """Of every program of a device the most that it takes, wherever a runtime places the code and
    the regions, with memory as slow as the timing table says it can be, or faster. Raises
    SimulationError when one does not reach FINISH.

    Every LOAD and STORE has its own worst place; where regions begin at multiples of what bursts
    end at, as after `--switch-within`, that is where it stands. Faster memory can make a program
    slower, when another request is served first: so it is tried at several speeds.
    On a bus of several devices programs that run side by side begin in the same cycle.
    """
    timing = {**builtin_timing("vta-rtl"), **config.timing}  # as the simulator has them
    burst = timing[BURST].value
    most = max(timing[EXTRA], timing[WORST_EXTRA], key=lambda constant: constant.value)
    place = min((r.align_bytes for r in artifact.regions if r.on_device), default=burst)
    found: list[list[int]] = []
    code_matters = timing[FETCH_SPLITS].value != 0  # else a batch is one burst, wherever it stands
    simulator = Simulator(replace(config, timing={**timing, EXTRA: most}), place_bytes=place)
    for offset in range(0, burst if code_matters else 1, _STREAM_ALIGN):
        simulator.unmap_all()
        found.append([result.cycles for _, result in _runs(simulator, artifact, device, offset)])
    for speed in sorted({most.value * part // _SPEEDS for part in range(_SPEEDS + 1)}):
        memory = {**timing, EXTRA: replace(most, value=speed)}
        simulator = Simulator(replace(config, timing=memory))
        found.append([result.cycles for _, result in _runs(simulator, artifact, device)])
    return [max(each) for each in zip(*found, strict=True)]


def cycles(artifact: Artifact, config: HwConfig, device: int = 0) -> list[int]:
    """Of every program of a device. Raises SimulationError when one does not reach FINISH."""
    return [result.cycles for _, result in _runs(Simulator(config), artifact, device)]


def _runs(
    simulator: Simulator, artifact: Artifact, device: int, code_offset: int = 0
) -> Iterator[tuple[ProgramStep, Result]]:
    """Every program of a device; with what runs beside it, where that shares its bus, which has the
    constants of the simulator's. code_offset: as for _place."""
    placed = _place(simulator, artifact, device, code_offset)
    others = {
        number: Simulator(
            replace(config, timing=simulator.config.timing), place_bytes=simulator.place_bytes
        )
        for number, config in bus_companions(artifact, device).items()
        if number != device
    }
    places = {
        id(program): (insns, address)
        for number, other in others.items()
        for program, insns, address in _place(other, artifact, number, code_offset)
    }
    beside = {id(program): group for group in groups_of(artifact) for program in group}
    for program, insns, address in placed:
        alone = simulator.run(insns, address=address)
        at_work = {device: simulator}
        for other in beside[id(program)]:
            if other.device in others:
                at_work[other.device] = others[other.device]
                theirs, there = places[id(other)]
                others[other.device].run(theirs, address=there)
        if len(at_work) == 1:
            yield program, alone
        else:
            numbers = sorted(at_work)
            timed = time_together([at_work[number] for number in numbers])
            yield program, timed[numbers.index(device)]


def _place(
    simulator: Simulator, artifact: Artifact, device: int, code_offset: int = 0
) -> list[tuple[ProgramStep, NDArray[np.uint8], int]]:
    """Puts what the device sees into the simulator's memory, where a session of the C runtime would
    put it: bursts end at page boundaries, and so cycles depend on addresses. Returns each program,
    for these places, and the address of its stream. code_offset: bytes by which code is moved."""
    config = simulator.config
    bases = []
    end = _POOL
    for number, region in enumerate(artifact.regions):
        if not region.on_device:
            bases.append(0)
            continue
        memory = np.zeros(region.size_bytes, np.uint8)
        memory[: len(region.data)] = np.frombuffer(region.data, np.uint8)
        base = -(-end // region.align_bytes) * region.align_bytes
        bases.append(base)
        simulator.map(base, memory)
        if config.has(Capability.REGIONS):
            simulator.set_region(number, base, memory.nbytes, read_only=not region.device_writes)
        end = base + memory.nbytes
    placed = []
    for program, address in _streams(artifact, end + code_offset, device):
        insns = np.frombuffer(program.instructions, np.uint8)
        if not config.has(Capability.REGIONS):
            insns = absolute(insns, config, bases)
        placed.append((program, insns, address))
    return placed


def _streams(artifact: Artifact, end: int, device: int) -> Iterator[tuple[ProgramStep, int]]:
    """The programs of a device, and their addresses: those of all devices stand one behind the
    other, each at a multiple of 64."""
    address = end
    for program in artifact.programs:
        address = -(-address // _STREAM_ALIGN) * _STREAM_ALIGN
        if program.device == device:
            yield program, address
        address += len(program.instructions)
