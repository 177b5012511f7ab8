# SPDX-License-Identifier: Apache-2.0
"""Do instructions with rows compute what they did with tiles?

In:   instructions of a table with tiles, in program order; those with rows that tiled.py made of
      them, and of each the number of the one that it was.
Out:  nothing, or a LoweringError that names the first instruction that differs.
Next: backend/program.py runs it where passes/log.py says so.

Both programs are executed with names in place of values. What an instruction writes is named by the
instruction, its fields, and the names of all that it reads: in a local memory the names in its
rows, in DRAM the last instruction that wrote to the same tensor or to an address without a name,
and those that set registers. In the first program each tile is a memory of its own.
Each instruction of the second must find the names that it finds in the first: so a row that was
taken too early, a load that was left out though its content was gone, and a move across a
dependence are all found. Only loads may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.codec import TableInsn
from loadstone.isa.form import DRAM, InstructionForm
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Term, term_value
from loadstone.isa.tiles import (
    FoundRegisters,
    InTile,
    LocalTile,
    TiledInsn,
    TileReach,
    found_registers,
    numbers,
    reached,
)

__all__ = ["verify_rows"]

_Names: TypeAlias = NDArray[np.int64]
#: Names of rows that one instruction writes follow each other; more rows than a memory may have.
_ROWS = 1 << 32


def verify_rows(
    table: InstructionTable,
    before: Sequence[TiledInsn],
    after: Sequence[TableInsn],
    sources: Sequence[int],
) -> None:
    """sources: of each instruction of `after`, its number in `before`."""
    registers = found_registers(table, before)
    reaches = [reached(table, *each) for each in zip(before, registers, strict=True)]
    names = _Known()
    first = _Program(table, names)
    wanted = [
        first.run(n, insn, registers[n], each, None)
        for n, (insn, each) in enumerate(zip(before, reaches, strict=True))
    ]
    left = set(range(len(before)))
    second = _Program(table, names)
    rows: dict[LocalTile, int] = {}
    for insn, source in zip(after, sources, strict=True):
        if source not in left:
            raise LoweringError(f"rows: instruction {source}, {insn.name}, comes twice")
        left.remove(source)
        old = before[source]
        _take_rows(table, old, insn, source, rows)
        found = second.run(source, old, registers[source], reaches[source], rows)
        if found != wanted[source]:
            raise LoweringError(
                f"rows: instruction {source}, {insn.name}, does not read what it read with tiles"
            )
    for source in sorted(left):
        if not _is_load(table.by_name[before[source].name], reaches[source]):
            raise LoweringError(
                f"rows: instruction {source}, {before[source].name}, is left out and no load"
            )


def _is_load(form: InstructionForm, reaches: Sequence[TileReach]) -> bool:
    """Whether it brings from DRAM to local memory, and does no more."""
    does = {(each.reach.memory == DRAM, each.reach.writes) for each in reaches}
    more = form.keeps or form.sets or form.ends
    return does == {(True, False), (False, True)} and not more


def _take_rows(
    table: InstructionTable,
    old: TiledInsn,
    new: TableInsn,
    number: int,
    rows: dict[LocalTile, int],
) -> None:
    """Where the tiles of an instruction begin, into `rows`: each tile at one place, as registers
    may hold it for later."""
    depth = {memory.name: memory.rows for memory in table.memories}
    same = old.name == new.name and old.fields.keys() == new.fields.keys()
    for name, value in old.fields.items() if same else ():
        found = new.fields[name]
        if not isinstance(value, InTile):
            same &= found == value
            continue
        first = found - value.row if isinstance(found, int) else -1
        same &= rows.setdefault(value.tile, first) == first
        same &= 0 <= first <= depth[value.tile.memory] - value.tile.size_tiles
    if not same:
        raise LoweringError(f"rows: instruction {number}, {old.name}, became {new}")


@dataclass
class _Known:
    """A number for each different thing that can be written."""

    numbers: dict[object, int] = field(default_factory=dict)

    def of(self, thing: object) -> int:
        return self.numbers.setdefault(thing, len(self.numbers) + 1)


class _Program:
    """local: names in the rows of each tile or memory. owner: of each row of a memory, the life of
    a tile that wrote it last. written: the last writer of each tensor in DRAM; of "", that of
    addresses without a name; of None, that of any. kept: what set each address register; set: what
    set each register, and to which place in a tile."""

    def __init__(self, table: InstructionTable, known: _Known) -> None:
        self.table = table
        self.known = known
        self.depth = {memory.name: memory.rows for memory in table.memories}
        self.local: dict[LocalTile | str, _Names] = {}
        self.owner: dict[str, _Names] = {}
        self.lives: dict[LocalTile, int] = {}
        self.written: dict[str | None, int] = {}
        self.kept: dict[tuple[str, int], int] = {}
        self.set: dict[str, tuple[int, object]] = {}

    def run(
        self,
        number: int,
        insn: TiledInsn,
        registers: FoundRegisters,
        reaches: Sequence[TileReach],
        rows: Mapping[LocalTile, int] | None,
    ) -> int:
        """The name of all that an instruction finds. registers: in the first program. rows: where
        its tiles begin; None: each is a memory of its own."""
        form = self.table.by_name[insn.name]
        fields = {b.name: 0 for b in form.fields} | numbers(insn) | dict(registers.values)
        plain = tuple((k, v) for k, v in insn.fields.items() if not isinstance(v, InTile))
        read = [self.set.get(register) for register in self.table.read_registers[form.name]]
        found: list[object] = [insn.name, plain, *read]
        targets = []
        for each in reaches:
            if each.reach.memory == DRAM:
                found.append(self._dram(each, fields))
                continue
            place, first, depth = self._place(each, rows)
            held = registers.places.get(str(each.reach.first))
            at = first + _rows_of(each, fields, insn, depth, held)
            names = self.local[place][at]
            if each.reach.writes:
                names = np.where(self._own(each, place, at), names, 0)
                targets.append((each, place, at))
            found.append(names.tobytes())
        name = self.known.of(tuple(found))
        for count, (each, place, at) in enumerate(targets):
            self.local[place][at] = self.known.of((name, count)) * _ROWS + np.arange(len(at))
            if isinstance(place, str):
                self.owner[place][at] = self._life(each.tile)
        for each in reaches:
            if each.reach.memory == DRAM and each.reach.writes:
                self.written[each.symbol] = self.written[None] = number
        for keep in form.keeps:
            self.kept[keep.register, term_value(keep.index, fields)] = name
        for one in form.sets:
            if term_value(one.when, fields) != 0:
                self.set[one.register] = name, _held(insn, registers, one.value)
        return name

    def _dram(self, each: TileReach, fields: Mapping[str, int]) -> tuple[object, ...]:
        """Who wrote last what is read or written there, and who set the register that points
        there."""
        symbol = each.symbol or None
        register = self.kept.get((str(each.reach.first), term_value(each.reach.index, fields)))
        return symbol, self.written.get(symbol), self.written.get(""), register

    def _place(
        self, each: TileReach, rows: Mapping[LocalTile, int] | None
    ) -> tuple[LocalTile | str, int, int]:
        """The tile or memory of a reach, where its tile begins there, and how far it goes."""
        memory = each.reach.memory
        depth = self.depth[memory]
        if each.tile is not None and rows is None:
            depth = each.tile.size_tiles
            self.local.setdefault(each.tile, np.zeros(depth, np.int64))
            return each.tile, 0, depth
        if memory not in self.local:
            self.local[memory] = np.zeros(depth, np.int64)
            self.owner[memory] = np.zeros(depth, np.int64)
        if each.tile is None or rows is None:
            return memory, 0, depth
        if each.tile not in rows:
            raise LoweringError(
                f"rows: register {each.reach.first} is read before it is set to a row of tile "
                f"{each.tile.name}"
            )
        return memory, rows[each.tile], each.tile.size_tiles

    def _own(self, each: TileReach, place: LocalTile | str, at: _Names) -> NDArray[np.bool_]:
        """Which rows hold something of the same life; the others hold nothing yet."""
        if not isinstance(place, str):
            return np.ones(len(at), np.bool_)
        return np.asarray(self.owner[place][at] == self._life(each.tile))

    def _life(self, tile: LocalTile | None) -> int:
        return 0 if tile is None else self.lives.setdefault(tile, len(self.lives) + 1)


def _held(insn: TiledInsn, registers: FoundRegisters, name: Term) -> object:
    """What a field or register of this name says, with its tile."""
    return insn.fields.get(str(name), registers.places.get(str(name)))


def _rows_of(
    each: TileReach,
    fields: Mapping[str, int],
    insn: TiledInsn,
    depth: int,
    held: InTile | None,
) -> _Names:
    """The rows that an instruction reaches; all of a memory that it reaches through words. held: in
    the register that they begin at. Raises LoweringError where they leave the tile or memory."""
    reach = each.reach
    if reach.through is not None:
        return np.arange(depth)
    said = insn.fields.get(str(reach.first))
    value = held if said is None else said
    first = value.row if isinstance(value, InTile) else term_value(reach.first, fields)
    first += term_value(reach.offset, fields)
    at = first + _turned(reach.turns(fields), term_value(reach.extent, fields))
    if len(at) and (at.min() < 0 or at.max() >= depth):
        raise LoweringError(f"rows: {insn.name} reaches rows {at.min()} .. {at.max()} of {depth}")
    return at


@lru_cache(maxsize=1 << 12)
def _turned(turns: tuple[tuple[int, int], ...], extent: int) -> _Names:
    found = np.zeros(1, np.int64)
    for count, stride in turns:
        found = np.add.outer(found, np.arange(count) * stride).ravel()
    return np.add.outer(found, np.arange(extent)).ravel()
