# SPDX-License-Identifier: Apache-2.0
"""Which contents of INP have room there from their first store to their last reader.

In:   a program and its flow.
Out:  contents, those of small tensors first.
Next: store_inp.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.flow import Flow, InpContent
from loadstone.vta.passes.store_inp.padding import can_fill, filler
from loadstone.vta.stream.operations import VirtualTile, tiles_of

__all__ = ["Room"]


class Room:
    """Places of INP over the operations of a program."""

    def __init__(self, program: VtaProgram, flow: Flow) -> None:
        self.depth = program.config.depth(Memory.INP)
        self.count = len(program.operations)
        self.flow = flow
        self.lives: dict[VirtualTile, list[int]] = {}
        for number, (_, operation) in enumerate(program.operations):
            for tile in tiles_of(operation):
                if tile.memory is Memory.INP:
                    life = self.lives.setdefault(tile, [number, number])
                    life[1] = number
        self.filler = filler(program)

    def chosen(self, eighths: int) -> Sequence[InpContent]:
        """As above. eighths: of INP, which these may fill beside what is loaded."""
        found: list[InpContent] = []
        for group in sorted(_groups(self.flow), key=_size):
            padded = [load for content in group for load in content.padded]
            if not all(can_fill(load, self.filler) for load in padded):
                continue
            if self._fits([*found, *group], eighths):
                found += group
        return found

    def _fits(self, contents: Sequence[InpContent], eighths: int) -> bool:
        """Beside what is loaded, each tile while the one before it is in use."""
        change = np.zeros(self.count + 1, np.int64)
        stored = {tile for content in contents for tile in content.tiles}
        for content in contents:
            change[content.first] += content.size
            change[content.used[-1] + 1] -= content.size
        before: int | None = None
        for tile, (first, last) in self.lives.items():
            if tile in stored:
                continue
            change[first if before is None else before] += tile.size_tiles
            change[last + 1] -= tile.size_tiles
            before = first
        return int(np.cumsum(change).max()) <= self.depth * eighths // 8


def _size(group: Iterable[InpContent]) -> int:
    return sum(content.size for content in group)


def _groups(flow: Flow) -> list[list[InpContent]]:
    """Contents that share a store."""
    group_of: dict[int, list[InpContent]] = {}
    groups: list[list[InpContent]] = []
    for content in flow.contents:
        met = {id(g): g for n in content.parts if (g := group_of.get(n)) is not None}
        merged = [one for group in met.values() for one in group] + [content]
        groups = [group for group in groups if id(group) not in met] + [merged]
        for one in merged:
            group_of |= dict.fromkeys(one.parts, merged)
    return groups
