# SPDX-License-Identifier: Apache-2.0
"""Execute a device program by the meaning of its instructions, one after the other, in NumPy.

In:   a device program, and the content of the device's regions before it.
Out:  bytes of memory after certain instructions.
Next: analysis/compare.py uses them as the reference: there are no tokens and no overlap, and the
      only other code is vta/meaning/reference.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact, BufferView, ProgramStep
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.insn import Insn
from loadstone.vta.isa.spec import Capability
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.vectors import absolute

__all__ = ["memory_behind"]

_ALIGN = 1 << 16  # of a region: of every tile


def memory_behind(
    program: ProgramStep,
    artifact: Artifact,
    config: HwConfig,
    content: Mapping[int, bytes],
    wanted: Mapping[int, BufferView],
) -> dict[int, bytes]:
    """Instruction -> the bytes of a view behind it, for each of `wanted`.

    content: of regions that are no constants, before the program; zeros where it lacks one. Raises
        SimulationError for an instruction that means nothing.
    """
    insns: NDArray[np.uint8] = np.frombuffer(program.instructions, np.uint8)
    starts, end = [], 0
    for region in artifact.regions:
        starts.append(end)
        end += -(-region.size_bytes // _ALIGN) * _ALIGN
    memory = np.zeros(end, np.uint8)
    parts = []
    for number, (region, start) in enumerate(zip(artifact.regions, starts, strict=True)):
        data = region.data or content.get(number, b"")
        memory[start : start + len(data)] = np.frombuffer(data, np.uint8)
        parts.append(memory[start : start + region.size_bytes])
    if config.has(Capability.REGIONS):
        dram = [
            DramBytes(part, writable=region.device_writes)
            for part, region in zip(parts, artifact.regions, strict=True)
        ]
    else:
        dram = [DramBytes(memory)]
        insns = absolute(insns, config, starts)
    machine = _Watched(config, dram, parts, wanted)
    machine.run(insns)
    return machine.seen


class _Watched(Machine):
    """Keeps what stands in views behind certain instructions."""

    def __init__(
        self,
        config: HwConfig,
        dram: Sequence[DramBytes],
        parts: Sequence[NDArray[np.uint8]],
        wanted: Mapping[int, BufferView],
    ) -> None:
        super().__init__(config, dram)
        self.parts, self.wanted, self.number = parts, wanted, 0
        self.seen: dict[int, bytes] = {}

    def step(self, insn: Insn) -> bool:
        """One instruction, then the view that is wanted behind it."""
        goes_on = super().step(insn)
        view = self.wanted.get(self.number)
        if view is not None:
            part = self.parts[view.region]
            self.seen[self.number] = bytes(
                part[view.offset_bytes : view.offset_bytes + view.size_bytes]
            )
        self.number += 1
        return goes_on
