# SPDX-License-Identifier: Apache-2.0
"""Which contents of INP have room there from their first store to their last reader.

In:   a program and its flow.
Out:  contents: whole tensors, small ones first, then of the others what does not live long.
Next: store_inp.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.filling import Filling
from loadstone.vta.passes.store_inp.flow import Flow, InpContent
from loadstone.vta.passes.store_inp.halo import with_halo
from loadstone.vta.passes.store_inp.padding import can_fill, filler
from loadstone.vta.stream.operations import VirtualTile, tiles_of

__all__ = ["Room"]

#: Parts of INP, in eighths, that contents of layers in turns may fill beside what is loaded: little
#: is, and need not have room twice.
_IN_TURNS = 10


class Room:
    """Places of INP over the operations of a program."""

    def __init__(self, program: VtaProgram, flow: Flow) -> None:
        self.depth = program.config.depth(Memory.INP)
        self.count = len(program.operations)
        self.flow = flow
        self.live_ranges: dict[VirtualTile, list[int]] = {}
        for number, (_, operation) in enumerate(program.operations):
            for tile in tiles_of(operation):
                if tile.memory is Memory.INP:
                    live = self.live_ranges.setdefault(tile, [number, number])
                    live[1] = number
        self.filler = filler(program)
        self.layers = [layer for layer, _ in program.operations]
        self.in_turns = {layer for chain in program.chains for layer in chain}
        own = (with_halo(one) for one in flow.contents if self._is_in_turns(one))
        self.halos = [content for content in own if content is not None]

    def chosen(self, eighths: int) -> Sequence[InpContent]:
        """As above. eighths: of INP, which these may fill beside what is loaded. Where layers take
        turns, first what their turns need, and of the others what then has room."""
        found: list[InpContent] = []
        filling = Filling(self.live_ranges, self.count)
        if self.in_turns:
            self._choose(self._by_halos(), found, filling, _IN_TURNS)
        self._choose(self._by_groups(self.flow.contents), found, filling, eighths)
        return found

    def _choose(
        self,
        groups: Iterable[Sequence[InpContent]],
        found: list[InpContent],
        filling: Filling,
        eighths: int,
    ) -> None:
        kept = {content.tiles[0] for content in found}
        for group in groups:
            padded = [load for content in group for load in content.padded]
            if not all(can_fill(load, self.filler) for load in padded):
                continue
            new = [content for content in group if content.tiles[0] not in kept]
            if new and self._fits(filling, new, eighths):
                found += new
                kept |= {content.tiles[0] for content in new}

    def _by_groups(self, contents: Collection[InpContent]) -> list[list[InpContent]]:
        """Whole tensors, then parts."""
        whole = sorted(_groups(contents), key=_size)
        return whole + [[content] for content in sorted(contents, key=_live_length)]

    def _by_halos(self) -> list[list[InpContent]]:
        """Of layers that take turns alone: tensors of which no halo comes from DRAM, then parts of
        the others with theirs there, then as without."""
        tiles = {content.tiles[0] for content in self.halos}
        groups = self._by_groups([one for one in self.flow.contents if self._is_in_turns(one)])
        first = [group for group in groups if not any(one.tiles[0] in tiles for one in group)]
        return first + [[content] for content in sorted(self.halos, key=_live_length)] + groups

    def _is_in_turns(self, content: InpContent) -> bool:
        numbers = (*content.parts, *content.left, *content.used)
        return all(self.layers[number] in self.in_turns for number in numbers)

    def _fits(self, filling: Filling, new: Sequence[InpContent], eighths: int) -> bool:
        """Beside what is loaded and was chosen; where layers take turns, while the new ones live.
        If so, filling has them."""
        filling.add(new)
        filled = filling.filled
        if self.in_turns:
            first = min(content.first for content in new)
            filled = filled[first : max(content.used[-1] for content in new) + 1]
        if int(filled.max()) <= self.depth * eighths // 8:
            return True
        filling.take_back(new)
        return False


def _live_length(content: InpContent) -> int:
    return content.used[-1] - content.first


def _size(group: Iterable[InpContent]) -> int:
    return sum(content.size for content in group)


def _groups(contents: Iterable[InpContent]) -> list[list[InpContent]]:
    """Contents that share a store."""
    group_of: dict[int, list[InpContent]] = {}
    groups: list[list[InpContent]] = []
    for content in contents:
        met = {id(g): g for n in content.parts if (g := group_of.get(n)) is not None}
        merged = [one for group in met.values() for one in group] + [content]
        groups = [group for group in groups if id(group) not in met] + [merged]
        for one in merged:
            group_of |= dict.fromkeys(one.parts, merged)
    return groups
