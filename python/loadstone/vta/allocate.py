# SPDX-License-Identifier: Apache-2.0
"""Allocate: scratchpad addresses for virtual tiles, over the whole static stream.

In:   a VtaProgram's operations.
Out:  those that remain when the loads of what is still there, or of weights that nothing uses, are
      left out, and an address (first tile) for every virtual tile.
Next: encode.py puts the addresses into instructions and micro-ops.

Placing every new tile in the window that was last used longest ago *is* multi-buffering: tile n+1
lands beside tile n while space lasts, so its load need not wait for the work on tile n. The whole
stream is known, so two more things are:

  - a tile that is written by loads only is known by what it holds. While it is still in the
  scratchpad, the loads of a
    later tile with the same content are dropped;
  - among windows that are free, one whose content will be wanted again is the last to be given
  away.

Spread so, tiles that live long may leave no window for a large one. Then the whole stream is
allocated again, packed: tiles of constants from the top, all others from the bottom; or fitted: in
the windows that leave the largest piece of the rest. Where that fails, too, weights are loaded as
late as the program says; and at last each layer is spread, packed or fitted for itself.

              +------+------+------------+----------+
    INP       | free | tile | wanted at  | tile     |      victims: free since longest, wanted
              latest
              |      | 17   | 93         | 18       |
              +------+------+------------+----------+
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from loadstone.errors import LoweringError
from loadstone.isa.residency import Lives, NoRoomError, reside
from loadstone.isa.scratchpad import Content, Order, Scratchpad
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.program import LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.stream import GemmNest, Operation, TileLoad, TileStore, VirtualTile, tiles_of
from loadstone.vta.verify_residency import verify_residency

__all__ = ["Allocate", "Allocation", "allocate", "contents"]


@dataclass(frozen=True)
class Allocation:
    """Numbers of the operations that remain, each tile's first scratchpad tile, and what was not
    loaded again."""

    kept: list[int]
    address: dict[VirtualTile, int]
    loads_dropped: int
    tiles_dropped: int


class Allocate(ProgramPass):
    """Virtual tiles -> scratchpad addresses."""

    name: ClassVar[str] = "allocate"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Weights early, as long as everything then still has room. Raises LoweringError when the
        tiles of one operation do not fit a scratchpad together."""
        config, first = program.config, program.choice.place
        orders = [program.operations, program.source_order or program.operations]
        for operations in map(_used, orders):
            with suppress(LoweringError):
                allocation = allocate([o for _, o in operations], config, first)
                break
        else:
            allocation = _by_layer(operations, config)
        return replace(
            program,
            operations=[operations[number] for number in allocation.kept],
            tile_address=allocation.address,
            loads_dropped=allocation.loads_dropped,
            tiles_dropped=allocation.tiles_dropped,
        )

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Whatever an operation uses is still in the scratchpad when it does."""
        verify_residency(after, contents([operation for _, operation in before.operations]))


def _used(operations: Sequence[LayerOperation]) -> list[LayerOperation]:
    """Without the loads of weights that nothing multiplies: of zeros, whose products skip_pads.py
    left out."""
    used = {operation.wgt.tile for _, operation in operations if type(operation) is GemmNest}
    return [
        (layer, o)
        for layer, o in operations
        if type(o) is not TileLoad or o.memory is not Memory.WGT or o.tile in used
    ]


#: A tile of INP that is smaller than others by this factor is a constant beside them.
_SMALL = 32


def _beside(lives: Lives[VirtualTile]) -> dict[VirtualTile, int]:
    """Of constants, the largest tile that comes while they stay, and goes: of ACC those that are
    computed, and all of INP that are large beside the constant."""
    tiles: dict[Memory, list[VirtualTile]] = {Memory.ACC: [], Memory.INP: []}
    for tile in lives.first:
        if tile.memory in tiles:
            tiles[tile.memory].append(tile)
    inputs = tiles[Memory.INP]
    small = max((tile.size_tiles for tile in inputs), default=0) // _SMALL
    few = [tile for tile in inputs if tile.size_tiles <= small and tile in lives.content]
    found = {
        tile: largest
        for tile, largest in zip(few, _largest(lives, few, inputs), strict=True)
        if tile.size_tiles * _SMALL <= largest
    }
    sums = [tile for tile in tiles[Memory.ACC] if tile not in lives.content]
    operands = [tile for tile in tiles[Memory.ACC] if tile in lives.content]
    return found | dict(zip(operands, _largest(lives, operands, sums), strict=True))


def _largest(
    lives: Lives[VirtualTile], constants: Sequence[VirtualTile], others: Sequence[VirtualTile]
) -> list[int]:
    """Of each constant, the size of the largest of the others that begins while it lives; 0 where
    none does."""
    begins = np.array([lives.first[tile] for tile in others], np.int64)
    sizes = np.array([*(tile.size_tiles for tile in others), 0], np.int64)
    first = np.searchsorted(begins, [lives.first[tile] for tile in constants], side="left")
    past = np.searchsorted(begins, [lives.last[tile] for tile in constants], side="right")
    largest = np.maximum.reduceat(sizes, np.stack([first, past], axis=1).ravel())[::2]
    return np.where(first < past, largest, 0).tolist()  # type: ignore[no-any-return]


def allocate(
    operations: Sequence[Operation], config: HwConfig, first: str | None = None
) -> Allocation:
    """first: one of choices.PLACES, which is tried before the others. Raises LoweringError when the
    tiles of one operation do not fit a scratchpad together."""
    stream = _Stream(operations, config)
    orders = [Order.SPREAD, Order.PACKED, Order.FITTED]
    if first is not None:
        orders.sort(key=lambda order: order.value != first)
    for order in orders[:-1]:
        with suppress(LoweringError):
            return stream.placed(order)
    return stream.placed(orders[-1])


def _by_layer(operations: Sequence[tuple[str, Operation]], config: HwConfig) -> Allocation:
    """A layer that has room alone has it here, where few tiles live from one to the next. Raises
    LoweringError as `allocate`."""
    stream = _Stream([o for _, o in operations], config)
    left = {layer: [Order.SPREAD, Order.PACKED, Order.FITTED] for layer, _ in operations}
    while True:
        try:
            return stream.placed(Order.SPREAD, lambda number: left[operations[number][0]][0])
        except NoRoomError as error:
            orders = left[operations[error.operation][0]]
            if len(orders) == 1:
                raise
            del orders[0]


class _Stream:
    """Operations, and what is the same however their tiles are placed."""

    def __init__(self, operations: Sequence[Operation], config: HwConfig) -> None:
        self.operations = operations
        self.config = config
        content = contents(operations)
        self.lives = Lives([tiles_of(operation) for operation in operations], content)
        # Operands stay in ACC while sums come and go: they must not stand in the way of two of
        # these.
        self.beside = _beside(self.lives)
        self.loads = [o.tile if type(o) is TileLoad else None for o in operations]

    def placed(self, order: Order, order_of: Callable[[int], Order] | None = None) -> Allocation:
        """order_of: of each operation, where they differ. Raises NoRoomError."""
        pads: dict[Hashable, Scratchpad] = {
            m: Scratchpad(m.name, self.config.depth(m), order)
            for m in (Memory.INP, Memory.WGT, Memory.ACC)
        }
        found = reside(self.lives, pads, self.loads, self.beside, order_of)
        left_out = [o for n in found.dropped if type(o := self.operations[n]) is TileLoad]
        tiles_dropped = sum(o.x_size * o.y_size for o in left_out)
        return Allocation(found.kept, found.address, len(left_out), tiles_dropped)


def contents(operations: Sequence[Operation]) -> dict[VirtualTile, Content]:
    """What each tile that is written by loads alone holds: equal numbers for equal loads.

    A DRAM tensor is written before it is first read and never after (every tensor of a region is
    produced once), so the name and place of what was loaded stand for the bytes.
    """
    loads: dict[VirtualTile, list[tuple[object, ...]]] = {}
    computed: set[VirtualTile] = set()
    for operation in operations:
        if type(operation) is TileLoad:
            o, dram = operation, operation.dram
            place = (o.memory, o.offset, dram.tensor, dram.tile)
            size = (o.y_size, o.x_size, o.x_stride)
            pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1, o.pad_value)
            loads.setdefault(o.tile, []).append((*place, *size, *pads))
        elif type(operation) is not TileStore:
            computed.add(operation.dst.tile)
    numbers: dict[tuple[object, ...], Content] = {}
    return {
        tile: numbers.setdefault((tile.size_tiles, *records), len(numbers))
        for tile, records in loads.items()
        if tile not in computed
    }
