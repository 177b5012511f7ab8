# SPDX-License-Identifier: Apache-2.0
"""Programs that devices of one bus run side by side, timed together.

In:   an artifact whose devices share a bus (`bus_of` of a device's description).
Out:  which programs start together; their results, in which each waits for the others on the bus.
Next: profile.py runs every program of a device, with those beside it.

Without a shared bus a program takes what it takes alone, whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import further_device
from loadstone.backend.device import ProgramStep
from loadstone.errors import SimulationError
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import HwConfig, configuration

if TYPE_CHECKING:
    from loadstone.vta.simulator.result import Result
    from loadstone.vta.simulator.sim import Simulator

__all__ = ["bus_companions", "groups_of", "time_together"]


def bus_companions(artifact: Artifact, device: int) -> Mapping[int, HwConfig]:
    """The devices of the artifact, by their numbers, that share the bus of one of them; none where
    it has a bus of its own."""
    named = {
        number: configuration(further_device(artifact.devices[number]))
        for number in sorted({0, *artifact.further})
        if artifact.devices[number].has_configuration and artifact.further
    }
    buses = {number: config.bus_of or config.name for number, config in named.items()}
    found = {n: named[n] for n, bus in buses.items() if bus == buses.get(device)}
    return found if len(found) > 1 else {}


def groups_of(artifact: Artifact) -> Sequence[Sequence[ProgramStep]]:
    """All programs in order, those together that start side by side."""
    groups: list[list[ProgramStep]] = []
    last = -1
    for number, program in artifact.numbered_programs:
        is_beside = program.beside and number == last + 1
        if is_beside and program.device not in {other.device for other in groups[-1]}:
            groups[-1].append(program)
        else:
            groups.append([program])
        last = number
    return groups


def time_together(simulators: Sequence[Simulator]) -> list[Result]:
    """Of the last run of each, as if all had started in the same cycle on one bus. Events are
    recorded anew. Raises SimulationError where they cannot share one."""
    raw = ffi.new("lds_sim_result[]", len(simulators))
    cores = ffi.new("lds_sim *[]", [simulator.core for simulator in simulators])
    if lib().lds_sim_time_together(cores, len(simulators), raw):
        said = [f"{simulator.config.name}: {simulator.message}" for simulator in simulators]
        raise SimulationError(f"devices on one bus: {'; '.join(said)}")
    results = [simulator.result_of(raw[k]) for k, simulator in enumerate(simulators)]
    if wrong := next((result for result in results if result.status != "NONE"), None):
        raise SimulationError(f"devices on one bus: {wrong.message or wrong.status}")
    return results
