# SPDX-License-Identifier: Apache-2.0
"""A compiled model as a Perfetto trace: every device program, a process for each.

In:   an Artifact and its device.
Out:  a file that https://ui.perfetto.dev opens.
Next: trace.py writes each program's packets.
"""

from __future__ import annotations

from pathlib import Path

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.errors import SimulationError
from loadstone.files import write_whole
from loadstone.simulator.profile import simulated, traced_programs
from loadstone.simulator.trace import trace_bytes

__all__ = ["write_profile_trace"]


def write_profile_trace(path: str | Path, artifact: Artifact, device: Device) -> None:
    """Raises SimulationError for a device that is not simulated here."""
    config = simulated(device)
    if config is None:
        raise SimulationError(f"device {device.name} has no simulator, and so no trace")
    traces = [
        trace_bytes(number, program.name, simulator, program.layers)
        for number, (program, simulator, _) in enumerate(traced_programs(artifact, config), 1)
    ]
    write_whole(path, b"".join(traces))
