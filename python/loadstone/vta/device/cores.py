# SPDX-License-Identifier: Apache-2.0
"""Equal devices that work on one network together.

In:   a HwConfig; how many there are, and whether they have one bus to the memory.
Out:  as many HwConfigs: the device itself, then those beside it.
Next: vta/region/cores.py divides networks among them, commands/simd.py simulates them.
"""

from __future__ import annotations

from dataclasses import replace

from loadstone.vta.device.hw_config import HwConfig

__all__ = ["BUSES", "MOST_CORES", "cores_of"]

#: A session works with sixteen devices beside its own.
MOST_CORES = 16
#: How equal devices reach the memory: each by a bus of its own, or all by one.
BUSES = ("private", "shared")


def cores_of(config: HwConfig, count: int, *, bus: str) -> tuple[HwConfig, ...]:
    """bus: one of BUSES. The first is `config`, those beside it are NAME.1 and so on."""
    bus_of = config.name if bus == "shared" else ""
    beside = (f"{config.name}.{number}" for number in range(1, count))
    return config, *(replace(config, name=name, bus_of=bus_of) for name in beside)
