# SPDX-License-Identifier: Apache-2.0
"""Does every tile of DRAM get what it got, when stores requantize instead of compute?

In:   the operations before and behind store_requantize.py.
Out:  nothing, or a LoweringError that names the layer.
Next: the verifier of store_requantize.py; tests run it behind the pass.

Both streams are walked through, tile by tile. What a tile of ACC holds is named by how often its
virtual tile was written, and by the requantizations since: where, by which operands, to what. A
store puts that name into DRAM, with its own requantization behind; both streams must put the same
names to the same places in the same order. All other operations must be the same, and find the same
requantizations done where they read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import product, zip_longest

from loadstone.errors import LoweringError
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.stream.operations import (
    Access,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["verify_stores"]

_NOTHING = ("", None)


def verify_stores(before: Sequence[LayerOperation], after: Sequence[LayerOperation]) -> None:
    """Raises LoweringError at the first difference."""
    pairs = zip_longest(_Walk().effects(before), _Walk().effects(after), fillvalue=_NOTHING)
    for (layer, was), (other, now) in pairs:
        if (layer, was) != (other, now):
            raise LoweringError(
                f"store_requantize: {layer or other}: something else is stored, or read"
            )


class _Walk:
    """What tiles hold at a point of a stream."""

    def __init__(self) -> None:
        self.version: dict[VirtualTile, int] = defaultdict(int)
        self.done: dict[tuple[VirtualTile, int], tuple[Hashable, ...]] = defaultdict(tuple)
        self.nests: dict[VirtualTile, tuple[int, ...]] = defaultdict(tuple)

    def effects(self, operations: Sequence[LayerOperation]) -> Iterator[tuple[str, Hashable]]:
        """Layer by layer: each tile that is stored, and each operation but stores and RQs."""
        for layer, operation in operations:
            if type(operation) is RequantizeNest:
                self._requantize(operation)
            elif type(operation) is TileStore:
                for effect in self._stored(operation):
                    yield layer, effect
            else:
                yield layer, self._other(operation)

    def _other(self, operation: Operation) -> Hashable:
        tiles = tiles_of(operation)
        found = (id(operation), tuple(self.nests[tile] for tile in tiles))
        if isinstance(operation, TileLoad | TileStore):
            written = operation.tile
        else:
            written = operation.dst.tile
        self.version[written] += 1
        return found

    def _requantize(self, o: RequantizeNest) -> None:
        tile = o.dst.tile
        self.nests[tile] += (id(o),)
        how = (o.zero_point, o.low, o.high, o.rounding)
        for turn in product(*map(range, o.extents)):
            at = _place(o.dst, turn)
            self.done[tile, at] += (self._by(o.operands.tile, _place(o.operands, turn), how, tile),)

    def _by(self, operands: VirtualTile, place: int, how: Hashable, tile: VirtualTile) -> Hashable:
        read = (id(operands), place, self.version[operands], self.nests[operands])
        return (*read, how, self.version[tile])

    def _stored(self, o: TileStore) -> Iterator[Hashable]:
        by = o.requantization
        for y, x in product(range(o.y_size), range(o.x_size)):
            at = o.offset + y * o.x_size + x
            done = self.done[o.tile, at]
            if by is not None:
                how = (by.zero_point, by.low, by.high, by.rounding)
                done += (self._by(by.tile, by.offset + y * by.step, how, o.tile),)
            place = (o.dram.tensor, o.dram.tile + y * o.x_stride + x)
            yield (*place, o.whole, o.inp, id(o.tile), at, self.version[o.tile], done)


def _place(access: Access, turn: Sequence[int]) -> int:
    moves = zip(turn, access.strides, strict=True)
    return access.base + sum(step * stride for step, stride in moves)
