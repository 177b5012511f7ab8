# SPDX-License-Identifier: Apache-2.0
"""Allocate: scratchpad addresses for virtual tiles, over the whole static stream.

In:   a VtaProgram's operations.
Out:  those that remain when the loads of what is still there are left out, and an address (first
      tile) for every virtual tile.
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
late as the program says.

              +------+------+------------+----------+
    INP       | free | tile | wanted at  | tile     |      victims: free since longest, wanted
              latest
              |      | 17   | 93         | 18       |
              +------+------+------------+----------+
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np

from loadstone.errors import LoweringError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.program import ProgramPass, VtaProgram
from loadstone.vta.stream import Operation, TileLoad, TileStore, VirtualTile, tiles_of
from loadstone.vta.verify_residency import verify_residency

__all__ = ["Allocate", "Allocation", "allocate", "contents"]

#: What a tile that only loads write holds: the number of its loads, relative to its start.
Content: TypeAlias = int

_NEVER = 1 << 60
#: Sets of tiles that take turns: one is filled while the other is stored.
_SETS = 2


class _Order(Enum):
    """Which windows are preferred. SPREAD: those that were last used longest ago. FITTED: those
    that leave the largest piece of what does not live, and among these as SPREAD. PACKED: constants
    from the top, all others from the bottom."""

    SPREAD = "spread"
    FITTED = "fitted"
    PACKED = "packed"


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
        operations, first = program.operations, program.choice.place
        try:
            allocation = allocate([o for _, o in operations], program.config, first)
        except LoweringError:
            if not program.source_order:
                raise
            operations = program.source_order
            allocation = allocate([o for _, o in operations], program.config, first)
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


@dataclass(slots=True)
class _Block:
    """A range of a scratchpad and the tile that lives or lived there."""

    start: int
    end: int
    tile: VirtualTile
    last_use: int
    content: Content | None


class _Scratchpad:
    """One scratchpad: blocks in address order; gaps are free since ever."""

    def __init__(self, memory: Memory, depth: int, order: _Order) -> None:
        self.memory = memory
        self.depth = depth
        self.order = order
        self.blocks: list[_Block] = []
        self.resident: dict[Content, _Block] = {}

    def place(
        self,
        tile: VirtualTile,
        held: Content | None,
        now: int,
        wanted: dict[Content, list[int]],
        beside: int = 0,
    ) -> int:
        """The first tile of the best window; what lay there is forgotten. beside: the size of tiles
        that need room while this one lives. Raises LoweringError when every window holds something
        that lives."""
        size, blocks = tile.size_tiles, self.blocks
        window = self._best_window(size, held, now, wanted)
        if self._parts_sums(window, size, now, beside):
            window = self._best_window(size, held, now, wanted, beside) or window
        if window is None:
            live = sum(b.end - b.start for b in blocks if b.last_use >= now)
            raise LoweringError(
                f"allocate: {self.memory.name} has no room for {tile.name} of {size} tiles: "
                f"{live} of {self.depth} are in use; smaller tiles are needed"
            )
        start, first, last = window
        for block in blocks[first:last]:
            if block.content is not None and self.resident.get(block.content) is block:
                del self.resident[block.content]
        blocks[first:last] = [_Block(start, start + size, tile, now, None)]
        return start

    def _parts_sums(
        self, window: tuple[int, int, int] | None, size: int, now: int, beside: int
    ) -> bool:
        """Whether a spread window leaves no room for two tiles of size `beside`."""
        if window is None or not beside or self.order is not _Order.SPREAD:
            return False
        return self._sets_left(window[0], size, now, beside) < _SETS

    def _sets_left(self, start: int, size: int, now: int, beside: int) -> int:
        """How many tiles of size `beside` fit, besides one of `size` at `start`; at most two, which
        is what double-buffering takes."""
        pieces = []
        for low, high in self._pieces(now):
            inside = low <= start < high
            pieces += [start - low, high - start - size] if inside else [high - low]
        return min(_SETS, sum(piece // beside for piece in pieces))

    def _best_window(
        self,
        size: int,
        held: Content | None,
        now: int,
        wanted: dict[Content, list[int]],
        beside: int = 0,
    ) -> tuple[int, int, int] | None:
        """(start, first block, one past the last block) of the window whose content is wanted again
        least, and was last used longest ago; the first of equals. None: something lives in each.

        beside: not 0: of the windows that leave room for most tiles of this size.

        Packed: the lowest window, or the highest for a tile that holds constants. `first` is the
        first block that ends behind the window's start.
        """
        if self.order is _Order.SPREAD and not beside:
            return self._spread_window(size, now, wanted)
        blocks = self.blocks
        best: tuple[int, ...] | None = None
        chosen: tuple[int, int, int] | None = None
        first = 0
        pieces = self._pieces(now) if self.order is _Order.FITTED else []
        for start in self._starts(size):
            end = start + size
            if start < 0 or end > self.depth:
                continue
            while first < len(blocks) and blocks[first].end <= start:
                first += 1
            found = self._cost(first, end, now, wanted)
            if found is None:
                continue
            cost: tuple[int, ...] = found[:2]
            if self.order is _Order.PACKED:
                cost = (0 if held is None else -start, start)
            elif pieces:
                cost = (-_largest_left(pieces, start, end), *cost)
            if beside:
                cost = (-self._sets_left(start, size, now, beside), *cost)
            if best is None or cost < best:
                best, chosen = cost, (start, first, found[2])
        return chosen

    def _spread_window(
        self, size: int, now: int, wanted: dict[Content, list[int]]
    ) -> tuple[int, int, int] | None:
        """_best_window of those that begin at 0 or behind a block, which is asked most often: one
        walk over the blocks, up to the first window that costs nothing."""
        blocks, most = self.blocks, self.depth - size
        count = len(blocks)
        best = (_NEVER, _NEVER)
        chosen: tuple[int, int, int] | None = None
        start = 0
        for first in range(count + 1):  # the window begins at `start`, where block first - 1 ends
            if start > most:
                break
            end, last_use, again, past = start + size, -1, 0, first
            while past < count and (block := blocks[past]).start < end:
                if block.last_use >= now:
                    break
                if block.last_use > last_use:
                    last_use = block.last_use
                if block.content is not None and _next_use(wanted[block.content], now) < _NEVER:
                    again += 1
                past += 1
            else:
                if (again, last_use) < best:
                    best, chosen = (again, last_use), (start, first, past)
                    if best == (0, -1):
                        break
            if first < count:
                start = blocks[first].end
        return chosen

    def _starts(self, size: int) -> list[int]:
        """Windows begin at 0 or behind a block, and end before one or at the end."""
        starts = [0, *(block.end for block in self.blocks)]
        return sorted({*starts, self.depth - size, *(block.start - size for block in self.blocks)})

    def _pieces(self, now: int) -> list[tuple[int, int]]:
        """(start, end) of what lies between the blocks that live."""
        live = [(block.start, block.end) for block in self.blocks if block.last_use >= now]
        return [
            (end, start)
            for (_, end), (start, _) in pairwise([(0, 0), *live, (self.depth, self.depth)])
            if end < start
        ]

    def _cost(
        self, first: int, end: int, now: int, wanted: dict[Content, list[int]]
    ) -> tuple[int, int, int] | None:
        """(blocks wanted again, last use, one past the last block) of a window from block `first`
        on; None while one of them lives."""
        last_use, again = -1, 0
        for number in range(first, len(self.blocks)):
            block = self.blocks[number]
            if block.start >= end:
                return again, last_use, number
            if block.last_use >= now:
                return None
            last_use = max(last_use, block.last_use)
            again += block.content is not None and _next_use(wanted[block.content], now) < _NEVER
        return again, last_use, len(self.blocks)

    def block_of(self, tile: VirtualTile) -> _Block:
        return next(b for b in self.blocks if b.tile is tile)


class _Sums:
    """Tiles of ACC that are computed, by their first use."""

    def __init__(
        self, first_use: Mapping[VirtualTile, int], content: Mapping[VirtualTile, Content]
    ) -> None:
        computed = [
            (number, tile.size_tiles)
            for tile, number in first_use.items()
            if tile.memory is Memory.ACC and tile not in content
        ]
        self.content = content
        self.first = np.array([number for number, _ in computed], np.int64)
        self.size = np.array([size for _, size in computed], np.int64)

    def beside(self, tile: VirtualTile, begin: int, end: int) -> int:
        """Tiles of the largest that begins while `tile` lives, in [begin, end]; 0 where none does,
        or `tile` is no operand."""
        if tile.memory is not Memory.ACC or tile not in self.content:
            return 0
        inside = self.size[(begin <= self.first) & (self.first <= end)]
        return int(inside.max(initial=0))


def _largest_left(pieces: Sequence[tuple[int, int]], start: int, end: int) -> int:
    """The largest piece when [start, end) is taken from the one that it lies in."""
    return max(
        max(start - low, high - end) if low <= start < high else high - low for low, high in pieces
    )


def _next_use(uses: list[int], now: int) -> int:
    """`uses` is consumed from its end: what is past has been popped."""
    while uses and uses[-1] <= now:
        uses.pop()
    return uses[-1] if uses else _NEVER


def allocate(
    operations: Sequence[Operation], config: HwConfig, first: str | None = None
) -> Allocation:
    """first: one of choices.PLACES, which is tried before the others. Raises LoweringError when the
    tiles of one operation do not fit a scratchpad together."""
    orders = [_Order.SPREAD, _Order.PACKED, _Order.FITTED]
    if first is not None:
        orders.sort(key=lambda order: order.value != first)
    for order in orders[:-1]:
        with suppress(LoweringError):
            return _allocate(operations, config, order)
    return _allocate(operations, config, orders[-1])


def _allocate(operations: Sequence[Operation], config: HwConfig, order: _Order) -> Allocation:
    last_use: dict[VirtualTile, int] = {}
    first_use: dict[VirtualTile, int] = {}
    touched = [tiles_of(operation) for operation in operations]
    for number, tiles in enumerate(touched):
        for tile in tiles:
            last_use[tile] = number
            first_use.setdefault(tile, number)
    content = contents(operations)
    wanted: dict[Content, list[int]] = {}
    for tile, first in reversed(first_use.items()):
        if tile in content:
            wanted.setdefault(content[tile], []).append(first)
    pads = {m: _Scratchpad(m, config.depth(m), order) for m in (Memory.INP, Memory.WGT, Memory.ACC)}
    # Operands stay in ACC while sums come and go: they must not stand in the way of two of these.
    sums = _Sums(first_use, content)
    address: dict[VirtualTile, int] = {}
    resident: set[VirtualTile] = set()
    kept: list[int] = []
    loads_dropped = tiles_dropped = 0
    for number, operation in enumerate(operations):
        for tile in touched[number]:
            if tile in address:
                continue
            pad = pads[tile.memory]
            held = content.get(tile)
            block = pad.resident.get(held) if held is not None else None
            if block is not None:
                address[tile] = block.start
                block.last_use = max(block.last_use, last_use[tile])
                block.tile = tile
                resident.add(tile)
                continue
            beside = sums.beside(tile, number, last_use[tile])
            address[tile] = pad.place(tile, held, number, wanted, beside)
            block = pad.block_of(tile)
            block.last_use, block.content = last_use[tile], held
            if held is not None:
                pad.resident[held] = block
        if isinstance(operation, TileLoad) and operation.tile in resident:
            loads_dropped += 1
            tiles_dropped += operation.x_size * operation.y_size
            continue
        kept.append(number)
    return Allocation(kept, address, loads_dropped, tiles_dropped)


def contents(operations: Sequence[Operation]) -> dict[VirtualTile, Content]:
    """What each tile that is written by loads alone holds: equal numbers for equal loads.

    A DRAM tensor is written before it is first read and never after (every tensor of a region is
    produced once), so the name and place of what was loaded stand for the bytes.
    """
    loads: dict[VirtualTile, list[tuple[object, ...]]] = {}
    computed: set[VirtualTile] = set()
    for operation in operations:
        if isinstance(operation, TileLoad):
            o = operation
            loads.setdefault(o.tile, []).append(
                (
                    o.memory,
                    o.offset,
                    o.dram.tensor,
                    o.dram.tile,
                    o.y_size,
                    o.x_size,
                    o.x_stride,
                    o.y_pad_0,
                    o.y_pad_1,
                    o.x_pad_0,
                    o.x_pad_1,
                    o.pad_value,
                )
            )
        elif not isinstance(operation, TileStore):
            computed.add(operation.dst.tile)
    numbers: dict[tuple[object, ...], Content] = {}
    return {
        tile: numbers.setdefault((tile.size_tiles, *records), len(numbers))
        for tile, records in loads.items()
        if tile not in computed
    }
