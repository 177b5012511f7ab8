# SPDX-License-Identifier: Apache-2.0
"""The simulators of an artifact's programs, and the programs' cycles.

In:   an artifact and the device that it was compiled for.
Out:  its ProgramSimulators; a ProgramRun for each program, cycles, layers.
Next: analysis/report.py, partition/cost/prices.py, the commands.

The family of a built-in device, which backend/builtin.py names, returns its simulator; the
simulator of a plug-in's accelerator is the machine of its instruction table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Protocol

from loadstone.artifact.format import Artifact
from loadstone.backend.builtin import FAMILY_MODULE, is_builtin
from loadstone.backend.device import Device
from loadstone.errors import SimulationError
from loadstone.runtime.accelerators import accelerators_of, further_devices
from loadstone.simulator.interface import LayerFigures, ProgramRun, ProgramSimulator
from loadstone.simulator.table_profile import TableSimulator

__all__ = [
    "SimulatorFamily",
    "elapsed_cycles",
    "further_runs",
    "layer_figures",
    "own_simulator",
    "program_cycles",
    "program_runs",
    "saved_us",
    "simulator_of",
    "simulators",
    "trace",
]


class SimulatorFamily(Protocol):
    """The simulators of the devices that come with Loadstone."""

    def of_device(self, device: Device, number: int) -> ProgramSimulator:
        """Of the programs of an artifact's device, by its number."""

    def of_artifact(self, artifact: Artifact) -> ProgramSimulator:
        """Of its own device's programs, by its fingerprint alone: what they mean, not what they
        take. Raises ConfigError."""


@cache
def _family() -> SimulatorFamily:
    family: SimulatorFamily = import_module(FAMILY_MODULE).SIMULATORS
    return family


def own_simulator(artifact: Artifact) -> ProgramSimulator:
    """Of the artifact's own programs, by its fingerprint alone. Raises ConfigError."""
    return _family().of_artifact(artifact)


def simulator_of(device: Device) -> ProgramSimulator:
    """Of the programs of artifacts that were compiled for the device. Raises SimulationError for
    one that is not simulated here."""
    if not is_builtin(device):
        raise SimulationError(
            f"device {device.name} has no simulator: its back end says what a segment costs "
            "(Backend.cost_cycles)"
        )
    return _family().of_device(device, 0)


def simulators(artifact: Artifact, device: Device) -> list[ProgramSimulator]:
    """Of all programs: of the artifact's own device, then of the others. Raises SimulationError for
    a device that has programs and is not simulated here."""
    own = [simulator_of(device)] if artifact.programs_of(0) else []
    return [*own, *_others(artifact)]


def _others(artifact: Artifact) -> list[ProgramSimulator]:
    further = further_devices(artifact).items()
    found = [_family().of_device(device, number) for number, device in further]
    described = accelerators_of(artifact)
    return [*found, TableSimulator(described)] if described else found


def program_runs(
    artifact: Artifact, device: Device, *, trace: bool = False
) -> dict[int, ProgramRun]:
    """By step, each program once. trace: with what each instruction did. Raises SimulationError for
    a program that does not reach its end, and for a device that is not simulated here."""
    found = [run for one in simulators(artifact, device) for run in one.runs(artifact, trace=trace)]
    return {run.number: run for run in sorted(found, key=lambda run: run.number)}


def elapsed_cycles(artifact: Artifact, runs: Mapping[int, ProgramRun]) -> int:
    """Of all programs of a run, as program_runs has them: of those that start side by side, what
    the longest takes. The host takes no time; clocks are equal."""
    return sum(max(run.cycles for run in group) for group in _side_by_side(artifact, runs))


def saved_us(artifact: Artifact, runs: Mapping[int, ProgramRun]) -> float:
    """What a run does not take because programs start side by side: of these all but the longest,
    each by the clock of its own device."""
    groups = [
        [run.cycles / run.clock_mhz for run in group] for group in _side_by_side(artifact, runs)
    ]
    return sum((sum(group) - max(group) for group in groups), 0.0)


def _side_by_side(artifact: Artifact, runs: Mapping[int, ProgramRun]) -> list[list[ProgramRun]]:
    """The runs of all programs in order, those together that start side by side."""
    groups: list[list[ProgramRun]] = []
    for number, program in artifact.numbered_programs:
        if program.beside and groups:
            groups[-1].append(runs[number])
        else:
            groups.append([runs[number]])
    return groups


def further_runs(artifact: Artifact) -> list[ProgramRun]:
    """Those of devices beside the artifact's own."""
    return [run for simulator in _others(artifact) for run in simulator.runs(artifact)]


def program_cycles(artifact: Artifact, device: Device) -> list[int]:
    """Of every program of the artifact's own device. Raises SimulationError as program_runs."""
    return [run.cycles for run in simulator_of(device).runs(artifact)]


def trace(artifact: Artifact, device: Device) -> bytes:
    """The programs of the artifact's own device as a file that https://ui.perfetto.dev opens; where
    it has none, those of plug-ins' accelerators. Raises SimulationError as program_runs, and for an
    artifact without programs."""
    found = simulators(artifact, device)
    if not found:
        raise SimulationError(
            f"model {artifact.name!r} has no program of a device, and so no trace: all of it runs "
            "on the host"
        )
    return found[0].trace(artifact)


def layer_figures(artifact: Artifact, device: Device) -> dict[str, LayerFigures]:
    """By layer, of all programs. Raises SimulationError as program_runs."""
    found: dict[str, LayerFigures] = {}
    for run in program_runs(artifact, device, trace=True).values():
        for layer in run.layers():
            before = found.get(layer.name)
            found[layer.name] = layer if before is None else before.and_then(layer)
    return found
