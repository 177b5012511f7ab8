# SPDX-License-Identifier: Apache-2.0
"""Run vectors on the simulator: memory byte for byte, cycles against what was measured.

In:   vectors (vectors.py).
Out:  one Replayed for each (simulator/replayed.py).
Next: `loadstone replay` prints them; tests hold the limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loadstone.simulator.replayed import Replayed, difference
from loadstone.simulator.vector_files import LATENCIES
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.simulator.vectors import Vector

__all__ = ["replay"]


def replay(vector: Vector, **options: Any) -> tuple[Replayed, Simulator]:
    """Runs one vector at both latencies (`options` are Simulator's); the simulator is that of the
    run at latency 0."""
    cycles: dict[int, int] = {}
    exact, message, findings = True, "", 0
    expected = vector.dram_out()
    simulators = []
    for latency in LATENCIES:
        image = vector.dram_in.copy()
        simulator = vector.simulator(image, latency, **{"strict": False, **options})
        simulators.append(simulator)
        result = simulator.run(vector.insns, check=False)
        cycles[latency] = result.cycles
        findings = max(findings, result.findings)
        if result.status != "NONE":
            exact, message = False, result.message
        elif not np.array_equal(image, expected):
            exact, message = False, difference(vector.dram_base, image, expected)
    if exact and findings:
        message = simulators[0].findings()[0].text
    measured = {latency: count for latency, count in vector.cycles.items() if count >= 0}
    return Replayed(
        vector.name, vector.group, exact, cycles, measured, findings, message
    ), simulators[0]
