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
from math import prod
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.residency import NO_CONTENT, Lives, TileColumns, lives_of
from loadstone.vta.isa.spec import Memory
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
Kinds: TypeAlias = Mapping[type[object], Int64Array]

_Kind = TypeVar("_Kind", bound=Operation)

#: The number of no tile.
NO_TILE = -1
#: Columns of `StreamColumns.copies`.
_COPY = 6
_KINDS = (
    TileLoad,
    TileStore,
    GemmNest,
    FillNest,
    AluNest,
    RequantizeNest,
)


@dataclass(frozen=True)
class StreamColumns:
    """Operations by number, and the tiles and tensors that they name by theirs.

    tiles: in no order. touched: (operations, 3), NO_TILE where one touches fewer; the first is what
    one that computes writes. copies: (operations, 6), of those that load and store: the number
    of the tensor, the first tile there, y_size, x_size, x_stride, the memory. steps: (operations,),
    of those that compute. In both, others have zeros. tensors: their names.
    """

    kinds: Kinds
    tiles: TileColumns[VirtualTile]
    touched: Int64Array
    copies: Int64Array
    steps: Int64Array
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
    numbers: dict[type[object], list[int]] = {kind: [] for kind in _KINDS}
    for number, operation in enumerate(operations):
        numbers[type(operation)].append(number)
    kinds = {kind: np.array(own, np.int64) for kind, own in numbers.items()}

    def of(kind: type[_Kind]) -> list[_Kind]:
        return cast("list[_Kind]", [operations[number] for number in numbers[kind]])

    def column(values: Mapping[type[object], Sequence[int]], other: int) -> Int64Array:
        found = np.full(len(operations), other)
        for kind, own in values.items():
            found[kinds[kind]] = own
        return found

    loads, stores, gemms = of(TileLoad), of(TileStore), of(GemmNest)
    fills, alus, requantizes = of(FillNest), of(AluNest), of(RequantizeNest)
    tile = defaultdict[VirtualTile, int](count().__next__)  # a new key has the next number
    first: dict[type[object], list[int]] = {
        TileLoad: [tile[o.tile] for o in loads],
        TileStore: [tile[o.tile] for o in stores],
        GemmNest: [tile[o.dst.tile] for o in gemms],
        FillNest: [tile[o.dst.tile] for o in fills],
        AluNest: [tile[o.dst.tile] for o in alus],
        RequantizeNest: [tile[o.dst.tile] for o in requantizes],
    }
    second: dict[type[object], list[int]] = {
        GemmNest: [tile[o.src.tile] for o in gemms],
        AluNest: [tile[o.src.tile] if o.src else NO_TILE for o in alus],
        RequantizeNest: [tile[o.operands.tile] for o in requantizes],
    }
    third: dict[type[object], list[int]] = {GemmNest: [tile[o.wgt.tile] for o in gemms]}
    touched = np.stack([column(tiles, NO_TILE) for tiles in (first, second, third)], axis=1)
    steps = column(
        {
            GemmNest: [prod(o.extents) for o in gemms],
            FillNest: [prod(o.extents) for o in fills],
            AluNest: [prod(o.extents) for o in alus],
            RequantizeNest: [prod(o.extents) for o in requantizes],
        },
        0,
    )

    tensor = defaultdict[str, int](count().__next__)
    said, brought = _said(loads, tensor)
    stored = [
        (tensor[o.dram.tensor], o.dram.tile, o.y_size, o.x_size, o.x_stride, Memory.OUT)
        for o in stores
    ]
    copies = np.zeros((len(operations), _COPY), np.int64)
    copies[kinds[TileLoad]] = said[brought]
    copies[kinds[TileStore]] = np.array(stored, np.int64).reshape(-1, _COPY)

    tiles = list(tile)
    memory = np.array([each.memory for each in tiles], np.int64)
    size = np.array([each.size_tiles for each in tiles], np.int64)
    content = _contents(touched[kinds[TileLoad], 0], brought, size)
    content[touched[steps > 0, 0]] = NO_CONTENT
    columns = TileColumns(tiles, memory, size, content)
    return StreamColumns(kinds, columns, touched, copies, steps, list(tensor))


def _said(
    loads: Sequence[TileLoad], tensor: defaultdict[str, int]
) -> tuple[Int64Array, Int64Array]:
    """What different loads say, as in `StreamColumns.copies`; and which of them each load says."""
    different = defaultdict[tuple[int, ...], int](count().__next__)
    brought = [
        different[
            tensor[o.dram.tensor],
            o.dram.tile,
            o.y_size,
            o.x_size,
            o.x_stride,
            o.memory,
            o.offset,
            o.y_pad_0,
            o.y_pad_1,
            o.x_pad_0,
            o.x_pad_1,
            o.pad_value,
        ]
        for o in loads
    ]
    said = np.array([row[:_COPY] for row in different], np.int64).reshape(-1, _COPY)
    return said, np.array(brought, np.int64)


def _contents(tile: Int64Array, brought: Int64Array, size: Int64Array) -> Int64Array:
    """What each tile holds behind its loads: equal numbers for equal ones, NO_CONTENT where there
    are none. tile, brought: of each load, the numbers of what it fills and what it says.

    A DRAM tensor is written before it is first read and never after (every tensor of a region is
    produced once), so the name and place of what was loaded stand for the bytes.
    """
    order = np.argsort(tile, kind="stable")
    loaded, first, loads = np.unique(tile[order], return_index=True, return_counts=True)
    held = np.zeros_like(loaded)
    for turn in range(loads.max(initial=0)):
        more = loads > turn
        held[more] = _equal(held[more], brought[order[first[more] + turn]])
    content = np.full(len(size), NO_CONTENT)
    content[loaded] = _equal(_equal(held, loads), size[loaded])
    return content


def _equal(one: Int64Array, other: Int64Array) -> Int64Array:
    """Numbers of pairs, equal ones for equal pairs. Both are at least 0, and their product with the
    number of pairs is below 2^63."""
    return np.unique(one * (other.max(initial=0) + 1) + other, return_inverse=True)[1]
