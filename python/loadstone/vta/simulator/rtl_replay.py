# SPDX-License-Identifier: Apache-2.0
"""Run vectors on the hardware under Verilator: memory byte for byte, beats and bursts, and cycles
against what was measured.

In:   vectors (vectors.py).
Out:  one Replayed for each, as replay.py makes of the simulator.
Next: `loadstone replay --device rtl` prints them.
"""

from __future__ import annotations

import numpy as np

from loadstone.simulator.replayed import Replayed, difference
from loadstone.simulator.vector_files import LATENCIES
from loadstone.vta.simulator.rtl import RtlDevice, RtlResult
from loadstone.vta.simulator.vectors import Vector

__all__ = ["RtlReplay"]


class RtlReplay:
    """Replays vectors, each on the RTL of its own device, built when the first one needs it."""

    def __init__(self) -> None:
        self._devices: dict[bytes, RtlDevice] = {}

    def replay(self, vector: Vector) -> Replayed:
        """One vector at both latencies."""
        key = vector.config.fingerprint()
        if key not in self._devices:
            self._devices[key] = RtlDevice(vector.config)
        device, expected = self._devices[key], vector.dram_out()
        cycles: dict[int, int] = {}
        message = ""
        for latency in LATENCIES:
            image = vector.dram_in.copy()
            device.unmap_all()
            device.set_latency(vector.config_extra + latency)
            device.map(vector.dram_base, image)
            for number, region in enumerate(vector.regions):
                device.set_region(
                    number, region.base, region.size_bytes, read_only=region.read_only
                )
            result = device.run(vector.insns, cycle_limit=_limit(vector))
            cycles[latency] = result.cycles
            if result.status != "NONE":
                message = f"{result.status} at instruction {result.error_pc}"
            elif not np.array_equal(image, expected):
                message = difference(vector.dram_base, image, expected)
            else:
                message = message or _traffic(vector, result)
        measured = {latency: count for latency, count in vector.cycles.items() if count >= 0}
        return Replayed(vector.name, vector.group, not message, cycles, measured, 0, message)


def _traffic(vector: Vector, result: RtlResult) -> str:
    """How beats and bursts differ from what the vector counted, in words; "" where they do not."""
    found = {
        "rd_beats": result.read_beats,
        "wr_beats": result.write_beats,
        "rd_bursts": result.read_bursts,
        "wr_bursts": result.write_bursts,
    }
    counted = {name: count for name, count in vector.counters.items() if count >= 0}
    wrong = [name for name, count in counted.items() if found[name] != count]
    return ", ".join(f"{name} {found[name]} instead of {counted[name]}" for name in wrong)


def _limit(vector: Vector) -> int:
    """Cycles after which a program that was measured hangs."""
    return 4 * max(vector.cycles.values(), default=0) + (1 << 24)
