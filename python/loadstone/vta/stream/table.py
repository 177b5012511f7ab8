# SPDX-License-Identifier: Apache-2.0
"""The properties of operations that passes use, as columns: the tiles that each accesses, its copy.

In:   operations on virtual tiles.
Out:  StreamColumns.
Next: passes/skip_pads/skip_pads.py, passes/prefetch.py and passes/allocate/allocate.py read a whole
      stream by them; cost.py adds the cycles of each operation.

A network has some hundred thousand operations, and reading each takes longer than all work on the
columns. It is therefore done once for each layer, when it is tried; the columns of a program are
concatenated from these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, count
from math import prod
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.residency import NO_CONTENT, Lives, TileColumns, lives_of
from loadstone.vta.stream.operations import (
    AluNest,
    FillNest,
    GemmNest,
    Nest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["NO_TILE", "StreamColumns", "columns_of", "joined"]

Int64Array: TypeAlias = NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=Operation)

#: The number of no tile.
NO_TILE = -1
#: Columns of `StreamColumns.copies`.
_COPY = 6
#: Columns of `StreamColumns.said`.
_SAID = 12
_NESTS: tuple[type[Nest], ...] = (GemmNest, FillNest, AluNest, RequantizeNest)
_KINDS = (TileLoad, TileStore, *_NESTS)


@dataclass(frozen=True)
class StreamColumns:
    """Operations by number, and the tiles and tensors that they name by theirs.

    classes: (operations,), the kind of each. tiles: in no order. touched: (operations, 3), NO_TILE
    where one touches fewer; the first is what one that computes writes, the last of a store where
    it puts what stays in INP. copies: (operations, 6), of
    those that load and store: the number of the tensor, the first tile there, y_size, x_size,
    x_stride, the memory. steps: (operations,), of those that compute. In both, others have zeros.
    tensors: their names. said: (different, 12), what different loads say: as in copies, then the
    offset, y_pad_0, y_pad_1, x_pad_0, x_pad_1, pad_value. brought: (loads,), which of these.
    """

    classes: NDArray[np.int8]
    tiles: TileColumns[VirtualTile]
    touched: Int64Array
    copies: Int64Array
    steps: Int64Array
    tensors: Sequence[str]
    said: Int64Array
    brought: Int64Array

    @cached_property
    def kinds(self) -> Mapping[type[object], Int64Array]:
        """Of each kind of operation, the numbers: (its operations,)."""
        return {kind: np.flatnonzero(self.classes == n) for n, kind in enumerate(_KINDS)}

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

    def taken(self, order: Int64Array) -> StreamColumns:
        """Of the operations in another order: (operations,), their numbers."""
        brought = np.zeros(len(order), np.int64)
        brought[self.kinds[TileLoad]] = self.brought
        classes = self.classes[order]
        return _with_contents(
            replace(
                self,
                classes=classes,
                touched=self.touched[order],
                copies=self.copies[order],
                steps=self.steps[order],
                brought=brought[order][classes == _KINDS.index(TileLoad)],
            )
        )

    def cut(self, gemms: Mapping[int, Sequence[GemmNest]]) -> StreamColumns:
        """Where others, on the same tiles, take the place of some GEMMs: by number. Each of those
        tiles is touched, and written, by something else, too."""
        many = np.ones(len(self.steps), np.int64)
        many[list(gemms)] = [len(parts) for parts in gemms.values()]
        source, new = np.repeat(np.arange(len(many)), many), np.zeros(len(many), np.bool_)
        new[list(gemms)] = True
        steps = self.steps[source]
        steps[new[source]] = [prod(part.extents) for parts in gemms.values() for part in parts]
        return replace(
            self,
            classes=self.classes[source],
            touched=self.touched[source],
            copies=self.copies[source],
            steps=steps,
        )


def columns_of(operations: Sequence[Operation]) -> StreamColumns:
    """Those of a stream."""
    by_kind = _ByKind(operations)
    tile = defaultdict[VirtualTile, int](count().__next__)  # a new key has the next number
    tensor = defaultdict[str, int](count().__next__)
    touched = _touched(by_kind, tile)
    said, brought = _said(by_kind.of(TileLoad), tensor)
    stored = [
        (
            *(tensor[o.dram.tensor], o.dram.tile, o.y_size, o.x_size, o.x_stride),
            o.memory,
        )
        for o in by_kind.of(TileStore)
    ]
    copies = np.zeros((len(operations), _COPY), np.int64)
    copies[by_kind.numbers[TileLoad]] = said[brought, :_COPY]
    copies[by_kind.numbers[TileStore]] = np.array(stored, np.int64).reshape(-1, _COPY)
    steps = by_kind.column(
        {kind: [prod(o.extents) for o in by_kind.of(kind)] for kind in _NESTS}, 0
    )
    tiles = TileColumns(
        list(tile),
        np.array([each.memory for each in tile], np.int64),
        np.array([each.size_tiles for each in tile], np.int64),
        np.full(len(tile), NO_CONTENT),
    )
    classes = np.zeros(len(operations), np.int8)
    for n, kind in enumerate(_KINDS):
        classes[by_kind.numbers[kind]] = n
    return _with_contents(
        StreamColumns(classes, tiles, touched, copies, steps, list(tensor), said, brought)
    )


class _ByKind:
    """A stream's operations, and by kind their numbers."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        own: dict[type[object], list[int]] = {kind: [] for kind in _KINDS}
        for number, operation in enumerate(operations):
            own[type(operation)].append(number)
        self.numbers = {kind: np.array(numbers, np.int64) for kind, numbers in own.items()}
        self._operations = operations
        self._own = own

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Those of one kind, in order."""
        return cast("list[_Kind]", [self._operations[number] for number in self._own[kind]])

    def column(self, values: Mapping[type[_Kind], Sequence[int]], other: int) -> Int64Array:
        """(operations,): values of those of some kinds, and of the others another."""
        found = np.full(len(self._operations), other)
        for kind, own in values.items():
            found[self.numbers[kind]] = own
        return found


def _touched(by_kind: _ByKind, tile: defaultdict[VirtualTile, int]) -> Int64Array:
    """(operations, 3), as of StreamColumns."""
    alus, gemms = by_kind.of(AluNest), by_kind.of(GemmNest)
    first: dict[type[Operation], list[int]] = {
        TileLoad: [tile[o.tile] for o in by_kind.of(TileLoad)],
        TileStore: [tile[o.tile] for o in by_kind.of(TileStore)],
    }
    first |= {kind: [tile[o.dst.tile] for o in by_kind.of(kind)] for kind in _NESTS}
    second: dict[type[Operation], list[int]] = {
        GemmNest: [tile[o.src.tile] for o in gemms],
        AluNest: [tile[o.src.tile] if o.src else NO_TILE for o in alus],
        RequantizeNest: [tile[o.operands.tile] for o in by_kind.of(RequantizeNest)],
        TileStore: [
            NO_TILE if o.requantization is None else tile[o.requantization.tile]
            for o in by_kind.of(TileStore)
        ],
    }
    third: dict[type[Operation], list[int]] = {
        GemmNest: [tile[o.wgt.tile] for o in gemms],
        TileStore: [NO_TILE if o.inp is None else tile[o.inp.tile] for o in by_kind.of(TileStore)],
    }
    columns = [by_kind.column(tiles, NO_TILE) for tiles in (first, second, third)]
    return np.stack(columns, axis=1)


def joined(parts: Sequence[StreamColumns]) -> StreamColumns:
    """Columns of streams behind each other, which have no tile in common."""
    if not parts:
        return columns_of([])
    tensor = defaultdict[str, int](count().__next__)  # a new key has the next number
    load = defaultdict[tuple[int, ...], int](count().__next__)
    tiles = list(accumulate((len(part.tiles.tiles) for part in parts), initial=0))
    touched, copies, brought = [], [], []
    for part, first in zip(parts, tiles, strict=False):
        tensors = np.array([tensor[name] for name in part.tensors], np.int64)
        touched.append(np.where(part.touched == NO_TILE, NO_TILE, part.touched + first))
        own, said = part.copies.copy(), part.said.copy()
        moves = part.classes < _KINDS.index(GemmNest)
        own[moves, 0] = tensors[own[moves, 0]]
        said[:, 0] = tensors[said[:, 0]]
        copies.append(own)
        same = np.array([load[row] for row in map(tuple, said.tolist())], np.int64)
        brought.append(same[part.brought])
    return _with_contents(
        StreamColumns(
            np.concatenate([part.classes for part in parts]),
            TileColumns(
                [tile for part in parts for tile in part.tiles.tiles],
                np.concatenate([part.tiles.memory for part in parts]),
                np.concatenate([part.tiles.size for part in parts]),
                np.concatenate([part.tiles.content for part in parts]),
            ),
            np.concatenate(touched),
            np.concatenate(copies),
            np.concatenate([part.steps for part in parts]),
            list(tensor),
            np.array(list(load), np.int64).reshape(-1, _SAID),
            np.concatenate(brought),
        )
    )


def _said(
    loads: Sequence[TileLoad], tensor: defaultdict[str, int]
) -> tuple[Int64Array, Int64Array]:
    """What different loads say, and which of them each load says."""
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
    said = np.array(list(different), np.int64).reshape(-1, _SAID)
    return said, np.array(brought, np.int64)


def _with_contents(columns: StreamColumns) -> StreamColumns:
    """Says what each tile holds that loads alone write: equal numbers for equal loads.

    A DRAM tensor is written before it is first read and never after (every tensor of a region is
    produced once), so the name and place of what was loaded stand for the bytes.
    """
    tile, size = columns.touched[columns.kinds[TileLoad], 0], columns.tiles.size
    order = np.argsort(tile, kind="stable")
    loaded, first, loads = np.unique(tile[order], return_index=True, return_counts=True)
    ranges = np.stack([size[loaded], first, first + loads], axis=1).tolist()
    brought = columns.brought[order].tolist()
    number = defaultdict[tuple[int, ...], int](count().__next__)  # a new key has the next number
    content = np.full(len(size), NO_CONTENT)
    keys = ((tiles, *brought[begin:end]) for tiles, begin, end in ranges)
    content[loaded] = [number[key] for key in keys]
    content[columns.touched[columns.steps > 0, 0]] = NO_CONTENT
    to = columns.touched[columns.kinds[TileStore], 2]
    content[to[to != NO_TILE]] = NO_CONTENT
    return replace(columns, tiles=replace(columns.tiles, content=content))
