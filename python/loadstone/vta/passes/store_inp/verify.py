# SPDX-License-Identifier: Apache-2.0
"""Does every operation read what it read, when stores go to INP instead of DRAM?

In:   programs before and behind store_inp.py.
Out:  nothing, or a LoweringError that names the layer.
Next: the verifier of store_inp.py; tests run it behind the pass.

Both streams are walked through, tile by tile. What a store takes from ACC is named by the tile and
how often it was written, by the cell, and by the requantization; names stand in DRAM and in INP, to
which loads and stores bring them. What each operation that computes reads must have the same names
in both streams, in the order in which its own tile of ACC is written; so must what else is loaded,
and what is left in DRAM for others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.stream.operations import (
    GemmNest,
    Nest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["verify_reads"]

_Names: TypeAlias = NDArray[np.int64]


def verify_reads(before: VtaProgram, after: VtaProgram) -> None:
    """Raises LoweringError at the first difference."""
    names: dict[Hashable, int] = {}
    was, now = _Walk(before, names), _Walk(after, names)
    for tile in was.effects | now.effects:
        one, other = was.effects[tile], now.effects[tile]
        if one != other:
            (layer, _), *_ = one + other
            raise LoweringError(f"store_inp: {layer}: something else is read, or computed")
    if was.left_over() != now.left_over():
        raise LoweringError("store_inp: something else is left in DRAM for others")


class _Walk:
    """What every operation of a stream reads. effects: of each tile of WGT and ACC, what has
    written to it, in its order."""

    def __init__(self, program: VtaProgram, names: dict[Hashable, int]) -> None:
        self.program = program
        self.names = names
        self.effects: dict[VirtualTile, list[tuple[str, Hashable]]] = defaultdict(list)
        self.inp: dict[VirtualTile, _Names] = {}
        self.dram: dict[tuple[int, int], int] = {}
        self.left: dict[tuple[int, int], int] = {}
        for layer, operation in program.operations:
            if type(operation) is TileStore:
                self._store(operation)
            elif type(operation) is TileLoad:
                self._load(layer, operation)
            else:
                self._compute(layer, operation)

    def left_over(self) -> dict[tuple[int, int], int]:
        """By place, what stands there in the end, of tensors that others see."""
        return {place: self.dram[place] for place in self.left}

    def _name(self, *what: Hashable) -> int:
        return self.names.setdefault(what, len(self.names))

    def _version(self, tile: VirtualTile) -> int:
        """How often it has been written."""
        return len(self.effects[tile])

    def _place(self, o: TileLoad | TileStore, memory: Memory, y: int, x: int) -> tuple[int, int]:
        size, place = self.program.config.tile_bytes(memory), self.program.places[o.dram.tensor]
        return place.region, place.offset_bytes + (o.dram.tile + y * o.x_stride + x) * size

    def _of_tile(self, tile: VirtualTile) -> _Names:
        return self.inp.setdefault(tile, np.full(tile.size_tiles, self._name("nothing")))

    def _store(self, o: TileStore) -> None:
        by = o.requantization
        for y, x in product(range(o.y_size), range(o.x_size)):
            how: Hashable = None
            if by is not None:
                operands = (id(by.tile), self._version(by.tile), by.offset + y * by.step)
                how = (operands, by.zero_point, by.low, by.high, by.rounding)
            cell = o.offset + y * o.x_size + x
            name = self._name(id(o.tile), self._version(o.tile), cell, how)
            if o.inp is not None:
                self._of_tile(o.inp.tile)[o.inp.offset + y * o.x_stride + x] = name
                continue
            region, first = self._place(o, o.memory, y, x)
            size, step = map(self.program.config.tile_bytes, (o.memory, Memory.OUT))
            for part in range(0, size, step):
                # a whole accumulator has four parts, none of which is what requantization gives
                self.dram[region, first + part] = self._name(name, part) if o.whole else name
                if o.dram.tensor not in self.program.inside:
                    self.left[region, first + part] = name

    def _load(self, layer: str, o: TileLoad) -> None:
        if o.memory is not Memory.INP:
            self.effects[o.tile].append((layer, (id(o), tuple(self._held(o)))))
            return
        width = o.x_pad_0 + o.x_size + o.x_pad_1
        height = o.y_pad_0 + o.y_size + o.y_pad_1
        rows = np.full((height, width), self._name("padding", o.pad_value))
        for y, x in product(range(o.y_size), range(o.x_size)):
            place = self._place(o, Memory.INP, y, x)
            name = self.dram.get(place)
            rows[o.y_pad_0 + y, o.x_pad_0 + x] = self._name(place) if name is None else name
        self._of_tile(o.tile)[o.offset : o.offset + rows.size] = rows.ravel()

    def _held(self, o: TileLoad) -> Iterator[int | None]:
        """What stands where it loads from, in cells of the size of what a store writes; None where
        no store has been."""
        size, step = map(self.program.config.tile_bytes, (o.memory, Memory.OUT))
        for y, x in product(range(o.y_size), range(o.x_size)):
            region, first = self._place(o, o.memory, y, x)
            for cell in range(first - first % step, first + size, step):
                yield self.dram.get((region, cell))

    def _compute(self, layer: str, o: Nest) -> None:
        read: Hashable = id(o)
        if type(o) is GemmNest:
            src = (o.src.base, o.src.strides, self._of_tile(o.src.tile).tobytes())
            read = (o.extents, id(o.dst.tile), o.dst.base, o.dst.strides, id(o.wgt.tile))
            read = (*read, o.wgt.base, o.wgt.strides, o.window, src)
        versions = tuple(map(self._version, tiles_of(o)))  # of INP always 0
        self.effects[o.dst.tile].append((layer, (read, versions)))
