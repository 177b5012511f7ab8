# SPDX-License-Identifier: Apache-2.0
"""Store requantize: what is only stored behind an RQ is requantized on its way to DRAM.

In:   a VtaProgram's operations on virtual tiles.
Out:  the same, with stores that requantize in the place of RQs and of the stores of their results,
      where the device has the capability.
Next: weave.py.

    gemm acc [..] += ..                                   gemm acc [..] += ..
    requantize acc [a] by p [0] to 3 for a<64      ->     store y = acc requantized by p [0] to 3
    store y = acc

Compute then begins with the next tile while the store stage requantizes this one. A store takes its
operands from three tiles, or from three more in each row: one whose tiles want others becomes
several, unless these take longer than what they replace. What anything else reads behind its RQ
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import Capability
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.store_requantize.verify import verify_stores
from loadstone.vta.stream.cost import CostModel, cost_model
from loadstone.vta.stream.loop_nest import offsets
from loadstone.vta.stream.operations import (
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["StoreRequantize"]

Int64Array: TypeAlias = NDArray[np.int64]
_Touches: TypeAlias = Mapping[VirtualTile, Sequence[int]]
#: By number of an operation, what stands in its place.
_Changes: TypeAlias = dict[int, list[Operation]]
_NONE = -1


class StoreRequantize(ProgramPass):
    """RQ and stores -> stores that requantize."""

    name: ClassVar[str] = "store_requantize"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations with fewer RQs."""
        if not program.config.has(Capability.STORE_REQUANTIZE):
            return program
        operations = [operation for _, operation in program.operations]
        changes = _changes(operations, cost_model(program.config))
        made = [
            (layer, one)
            for number, (layer, operation) in enumerate(program.operations)
            for one in changes.get(number, [operation])
        ]
        return replace(program, operations=made, columns=None)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Every tile of DRAM gets what it got, and all else reads what it read."""
        verify_stores(before.operations, after.operations)


def _changes(operations: Sequence[Operation], cost: CostModel) -> _Changes:
    touches: dict[VirtualTile, list[int]] = {}
    for number, operation in enumerate(operations):
        for tile in tiles_of(operation):
            touches.setdefault(tile, []).append(number)
    changes: _Changes = {}
    results = {o.dst.tile: None for o in operations if type(o) is RequantizeNest}
    for tile in results:
        changes |= _of_tile(tile, operations, touches, cost)
    return changes


def _of_tile(
    tile: VirtualTile, operations: Sequence[Operation], touches: _Touches, cost: CostModel
) -> _Changes:
    """What changes where one tile of ACC is requantized and stored: nothing, where it cannot."""
    tail = _tail(tile, operations, touches[tile])
    requantized = _RequantizedTiles(tile.size_tiles)
    changes: _Changes = {}
    was = now = 0
    for number in tail:
        operation = operations[number]
        if type(operation) is RequantizeNest:
            if not requantized.add(operation) or not _stays(operation, number, operations, touches):
                return {}
            was += _cycles(operation, cost)
            changes[number] = []
            continue
        assert type(operation) is TileStore
        parts = () if operation.whole else requantized.stores(operation)
        if not parts:
            return {}
        was += cost.store(operation.y_size * operation.x_size) + cost.store_rows(operation.y_size)
        now += sum(_store_cycles(part, cost) for part in parts)
        changes[number] = list(parts)
    return changes if now <= was else {}


def _tail(
    tile: VirtualTile, operations: Sequence[Operation], numbers: Sequence[int]
) -> Sequence[int]:
    """The RQs of a tile and the stores behind which nothing else touches it."""
    own = list(numbers)
    begin = len(own)
    while begin and _only_requantizes(operations[own[begin - 1]], tile):
        begin -= 1
    return own[begin:]


def _only_requantizes(operation: Operation, tile: VirtualTile) -> bool:
    if type(operation) is RequantizeNest:
        return operation.dst.tile is tile and operation.operands.tile is not tile
    return type(operation) is TileStore


def _stays(
    o: RequantizeNest, number: int, operations: Sequence[Operation], touches: _Touches
) -> bool:
    """Whether the operands of an RQ were loaded before it, and are never written again."""
    tile = o.operands.tile
    for other in touches[tile]:
        operation = operations[other]
        if type(operation) is TileLoad:
            if other > number:
                return False
        elif type(operation) is not TileStore and operation.dst.tile is tile:
            return False
    return True


def _cycles(o: RequantizeNest, cost: CostModel) -> int:
    operands = _places(o)[:, 1]
    return cost.requantize(len(operands), 1 + int(np.count_nonzero(np.diff(operands))))


def _store_cycles(o: TileStore, cost: CostModel) -> int:
    assert o.requantization is not None
    moves = o.requantization.step > 0
    return cost.requantized_store(o.y_size, o.x_size, moves=moves) + cost.store_rows(o.y_size)


def _places(o: RequantizeNest) -> Int64Array:
    """(steps, 2): the tile that each step writes, and the first of its operands."""
    loops = list(zip(o.extents, zip(o.dst.strides, o.operands.strides, strict=True), strict=True))
    return np.asarray(offsets(loops, 2) + np.array([o.dst.base, o.operands.base]), np.int64)


class _RequantizedTiles:
    """By which RQ, and by which operands, each place of a tile was requantized."""

    def __init__(self, size: int) -> None:
        self.by = np.full(size, _NONE)
        self.operands = np.zeros(size, np.int64)
        self.nests: list[RequantizeNest] = []
        self.stored = np.zeros(size, np.bool_)

    def add(self, o: RequantizeNest) -> bool:
        """Whether each place is requantized once, before it is stored."""
        dst, operands = _places(o).T
        again = self.by[dst] != _NONE
        if again.any() or self.stored[dst].any() or len(np.unique(dst)) < len(dst):
            return False
        self.by[dst], self.operands[dst] = len(self.nests), operands
        self.nests.append(o)
        return True

    def stores(self, o: TileStore) -> Sequence[TileStore]:
        """What a store becomes; nothing where something of it is not requantized."""
        count = o.y_size * o.x_size
        at = slice(o.offset, o.offset + count)
        self.stored[at] = True
        if (self.by[at] == _NONE).any():
            return ()
        return list(_grouped(list(self._pieces(o))))

    def _pieces(self, o: TileStore) -> Iterator[TileStore]:
        """Tiles of one row that have the same operands."""
        for y in range(o.y_size):
            first = o.offset + y * o.x_size
            by, operands = (a[first : first + o.x_size] for a in (self.by, self.operands))
            moved = (np.diff(by) != 0) | (np.diff(operands) != 0)
            begins = [0, *(np.flatnonzero(moved) + 1).tolist(), o.x_size]
            for begin, end in pairwise(begins):
                nest = self.nests[by[begin]]
                yield TileStore(
                    o.tile,
                    first + begin,
                    replace(o.dram, tile=o.dram.tile + y * o.x_stride + begin),
                    1,
                    end - begin,
                    end - begin,
                    StoreRequantization(
                        nest.operands.tile,
                        int(operands[begin]),
                        0,
                        nest.zero_point,
                        nest.low,
                        nest.high,
                        nest.rounding,
                    ),
                )


def _grouped(pieces: Sequence[TileStore]) -> Iterator[TileStore]:
    """Rows of equal length that one store can hold, joined: as far as each goes."""
    rest = list(pieces)
    while rest:
        count = 1
        while count < len(rest) and _goes_on(rest, count):
            count += 1
        yield _joined(rest[:count]) if count > 1 else rest[0]
        del rest[:count]


def _goes_on(pieces: Sequence[TileStore], count: int) -> bool:
    """Whether piece number `count` continues the ones before it."""
    first, second, before, last = pieces[0], pieces[1], pieces[count - 1], pieces[count]
    return (
        last.x_size == first.x_size
        and last.dram.tile - before.dram.tile == second.dram.tile - first.dram.tile
        and _step(before, last) == _step(first, second)
        and _step(first, second) in (0, REQUANTIZE_TILES)
    )


def _step(first: TileStore, second: TileStore) -> int:
    """From the operands of one row to those of the next; -1 where more than these differs."""
    a, b = first.requantization, second.requantization
    assert a is not None
    assert b is not None
    same = a.tile is b.tile and replace(a, offset=0) == replace(b, offset=0)
    return b.offset - a.offset if same else -1


def _joined(rows: Sequence[TileStore]) -> TileStore:
    first, second = rows[:2]
    assert first.requantization is not None
    return replace(
        first,
        y_size=len(rows),
        x_stride=second.dram.tile - first.dram.tile,
        requantization=replace(first.requantization, step=_step(first, second)),
    )
