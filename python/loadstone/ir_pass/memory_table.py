# SPDX-License-Identifier: Apache-2.0
"""What a device says of its scratchpads: which instruction reads which, and how much they hold.

In:   a device's own description.
Out:  `MemoryTable`.
Next: insert_dma_copy.py decides by it where a tensor stands; verify_dma_copy.py holds it to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadstone.errors import LoweringError
from loadstone.ir_pass.nests import COPY, NestStep

__all__ = ["MemoryTable"]


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """operands: of each instruction, the memory of each operand; the last one stands for all that
    follow. depth_tiles: of each memory. reach: (instruction, operand) -> how many tiles an operand
    has that has several, which lie along the last axis of its tensor. share: a table stays in a
    memory where it takes no more than this part of it, and one of a memory that is not named here
    wherever it fits. result: from where a STORE reads. starts: the instruction that writes its
    operand without reading it.
    """

    operands: Mapping[str, tuple[str, ...]]
    depth_tiles: Mapping[str, int]
    reach: Mapping[tuple[str, int], int] = field(default_factory=dict)
    share: Mapping[str, int] = field(default_factory=dict)
    result: str = "acc"
    starts: str = "fill"

    def memory(self, step: NestStep, number: int) -> str | None:
        """Where an operand stands; None: in DRAM. Raises LoweringError where the device has no such
        instruction."""
        if step.name == COPY:
            return self.result if number else None
        if step.name not in self.operands:
            raise LoweringError(f"insert_dma_copy: the device has no instruction {step.name}")
        memories = self.operands[step.name]
        return memories[min(number, len(memories) - 1)]

    def tiles(self, step: NestStep, number: int) -> int:
        """How many an operand has, from the one that its access names on."""
        return self.reach.get((step.name, number), 1)

    def keeps(self, tiles: int, memory: str) -> bool:
        """Whether a table of so many tiles stays in a memory."""
        return tiles * self.share.get(memory, 1) <= self.depth_tiles[memory]
