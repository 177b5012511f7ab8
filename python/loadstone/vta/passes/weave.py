# SPDX-License-Identifier: Apache-2.0
"""Weave: layers that follow each other take turns, so that what one makes the next one reads soon.

In:   a VtaProgram's operations, layer behind layer, and which layers are chains.
Out:  the same in an order in which each layer of a chain does a little, then the next one.
Next: store_inp/store_inp.py, which finds room in INP for what does not live long.

    expand     [block 0] [1]          [2]                   [3]
    depthwise                [block 0]   [1]                   [2]
    project                                 [from block 0]        [1]

A turn of a layer ends where it loads again behind its products, or has stored. The next turn is
one of the last layer that needs no more than what others have made before their newest turns: for
the store of such a one it would wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.store_inp.cells import NOBODY, DramCells
from loadstone.vta.passes.store_inp.verify import verify_reads
from loadstone.vta.stream.operations import FillNest, TileLoad, TileStore

__all__ = ["Weave"]

Int64Array: TypeAlias = NDArray[np.int64]


class Weave(ProgramPass):
    """Layers of chains -> turns of them."""

    name: ClassVar[str] = "weave"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations in their new order."""
        if not program.chains:
            return program
        cells = DramCells(program)
        chain_of = {layer: number for number, chain in enumerate(program.chains) for layer in chain}
        own: list[list[int]] = [[] for _ in program.chains]
        for number, (layer, _) in enumerate(program.operations):
            if layer in chain_of:
                own[chain_of[layer]].append(number)
        order: list[int] = []
        for number, (layer, _) in enumerate(program.operations):
            if layer not in chain_of:
                order.append(number)
            elif number == own[chain_of[layer]][0]:
                order += _woven(program, cells, own[chain_of[layer]])
        return replace(program, operations=[program.operations[n] for n in order], columns=None)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Every operation reads what it read, and others find in DRAM what they found."""
        if after is not before:
            verify_reads(before, after)


@dataclass
class _Turn:
    """Operations of a layer. after: of other layers, which of their turns must come before."""

    numbers: list[int] = field(default_factory=list)
    after: dict[int, int] = field(default_factory=dict)


def _woven(program: VtaProgram, cells: DramCells, numbers: Sequence[int]) -> Sequence[int]:
    """Numbers of the operations of a chain, in their new order; in the old one where one layer
    writes where another one has read or written."""
    layers: dict[str, list[int]] = {}
    for number in numbers:
        layers.setdefault(program.operations[number][0], []).append(number)
    turns = [list(_turns(program, own)) for own in layers.values()]
    if not _depend(program, cells, turns):
        return numbers
    order: list[int] = []
    done = [0] * len(turns)
    while len(order) < len(numbers):
        ready = [
            (_is_newest(turn, done), -k)
            for k, own in enumerate(turns)
            for turn in own[done[k] : done[k] + 1]
            if all(done[other] > which for other, which in turn.after.items())
        ]
        k = -min(ready)[1]
        order += turns[k][done[k]].numbers
        done[k] += 1
    return order


def _is_newest(turn: _Turn, done: Sequence[int]) -> bool:
    """Whether it needs the newest turn of another layer, for whose store it would wait."""
    return any(done[other] == which + 1 for other, which in turn.after.items())


def _turns(program: VtaProgram, numbers: Sequence[int]) -> Iterator[_Turn]:
    turn, has_stored, has_computed = _Turn(), False, False
    for number in numbers:
        kind = type(program.operations[number][1])
        if (has_stored and kind is not TileStore) or (has_computed and kind is TileLoad):
            yield turn
            turn, has_stored, has_computed = _Turn(), False, False
        turn.numbers.append(number)
        has_stored |= kind is TileStore
        has_computed |= kind not in (TileLoad, FillNest)
    yield turn


def _depend(program: VtaProgram, cells: DramCells, turns: Sequence[Sequence[_Turn]]) -> bool:
    """What each turn reads must be written before. Whether that is all that matters."""
    writer, turn_of = ({r: cells.numbers(r) for r in cells.ends} for _ in range(2))
    reader = {r: cells.numbers(r) for r in cells.ends}
    for layer, own in enumerate(turns):
        for place, turn in enumerate(own):
            for number in turn.numbers:
                o = program.operations[number][1]
                if not isinstance(o, TileLoad | TileStore):
                    continue
                region, where = cells.of(o)
                if region not in cells.ends:
                    continue
                where = where[where < cells.ends[region]]
                by = writer[region][where]
                if isinstance(o, TileStore):
                    others = reader[region][where]
                    if ((others != NOBODY) & (others != layer)).any():
                        return False
                    if ((by != NOBODY) & (by != layer)).any():
                        return False
                    writer[region][where], turn_of[region][where] = layer, place
                    continue
                reader[region][where] = layer
                for other in np.unique(by[(by != NOBODY) & (by != layer)]).tolist():
                    most = int(turn_of[region][where[by == other]].max())
                    turn.after[other] = max(most, turn.after.get(other, 0))
    return True
