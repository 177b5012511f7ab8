# SPDX-License-Identifier: Apache-2.0
"""Allocate: scratchpad addresses for virtual tiles, over the whole static stream.

In:   a VtaProgram's operations.
Out:  those that remain when the loads of what is still there, or of weights that nothing uses, are
      left out, and an address (first tile) for every virtual tile.
Next: encode/encode.py puts the addresses into instructions and micro-ops.

Placing every new tile in the window that was last used longest ago *is* multi-buffering: tile n+1
lands beside tile n while space lasts, so its load need not wait for the work on tile n. The whole
stream is known, so two more things are:

  - a tile that is written by loads only is known by what it holds. While it is still in the
  scratchpad, the loads of a
    later tile with the same content are dropped;
  - among windows that are free, one whose content will be wanted again is the last to be given
  away.

A program with a single layer keeps nothing for another one: there a load rather evicts what is
wanted again than that it waits for the work on the newest tile.

Spread so, tiles that live long may leave no window for a large one. Then the whole stream is
allocated again, packed: tiles of constants from the top, all others from the bottom; or fitted: in
the windows that leave the largest piece of the rest. Where that fails, too, weights are loaded as
late as the program says; and at last each layer is spread, packed or fitted for itself. Where
stores leave in INP what layers behind read, many tiles live long in some layers and few in others:
there it is packed or fitted in as few layers as it takes.

              +------+------+------------+----------+
    INP       | free | tile | wanted at  | tile     |      victims: free since longest, wanted
              latest
              |      | 17   | 93         | 18       |
              +------+------+------------+----------+
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.residency import NO_CONTENT, Lives, NoRoomError, order_numbers, reside
from loadstone.isa.scratchpad import Order, Scratchpad
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.allocate.verify import contents, verify_kept, verify_residency
from loadstone.vta.passes.program import ProgramPass, SourceOrder, VtaProgram
from loadstone.vta.stream.operations import GemmNest, TileStore, VirtualTile
from loadstone.vta.stream.table import NO_TILE, StreamColumns, columns_of

__all__ = ["Allocate", "Allocation", "allocate"]

Int64Array: TypeAlias = NDArray[np.int64]
#: As they are tried; the first in a program with a single layer alone, where nothing stays for
#: another one.
_ORDERS = (Order.APART, Order.SPREAD, Order.PACKED, Order.FITTED)


@dataclass(frozen=True)
class Allocation:
    """Numbers of the operations that remain, int64; tiles, and the first scratchpad tile of each;
    what was not loaded again."""

    kept: Int64Array
    tiles: Sequence[VirtualTile]
    first: Int64Array
    loads_dropped: int
    tiles_dropped: int

    @property
    def address(self) -> dict[VirtualTile, int]:
        """By tile, its first scratchpad tile."""
        return dict(zip(self.tiles, self.first.tolist(), strict=True))


class Allocate(ProgramPass):
    """Virtual tiles -> scratchpad addresses."""

    name: ClassVar[str] = "allocate"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Weights early, as long as everything then still has room. Raises LoweringError when the
        tiles of one operation do not fit a scratchpad together."""
        source = program.source or _unmoved(program)
        config, used = program.config, _is_used(source.columns)
        orders = _ORDERS[1:] if len({layer for layer, _ in source.operations}) > 1 else _ORDERS
        layers = [layer for layer, _ in source.operations]
        stores = source.columns.kinds[TileStore]
        keeps = bool((source.columns.touched[stores, 2] != NO_TILE).any())
        for order in (source.order, np.arange(len(source.operations))):
            stream = _Stream(source.columns, order[used[order]], config)
            with suppress(LoweringError):
                allocation = (
                    stream.allocated_around(layers)
                    if keeps
                    else stream.allocated(program.choice.place, orders)
                )
                break
        else:
            allocation = stream.allocated_by_layer(layers)
        return replace(
            program,
            operations=[source.operations[number] for number in allocation.kept.tolist()],
            columns=None,
            source=None,
            tile_address=allocation.address,
            loads_dropped=allocation.loads_dropped,
            tiles_dropped=allocation.tiles_dropped,
        )

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Loads alone are left out, and whatever an operation uses is still in the scratchpad when
        it does."""
        verify_kept(before, after)
        verify_residency(after, contents(before.operations))


#: A tile of INP that is smaller than others by this factor is a constant beside them.
_SMALL = 32


def _beside(lives: Lives[VirtualTile]) -> Int64Array:
    """Of constants, the largest tile that comes while they stay, and goes: of ACC those that are
    computed, and all of INP that are large beside the constant. 0: of other tiles."""
    tiles = lives.tiles
    beside, constant = np.zeros_like(lives.first), tiles.content != NO_CONTENT
    inputs, sums = tiles.memory == Memory.INP, tiles.memory == Memory.ACC
    small = tiles.size * _SMALL <= tiles.size[inputs].max(initial=0)
    few = np.flatnonzero(inputs & constant & small)
    largest = _largest(lives, few, np.flatnonzero(inputs))
    beside[few] = np.where(tiles.size[few] * _SMALL <= largest, largest, 0)
    operands = np.flatnonzero(sums & constant)
    beside[operands] = _largest(lives, operands, np.flatnonzero(sums & ~constant))
    return beside


def _largest(lives: Lives[VirtualTile], constants: Int64Array, others: Int64Array) -> Int64Array:
    """Of each constant, the size of the largest of the others that begins while it lives; 0 where
    none does."""
    begins, sizes = lives.first[others], np.append(lives.tiles.size[others], 0)
    first = np.searchsorted(begins, lives.first[constants], side="left")
    past = np.searchsorted(begins, lives.last[constants], side="right")
    largest = np.maximum.reduceat(sizes, np.stack([first, past], axis=1).ravel())[::2]
    return np.where(first < past, largest, 0)


def allocate(columns: StreamColumns, config: HwConfig, first: str | None = None) -> Allocation:
    """columns: of the operations. first: one of choices.PLACES, which is tried before the others.
    Raises LoweringError when the tiles of one operation do not fit a scratchpad together."""
    return _Stream(columns, np.arange(len(columns.steps)), config).allocated(first)


def _unmoved(program: VtaProgram) -> SourceOrder:
    columns = program.columns or columns_of([operation for _, operation in program.operations])
    return SourceOrder(program.operations, columns, np.arange(len(program.operations)))


def _is_used(columns: StreamColumns) -> NDArray[np.bool_]:
    """Of each operation, whether it is more than the load of weights that nothing multiplies: of
    zeros, whose products skip_pads/skip_pads.py left out."""
    idle = columns.tiles.memory == Memory.WGT
    idle[columns.touched[columns.kinds[GemmNest], 2]] = False
    return ~columns.loads_of(idle)


class _Stream:
    """Some operations in some order, and what is the same however their tiles are placed."""

    def __init__(self, columns: StreamColumns, numbers: Int64Array, config: HwConfig) -> None:
        self.columns = columns
        self.numbers = numbers
        self.config = config
        self.lives = columns.lives(numbers)
        # Operands stay in ACC while sums come and go: they must not stand in the way of two of
        # these.
        self.beside = _beside(self.lives)

    def allocated(self, first: str | None, tried: Sequence[Order] = _ORDERS[1:]) -> Allocation:
        """As `allocate`. tried: in this order."""
        orders = list(tried)
        if first is not None:
            orders.sort(key=lambda order: order.value != first)
        for order in orders[:-1]:
            with suppress(LoweringError):
                return self.placed(order)
        return self.placed(orders[-1])

    def allocated_by_layer(self, layers: Sequence[str]) -> Allocation:
        """A layer that has room alone has it here, where few tiles live from one to the next.
        layers: of all operations. Raises LoweringError as `allocate`."""
        number_of = {layer: number for number, layer in enumerate(dict.fromkeys(layers))}
        layer = np.array([number_of[layers[n]] for n in self.numbers.tolist()], np.int64)
        left = [list(_ORDERS[1:]) for _ in number_of]
        while True:
            orders = order_numbers([tried[0] for tried in left])
            try:
                return self.placed(Order.SPREAD, orders[layer[self.lives.first]])
            except NoRoomError as error:
                tried = left[layer[error.operation]]
                if len(tried) == 1:
                    raise
                del tried[0]

    def allocated_around(self, layers: Sequence[str]) -> Allocation:
        """Spread, but where a tile has no room, in the layers up to its own packed or fitted: in as
        few as it takes. layers: of all operations. Raises NoRoomError."""
        number_of = {layer: number for number, layer in enumerate(dict.fromkeys(layers))}
        layer = np.array([number_of[layers[n]] for n in self.numbers.tolist()], np.int64)
        orders = np.full(len(number_of), order_numbers([Order.SPREAD])[0])
        tried = np.zeros(len(number_of), np.int64)
        while True:
            try:
                return self.placed(Order.SPREAD, orders[layer[self.lives.first]])
            except NoRoomError as error:
                own = layer[error.operation]
                width, which = divmod(int(tried[own]), 2)
                tried[own] += 1
                if 1 << width > 2 * len(orders):
                    raise
                first = max(0, own + 1 - (1 << width))
                orders[first : own + 1] = order_numbers([(Order.PACKED, Order.FITTED)[which]])[0]

    def placed(self, order: Order, orders: Int64Array | None = None) -> Allocation:
        """orders: of each tile, where they differ. Raises NoRoomError."""
        pads: dict[int, Scratchpad] = {
            m: Scratchpad(m.name, self.config.depth(m), order)
            for m in (Memory.INP, Memory.WGT, Memory.ACC)
        }
        found = reside(self.lives, pads, self.beside, orders)
        resident = np.zeros(len(self.columns.tiles.tiles), np.bool_)
        resident[self.lives.number] = found.resident
        repeated = self.columns.loads_of(resident)[self.numbers]
        dropped = self.columns.copied[self.numbers[repeated]]
        return Allocation(
            self.numbers[~repeated],
            self.lives.tiles.tiles,
            found.address,
            len(dropped),
            int(dropped.sum()),
        )
