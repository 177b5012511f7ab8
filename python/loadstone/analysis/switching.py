# SPDX-License-Identifier: Apache-2.0
"""How far apart the points stand where a device can turn to another network.

In:   an artifact and its device.
Out:  Switching: how many programs, and which takes longest, in cycles of the simulator.
Next: `loadstone inspect --switches`, `loadstone compile --explain`; bounds.py has the most that a
      program can take.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.files import JsonObject
from loadstone.printable import one_line
from loadstone.simulator.programs import program_runs

__all__ = ["Switching", "switching"]


@dataclass(frozen=True)
class Switching:
    """programs: of a run; the device can turn between two. longest_cycles: of the one called
    `longest`, each by the clock of its own device."""

    programs: int
    longest: str
    longest_cycles: int

    def to_json(self) -> JsonObject:
        """As commands/schemas/inspect.json says."""
        return dict(vars(self))

    def __str__(self) -> str:
        if not self.programs:
            return "no program of a device"
        return (
            f"{self.programs} program(s); {self.longest_cycles:,} cycles at most in which no other "
            f"network can go on ({one_line(self.longest)})"
        )


def switching(artifact: Artifact, device: Device) -> Switching:
    """Of all programs. Raises SimulationError for a device that is not simulated here."""
    runs = program_runs(artifact, device)
    if not runs:
        return Switching(0, "", 0)
    longest = max(runs.values(), key=lambda run: run.cycles)
    return Switching(len(runs), artifact.steps[longest.number].name, longest.cycles)
