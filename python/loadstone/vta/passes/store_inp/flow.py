# SPDX-License-Identifier: Apache-2.0
"""Which tiles of INP hold nothing but what the program itself has stored, and where it comes from.

In:   a VtaProgram's operations, in program order, and where its DRAM tensors stand.
Out:  Flow: for each content of INP tiles that a product reads, the stores that could put it there,
      cell by cell; the stores whose tiles somebody else reads from DRAM.
Next: store_inp.py chooses among these contents.

One walk notes for each tile of DRAM which store wrote it last. Tensors are told apart by their
places, since one may be a part of another.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.store_inp.cells import NOBODY, DramCells
from loadstone.vta.stream.operations import GemmNest, TileLoad, TileStore, VirtualTile

__all__ = ["Flow", "InpContent", "flow_of"]

Int64Array: TypeAlias = NDArray[np.int64]


@dataclass(eq=False)
class InpContent:
    """What one or several tiles of INP hold, all of which stores of the program have made.

    tiles: in the order of their use. loads: numbers of the operations that load them; own: those
    of the first tile. parts: by number of a store, (cells, 2): a cell of what it stores, and the
    place in the tile to which it goes. used: numbers of the operations that read the tiles.
    rest: loads of what older stores leave in DRAM for the first tile (halo.py), which come before
    all of parts; left: by number of such a store, the cells that these bring.
    """

    tiles: list[VirtualTile]
    loads: list[int]
    own: Sequence[TileLoad]
    parts: Mapping[int, Int64Array]
    used: list[int] = field(default_factory=list)
    rest: Sequence[TileLoad] = ()
    left: Mapping[int, Int64Array] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Tiles of INP."""
        return self.tiles[0].size_tiles

    @property
    def first(self) -> int:
        """The number of the store that begins it."""
        return min(self.parts)

    @property
    def padded(self) -> Sequence[TileLoad]:
        """The loads in whose place stores leave padding as it is."""
        return () if self.rest else [o for o in self.own if o.has_pads]


@dataclass(frozen=True)
class Flow:
    """contents: in the order of their first use. outside: numbers of stores to DRAM that somebody
    reads who is in none of these."""

    contents: Sequence[InpContent]
    outside: frozenset[int]

    def to_dram(self, chosen: Collection[InpContent]) -> Mapping[int, Int64Array | None]:
        """By numbers of the stores to DRAM that somebody reads, when these contents are stored to
        INP, which of their cells, (cells,); None: all."""
        cells: dict[int, list[Int64Array]] = {}
        for one in chosen:
            for number, own in one.left.items():
                cells.setdefault(number, []).append(own)
        some = {number: np.unique(np.concatenate(own)) for number, own in cells.items()}
        kept = {one.tiles[0] for one in chosen}
        others = (one.parts for one in self.contents if one.tiles[0] not in kept)
        return {**some, **dict.fromkeys(set(self.outside).union(*others))}


@dataclass
class _Tile:
    """One tile of INP on the walk: its loads, and for each who wrote what it brings."""

    loads: list[int] = field(default_factory=list)
    sources: list[tuple[Int64Array, Int64Array]] = field(default_factory=list)
    is_read: bool = False
    is_mixed: bool = False


def flow_of(program: VtaProgram) -> Flow:
    """As above."""
    walk = _Walk(program)
    for number, (_, operation) in enumerate(program.operations):
        if type(operation) is TileStore:
            walk.store(number, operation)
        elif type(operation) is TileLoad:
            walk.load(number, operation)
        elif type(operation) is GemmNest and operation.src.tile in walk.tiles:
            walk.tiles[operation.src.tile].is_read = True
    return walk.found()


class _Walk:
    def __init__(self, program: VtaProgram) -> None:
        self.program = program
        self.operations = [operation for _, operation in program.operations]
        self.tiles: dict[VirtualTile, _Tile] = {}
        self.outside: set[int] = set()
        self.cells = DramCells(program)
        self.ends = self.cells.ends
        # of each region, by tile of DRAM: who wrote it last, and which cell of the store it was
        self.writer = {region: self.cells.numbers(region) for region in self.ends}
        self.cell = {region: self.cells.numbers(region) for region in self.ends}

    def store(self, number: int, o: TileStore) -> None:
        """It writes, and where somebody outside reads that it stays."""
        region, cells = self.cells.of(o)
        # whole accumulators are nothing that another store could leave in INP
        self.writer[region][cells] = NOBODY if o.whole else number
        self.cell[region][cells] = np.arange(len(cells))
        if o.whole or o.dram.tensor not in self.program.inside:
            self.outside.add(number)

    def load(self, number: int, o: TileLoad) -> None:
        """Who wrote what it brings."""
        region, cells = self.cells.of(o)
        if region not in self.ends:
            if o.memory is Memory.INP:
                self.tiles.setdefault(o.tile, _Tile()).is_mixed = True
            return
        within = cells < self.ends[region]
        writer = np.where(within, self.writer[region][cells * within], NOBODY)
        cell = np.where(within, self.cell[region][cells * within], 0)
        if o.memory is not Memory.INP:
            self._read_outside(writer)
            return
        tile = self.tiles.setdefault(o.tile, _Tile())
        tile.is_mixed |= tile.is_read or bool((writer == NOBODY).any())
        tile.loads.append(number)
        tile.sources.append((writer, cell))

    def _read_outside(self, writer: Int64Array) -> None:
        self.outside |= set(np.unique(writer[writer != NOBODY]).tolist())

    # --- behind the walk --------------------------------------------------------------------------
    def found(self) -> Flow:
        """Tiles of one content together."""
        contents: dict[Hashable, InpContent] = {}
        for tile, own in self.tiles.items():
            loads = [o for n in own.loads if isinstance(o := self.operations[n], TileLoad)]
            if own.is_mixed:
                for writer, _ in own.sources:
                    self._read_outside(writer)
                continue
            said = [(*_shape(o), w.tobytes(), c.tobytes()) for o, (w, c) in _with(loads, own)]
            key = (tile.size_tiles, *said)
            if key in contents:
                contents[key].tiles.append(tile)
                contents[key].loads += own.loads
                continue
            parts = _parts(loads, own)
            contents[key] = InpContent([tile], own.loads, loads, parts)
        holder = {tile: one for one in contents.values() for tile in one.tiles}
        for number, o in enumerate(self.operations):
            if type(o) is GemmNest and o.src.tile in holder:
                holder[o.src.tile].used.append(number)
        read = [one for one in contents.values() if one.used]
        # products with weights of zeros are left out: the loads of what only they would read stay
        self.outside.update(*(one.parts for one in contents.values() if not one.used))
        return Flow(read, frozenset(self.outside))


def _with(
    loads: Sequence[TileLoad], own: _Tile
) -> Sequence[tuple[TileLoad, tuple[Int64Array, Int64Array]]]:
    return list(zip(loads, own.sources, strict=True))


def _shape(o: TileLoad) -> tuple[int, ...]:
    pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1, o.pad_value)
    return (o.offset, o.y_size, o.x_size, *pads)


def _parts(loads: Sequence[TileLoad], own: _Tile) -> dict[int, Int64Array]:
    """As of InpContent."""
    every = []
    for o, (writer, cell) in _with(loads, own):
        _, width = o.rows_columns
        rows = o.offset + (o.y_pad_0 + np.arange(o.y_size)[:, None]) * width
        places = (rows + o.x_pad_0 + np.arange(o.x_size)).ravel()
        every.append(np.stack([writer, cell, places], axis=1))
    cells = np.concatenate(every)
    return {number: cells[cells[:, 0] == number, 1:] for number in np.unique(cells[:, 0]).tolist()}
