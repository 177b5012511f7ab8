# SPDX-License-Identifier: Apache-2.0
"""Prefetch for any table: instructions in the order in which their units could start them.

In:   a table; instructions with virtual tiles, by layer; the port.
Out:  their numbers in a better order.
Next: tiled.py gives the tiles rows.

A device fetches in order, and few instructions wait in front of a unit. A load that stands behind
a hundred products is not seen before most of them have begun:

    load   [x1][w1]              [x2][w2]                [x1][w1][x2][w2]
    array          [..........]          [....]    ->            [..........][....]

One walk estimates when each unit would start each instruction if it saw all of them: when the unit
is free, what is read is there, and the memory has room for another tile. That is the order, inside
each layer. Whoever depends on another starts later, and so stays behind it. A store stays behind
all that touches DRAM before it, because names say nothing of memory that is used again; a load
behind a store to an address without a name, which may be that of any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from loadstone.isa.accelerator import Port
from loadstone.isa.cost import port_cycles, work_cycles
from loadstone.isa.form import DRAM
from loadstone.isa.table import InstructionTable
from loadstone.isa.tiles import LocalTile, TiledInsn, TileReach, found_registers, numbers

__all__ = ["early"]


def early(
    table: InstructionTable,
    insns: Sequence[TiledInsn],
    reaches: Sequence[Sequence[TileReach]],
    layers: Sequence[int],
    port: Port | None,
    quarters: int,
) -> list[int]:
    """Numbers of the instructions in their new order. reaches: of each; layers: of each, and they
    ascend; quarters: of each memory, that may be filled with what lives or is needed next."""
    rooms = {m.name: _Room(m.rows * quarters // 4) for m in table.memories}
    walk = _Walk(rooms)
    starts = []
    for insn, held, each in zip(insns, found_registers(table, insns), reaches, strict=True):
        form = table.by_name[insn.name]
        values = {bits.name: 0 for bits in form.fields} | numbers(insn) | dict(held.values)
        cycles = work_cycles(form, values)
        if port is not None:
            touched = (r.reach for r in each if r.reach.span(values) > 0)
            cycles += sum(port_cycles(port, reach, values) for reach in touched)
        kept = [(name, False) for name in table.read_registers[form.name]]
        kept += [(one.register, True) for one in form.sets]
        starts.append(walk.step(form.unit_of(values), cycles, each, kept))
    return sorted(range(len(insns)), key=lambda number: (layers[number], starts[number]))


@dataclass
class _Times:
    written: int = 0
    read: int = 0

    def touch(self, end: int, writes: bool) -> None:
        if writes:
            self.written = max(self.written, end)
        else:
            self.read = max(self.read, end)


@dataclass
class _Room:
    """A memory as a ring: the oldest tiles make room."""

    rows: int
    used: int = 0
    tiles: deque[LocalTile] = field(default_factory=deque)


@dataclass
class _Walk:
    """The time of a program whose units see all of it. dram_start: when the last one that touches
    DRAM begins; dram_written: when the last store has ended; plain_written: the last one to an
    address without a name, which may be that of any name."""

    rooms: dict[str, _Room]
    free: dict[str, int] = field(default_factory=dict)
    times: dict[Hashable, _Times] = field(default_factory=dict)
    dram_start: int = 0
    dram_written: int = 0
    plain_written: int = 0

    def step(
        self,
        unit: str,
        cycles: int,
        reaches: Sequence[TileReach],
        registers: Sequence[tuple[str, bool]] = (),
    ) -> int:
        """When it starts. registers: that it reads, and sets (True)."""
        start = self.free.get(unit, 0)
        touched = [(self._times(("register", name)), sets) for name, sets in registers]
        for each in reaches:
            if each.tile is not None and each.tile not in self.times:
                start = max(start, self._room(each.tile))
            touched.append((self._times(_key(each)), each.reach.writes))
            if each.reach.memory == DRAM:
                start = max(start, self.plain_written if each.symbol else self.dram_written)
                start = max(start, self.dram_start if each.reach.writes else 0)
        for times, writes in touched:
            start = max(start, times.written, times.read if writes else 0)
        for times, writes in touched:
            times.touch(start + cycles, writes)
        self._note_dram(reaches, start, start + cycles)
        self.free[unit] = start + cycles
        return start

    def _times(self, key: Hashable) -> _Times:
        return self.times.setdefault(key, _Times())

    def _note_dram(self, reaches: Sequence[TileReach], start: int, end: int) -> None:
        for each in reaches:
            if each.reach.memory == DRAM:
                self.dram_start = max(self.dram_start, start)
                if each.reach.writes:
                    self.dram_written = max(self.dram_written, end)
                    self.plain_written = self.plain_written if each.symbol else self.dram_written

    def _room(self, tile: LocalTile) -> int:
        """When its memory has room for it."""
        room, time = self.rooms[tile.memory], 0
        room.tiles.append(tile)
        room.used += tile.size_tiles
        while room.used > room.rows and len(room.tiles) > 1:
            oldest = room.tiles.popleft()
            room.used -= oldest.size_tiles
            times = self.times[oldest]
            time = max(time, times.written, times.read)
        return time


def _key(each: TileReach) -> Hashable:
    """What a reach is of."""
    return (each.reach.memory, each.symbol) if each.tile is None else each.tile
