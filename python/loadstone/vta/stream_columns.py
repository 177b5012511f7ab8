# SPDX-License-Identifier: Apache-2.0
"""What passes ask of every operation, as columns: the tiles that it touches, what it copies.

In:   operations on virtual tiles, in any order.
Out:  StreamColumns.
Next: prefetch.py and allocate.py look at a whole stream by them; cost.py says how long each
      operation takes.

A network has some hundred thousand operations. So attributes are taken of all operations of a kind
at once, by functions of Python's own that need no line of it for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.residency import NO_CONTENT, Lives, TileColumns, lives_of
from loadstone.vta.stream import (
    AluNest,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["NO_TILE", "Kinds", "StreamColumns", "columns_of"]

Int64Array: TypeAlias = NDArray[np.int64]
#: Of each kind of operation, where it stands in the stream.
Kinds: TypeAlias = Mapping[type[Operation], Int64Array]

#: The number of no tile.
NO_TILE = -1
#: What an operation of each kind touches; an AluNest without an immediate has a source, too.
_TOUCHED: Mapping[type[Operation], tuple[str, ...]] = {
    TileLoad: ("tile",),
    TileStore: ("tile",),
    GemmNest: ("dst.tile", "src.tile", "wgt.tile"),
    FillNest: ("dst.tile",),
    AluNest: ("dst.tile",),
    RequantizeNest: ("dst.tile", "operands.tile"),
}
_COPY = ("dram.tile", "y_size", "x_size", "x_stride")
#: What else makes a load bring something else.
_LOAD = ("memory", "offset", "y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "pad_value")


@dataclass(frozen=True)
class StreamColumns:
    """Operations by number, and the tiles and tensors that they name by theirs.

    tiles: in no order. touched: (operations, 3), NO_TILE where one touches fewer; the first is what
    one that computes writes. copies: (operations, 5), of those that load and store: the number
    of the tensor, the first tile there, y_size, x_size, x_stride; of others zeros. tensors: their
    names.
    """

    kinds: Kinds
    tiles: TileColumns[VirtualTile]
    touched: Int64Array
    copies: Int64Array
    tensors: Sequence[str]

    @property
    def copied(self) -> Int64Array:
        """(operations,): tiles that each loads or stores."""
        return self.copies[:, 2] * self.copies[:, 3]

    def loads_of(self, tiles: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(operations,): whether each loads one of some tiles. tiles: (tiles,)."""
        loads = self.kinds[TileLoad]
        found = np.zeros(len(self.touched), np.bool_)
        found[loads] = tiles[self.touched[loads, 0]]
        return found

    def lives(self, numbers: Int64Array) -> Lives[VirtualTile]:
        """Of the tiles that some operations touch, in this order: (some,)."""
        touched = self.touched[numbers]
        operation, place = np.nonzero(touched != NO_TILE)
        return lives_of(self.tiles, operation, touched[operation, place])


def columns_of(operations: Sequence[Operation]) -> StreamColumns:
    """Those of a stream."""
    classes = np.fromiter(map(_CLASS.__getitem__, map(type, operations)), np.int8, len(operations))
    kinds = {kind: np.flatnonzero(classes == n) for kind, n in _CLASS.items()}
    numbers = defaultdict[VirtualTile, int](count().__next__)
    touched = np.full((len(operations), 3), NO_TILE)

    def touch(own: Int64Array, column: int, path: str) -> None:
        tiles = map(attrgetter(path), map(operations.__getitem__, own.tolist()))
        touched[own, column] = np.fromiter(map(numbers.__getitem__, tiles), np.int64, len(own))

    for kind, paths in _TOUCHED.items():
        for column, path in enumerate(paths):
            touch(kinds[kind], column, path)
    alus = kinds[AluNest]
    sources = map(attrgetter("src"), map(operations.__getitem__, alus.tolist()))
    touch(alus[[n for n, source in enumerate(sources) if source is not None]], 1, "src.tile")

    tensors = defaultdict[str, int](count().__next__)
    copies = np.zeros((len(operations), 1 + len(_COPY)), np.int64)
    for kind in (TileLoad, TileStore):
        own = list(map(operations.__getitem__, kinds[kind].tolist()))
        names = map(attrgetter("dram.tensor"), own)
        tensor = np.fromiter(map(tensors.__getitem__, names), np.int64, len(own))
        copies[kinds[kind]] = np.stack([tensor, *_fields(own, _COPY)], axis=1)

    tiles = list(numbers)
    memory, size = _fields(tiles, ("memory", "size_tiles"))
    loads = kinds[TileLoad]
    own = list(map(operations.__getitem__, loads.tolist()))
    brought = _equal([*copies[loads].T, *_fields(own, _LOAD)])
    content = _contents(touched[loads, 0], brought, size)
    for kind in (GemmNest, FillNest, AluNest, RequantizeNest):
        content[touched[kinds[kind], 0]] = NO_CONTENT
    columns = TileColumns(tiles, memory, size, content)
    return StreamColumns(kinds, columns, touched, copies, list(tensors))


#: Their numbers.
_CLASS = {kind: number for number, kind in enumerate(_TOUCHED)}


def _fields(own: Sequence[object], names: Sequence[str]) -> list[Int64Array]:
    """An attribute of each of them, by name."""
    return [np.fromiter(map(attrgetter(name), own), np.int64, len(own)) for name in names]


def _contents(tile: Int64Array, brought: Int64Array, size: Int64Array) -> Int64Array:
    """What each tile holds behind its loads: equal numbers for equal ones, NO_CONTENT where there
    are none. tile, brought: of each load.

    A DRAM tensor is written before it is first read and never after (every tensor of a region is
    produced once), so the name and place of what was loaded stand for the bytes.
    """
    order = np.argsort(tile, kind="stable")
    loaded, first, loads = np.unique(tile[order], return_index=True, return_counts=True)
    held = np.zeros_like(loaded)
    for turn in range(loads.max(initial=0)):
        more = loads > turn
        held[more] = _equal([held[more], brought[order[first[more] + turn]]])
    content = np.full(len(size), NO_CONTENT)
    content[loaded] = _equal([held, loads, size[loaded]])
    return content


def _equal(columns: Sequence[Int64Array]) -> Int64Array:
    """Numbers of rows, equal ones for equal rows."""
    numbers, below = np.zeros_like(columns[0]), 1
    for column in columns:
        low, high = int(column.min(initial=0)), int(column.max(initial=0))
        if below * (high - low + 1) > np.iinfo(np.int64).max:
            numbers, below = np.unique(numbers, return_inverse=True)[1], len(numbers)
        numbers = numbers * (high - low + 1) + (column - low)
        below *= high - low + 1
    return np.unique(numbers, return_inverse=True)[1]
