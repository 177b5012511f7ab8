# SPDX-License-Identifier: Apache-2.0
"""Store inp: what the next layer reads from INP is stored there, and not by way of DRAM.

In:   a VtaProgram's operations on virtual tiles.
Out:  the same, with stores to INP in the place of stores to DRAM and of loads, where the device has
      the capability and INP has room.
Next: prefetch.py.

    store y = acc                          store inp x [..] = acc
    load inp x = y             ->          gemm acc += x * w
    gemm acc += x * w

The tile of INP stays what the kernel of its reader has made it: rows, halo, padding. A store whose
cells go to several tiles, or to rows that are further apart there, becomes several. Padding is
loaded before, all over the tile. What somebody else reads goes to DRAM as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Capability
from loadstone.vta.passes.allocate.allocate import Allocate
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.passes.store_inp.estimate import estimate
from loadstone.vta.passes.store_inp.flow import Flow, InpContent, flow_of
from loadstone.vta.passes.store_inp.padding import fill_of, filler
from loadstone.vta.passes.store_inp.pieces import stores_to_dram, stores_to_inp
from loadstone.vta.passes.store_inp.room import Room
from loadstone.vta.passes.store_inp.verify import verify_reads
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from loadstone.vta.stream.operations import (
    GemmNest,
    Operation,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["StoreInp", "stored"]

Int64Array: TypeAlias = NDArray[np.int64]


class StoreInp(ProgramPass):
    """Stores to DRAM and loads -> stores to INP."""

    name: ClassVar[str] = "store_inp"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations with fewer loads, and fewer stores to DRAM."""
        return self.best(program)[0] if _can_keep(program) else program

    def best(self, program: VtaProgram) -> tuple[VtaProgram, int | None]:
        """The program of the choice that takes least, and its cycles; None where none has room."""
        tried: dict[frozenset[InpContent], None] = {}
        if _can_keep(program):
            flow = flow_of(program)
            room = Room(program, flow)
            shares = _SHARES_BESIDE_TURNS if program.chains else _SHARES
            tried = {frozenset(room.chosen(share)): None for share in shares}
        found = [program, *(stored(program, flow, chosen) for chosen in tried if chosen)]
        cycles = [estimate(each, _FOLLOWING) for each in found]
        reached = [(count, number) for number, count in enumerate(cycles) if count is not None]
        if not reached:
            return program, None
        least, number = min(reached)
        return found[number], least

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Every tile that is read holds what it held, and others find in DRAM what they found."""
        if after is not before:
            verify_reads(before, after)


#: Parts of INP, in eighths, that contents may fill beside what is loaded.
_SHARES = (8, 7, 6, 5, 4)
#: The same beside what layers that take turns need.
_SHARES_BESIDE_TURNS = (0, 8, 6, 4)
_FOLLOWING = (Prefetch(), Allocate(), Encode(), Synchronize())


def _can_keep(program: VtaProgram) -> bool:
    return program.config.has(Capability.STORE_INP) and bool(program.inside)


def stored(program: VtaProgram, flow: Flow, chosen: Collection[InpContent]) -> VtaProgram:
    """The program with these contents stored to INP."""
    own = sorted(chosen, key=lambda content: content.used[0])
    return replace(program, operations=_Rewriter(program, flow, own).operations(), columns=None)


class _Rewriter:
    """The stream with some contents of INP stored there."""

    def __init__(self, program: VtaProgram, flow: Flow, chosen: Sequence[InpContent]) -> None:
        self.program = program
        self.dropped = {number for content in chosen for number in content.loads}
        self.first_of = {tile: one.tiles[0] for one in chosen for tile in one.tiles[1:]}
        self.by_store: dict[int, list[InpContent]] = {}
        for content in chosen:
            for number in content.parts:
                self.by_store.setdefault(number, []).append(content)
        self.in_dram = flow.to_dram(chosen)
        self.fills = self._fills(chosen)

    def _fills(self, chosen: Iterable[InpContent]) -> Mapping[int, Sequence[Operation]]:
        """By the number of an operation, the loads of padding in front of it."""
        operations = [operation for _, operation in self.program.operations]
        begins: dict[VirtualTile, int] = {}
        for number, o in enumerate(operations):
            for tile in tiles_of(o):
                begins.setdefault(tile, number)
        fills: dict[int, list[Operation]] = {}
        source = filler(self.program)
        for content in chosen:
            at = begins[tiles_of(operations[content.first])[0]]
            at = max([at, *(number + 1 for number in content.left)])
            fills.setdefault(at, []).extend(content.rest)
            for padded in content.padded:
                fills.setdefault(at, []).extend(fill_of(padded, content.tiles[0], source))
        return fills

    def operations(self) -> list[LayerOperation]:
        """In program order."""
        made: list[LayerOperation] = []
        for number, (layer, operation) in enumerate(self.program.operations):
            made += [(layer, one) for one in self.fills.get(number, ())]
            if number in self.dropped:
                continue
            if type(operation) is TileStore:
                made += [(layer, one) for one in self._stores(number, operation)]
                continue
            made.append((layer, self._reading(operation)))
        return made

    def _reading(self, o: Operation) -> Operation:
        """From the first tile of a content, where it reads a later one."""
        if type(o) is not GemmNest or o.src.tile not in self.first_of:
            return o
        return replace(o, src=replace(o.src, tile=self.first_of[o.src.tile]))

    def _stores(self, number: int, o: TileStore) -> list[TileStore]:
        contents = self.by_store.get(number, ())
        made = [
            one
            for content in contents
            for one in stores_to_inp(o, content.tiles[0], content.parts[number])
        ]
        cells = self.in_dram.get(number) if contents else None
        if cells is not None:
            return made + stores_to_dram(o, cells)
        return [*made, o] if number in self.in_dram or not contents else made
