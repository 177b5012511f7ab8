# SPDX-License-Identifier: Apache-2.0
"""Verify matched instructions: replayed, they compute what the kernel's nests say.

In:   an operator's nests in tiles, before copies are inserted; instructions that name tiles, and
      what a table says that they mean.
Out:  nothing, or a LoweringError that names the first tensor or instruction that differs.
Next: backend/from_table.py runs it on what match_instructions.py made.

Both are executed with names in place of values: numbers of 64 bits, made by a hash of the step and
of the names that it reads. Those of several places that are one operand are first one sum, each
times a number of its own. A product's name is added to that of its sum, so that sums in any
order have one name. This shares nothing with unification but the meanings: no call, no chain and no
copy is looked at, so that it holds for the inserted copies, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from math import prod
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable, index
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.isa.codec import At
from loadstone.isa.form import InstructionForm
from loadstone.isa.registers import at_reset
from loadstone.isa.terms import Term, fields_of, term_value
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.selection.match_instructions import Matched
from loadstone.selection.meanings import FILL, Meaning, Meanings, MeaningSlot

__all__ = ["verify_match"]

_Names: TypeAlias = NDArray[np.uint64]
_Places: TypeAlias = NDArray[np.int64]
_ZERO: _Places = np.zeros(1, np.int64)


def verify_match(function: Function, matched: Matched, meanings: Meanings) -> None:
    """function: without copies. Raises LoweringError where what is in DRAM at the end differs."""
    wanted = _Kernel(meanings.memories)
    wanted.begin(function)
    wanted.body(function.body)
    device = _Device(meanings, matched)
    device.begin(function)
    for number, insn in enumerate(matched.instructions):
        device.run(number, insn)
    for name, names in wanted.dram.items():
        differ = np.flatnonzero(names != device.dram[name])
        if differ.size:
            _fail(
                f"place {differ[0]} of {name} is not what the nests say, nor are "
                f"{differ.size - 1} others"
            )


def _fail(why: str) -> NoReturn:
    raise LoweringError(f"verify_match: {why}")


# --- names ----------------------------------------------------------------------------------------
def _mixed(*parts: _Names | int | str) -> _Names:
    """One name of several, in their order; arrays have one shape. Of one: what SplitMix64 gives."""
    found: _Names = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            found = (found ^ _number(part)) + np.uint64(0x9E3779B97F4A7C15)
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found = found ^ (found >> np.uint64(31))
    return found


def _number(part: _Names | int | str) -> _Names:
    if isinstance(part, str):
        digest = blake2b(part.encode(), digest_size=8).digest()
        return np.array(int.from_bytes(digest, "little"), np.uint64)
    return np.array(part & (1 << 64) - 1, np.uint64) if isinstance(part, int) else part


def _filled(value: int) -> _Names:
    return _mixed(FILL, value)


def _turns(counts: Sequence[int]) -> _Places:
    """(loops, turns): of each loop, where it is in each turn of all."""
    if not counts:
        return np.zeros((0, 1), np.int64)
    return np.indices(counts).reshape(len(counts), -1)


def _step(
    name: str,
    immediates: Sequence[int],
    target: tuple[_Names, _Places],
    operands: Sequence[_Names],
) -> None:
    """In place. target: a memory, and (turns,) places of it. operands: (turns,) names."""
    names, places = target
    if name == "gemm":
        with np.errstate(over="ignore"):
            np.add.at(names, places, _mixed(name, *operands))
    elif len(np.unique(places)) == len(places):
        names[places] = _mixed(name, *immediates, names[places], *operands)
    else:  # one turn after the other
        for turn, place in enumerate(places.tolist()):
            read = [each[turn] for each in operands]
            names[place] = _mixed(name, *immediates, names[place], *read)


def _operand(names: _Names, places: _Places, tiles: int) -> _Names:
    """(turns,) names of an operand: of `tiles` places from each of these on, which most turns of an
    instruction share."""
    if tiles == 1:
        return names[places]
    first, turns = np.unique(places, return_inverse=True)
    read = names[first[:, None] + np.arange(tiles)] * _factors(tiles)
    return np.asarray(read.sum(axis=1, dtype=np.uint64)[turns])


@cache
def _factors(count: int) -> _Names:
    """By which the names of an operand's places are multiplied."""
    return _mixed("place", np.arange(count, dtype=np.uint64))


@dataclass
class _Dram:
    """dram: of each parameter, the name of each place (tile)."""

    dram: dict[str, _Names] = field(default_factory=dict)

    def begin(self, function: Function) -> None:
        """Each place with a name of its own."""
        for tensor in function.parameters:
            count = np.arange(prod(tensor.shape), dtype=np.uint64)
            self.dram[tensor.name] = _mixed(tensor.name, count)


# --- nests ----------------------------------------------------------------------------------------
class _Kernel(_Dram):
    """Executes nests without memories."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__()
        self.table = table
        self.values: dict[Variable, int] = {}
        self.local: dict[NestTensor, _Names] = {}

    def body(self, statements: Sequence[Statement]) -> None:
        """Statements in order."""
        for statement in statements:
            if isinstance(statement, Nest):
                self.nest(statement)
            elif isinstance(statement, NestGroup):
                self.body(statement.body)
            elif isinstance(statement, NestLoop):
                for turn in range(statement.variable.extent):
                    self.values[statement.variable] = turn
                    self.body(statement.body)

    def nest(self, nest: Nest) -> None:
        """All turns of each step."""
        turns = _turns([loop.extent for loop in nest.loops])
        place = dict(zip(nest.loops, turns, strict=True))
        done = np.ones(turns.shape[1], np.bool_)
        for condition in nest.conditions:
            done &= self._at(condition, place, turns.shape[1]) >= 0
        place = {loop: at[done] for loop, at in place.items()}
        for step in nest.steps:
            self._step(step, place, int(done.sum()))

    def _step(self, step: NestStep, place: Mapping[Variable, _Places], count: int) -> None:
        target, *others = step.operands
        places, inside = self._places(target, place, count)
        if not inside.all():
            _fail(f"{step.name} of the nests leaves {target.tensor.name}")
        names = self._memory(target.tensor)
        read = [self._read(step, n, each, (place, count)) for n, each in enumerate(others, 1)]
        if step.name == FILL:
            names[places] = _filled(step.immediates[0])
        elif step.name == COPY:
            names[places] = read[0]
        else:
            _step(step.name, step.immediates, (names, places), read)

    def _read(
        self,
        step: NestStep,
        number: int,
        access: NestAccess,
        turns: tuple[Mapping[Variable, _Places], int],
    ) -> _Names:
        """(turns,) names of an operand."""
        places, inside = self._places(access, *turns)
        if access.pad is None and not inside.all():
            _fail(f"{step.name} of the nests reads outside {access.tensor.name}")
        tiles = 1 if step.name == COPY else self.table.tiles(step, number)
        names = self._memory(access.tensor)
        found = _operand(names, np.where(inside, places, 0), tiles)
        pad = _operand(_filled(access.pad or 0).reshape(1).repeat(tiles), _ZERO, tiles)
        return np.where(inside, found, pad)

    def _memory(self, tensor: NestTensor) -> _Names:
        if tensor.role != "local":
            return self.dram[tensor.name]
        if tensor not in self.local:
            self.local[tensor] = np.zeros(prod(tensor.shape), np.uint64)
        return self.local[tensor]

    def _places(
        self, access: NestAccess, place: Mapping[Variable, _Places], count: int
    ) -> tuple[_Places, NDArray[np.bool_]]:
        """Of each turn the number of the tile, and whether there is such a tile."""
        number, inside = np.zeros(count, np.int64), np.ones(count, np.bool_)
        for at, size in zip(map(index, access.at), access.tensor.shape, strict=True):
            axis = self._at(at, place, count)
            inside &= (axis >= 0) & (axis < size)
            number = number * size + axis
        return number, inside

    def _at(self, at: Index, place: Mapping[Variable, _Places], count: int) -> _Places:
        found = np.full(count, at.constant, np.int64)
        for variable, factor in at.terms.items():
            found += factor * (place[variable] if variable in place else self.values[variable])
        return found


def _is_it(meaning: Meaning, values: Mapping[str, int]) -> bool:
    """Whether fields and registers choose this meaning."""
    fixed = [values.get(name) == value for name, value in meaning.fixed.items()]
    same = [values.get(a, a) == values.get(b, b) for a, b in meaning.same]
    return all(fixed) and all(same)


# --- instructions ---------------------------------------------------------------------------------
class _Device(_Dram):
    """Executes what instructions mean. said: what each form last said, as FORM.FIELD, and what each
    register holds; where it is a place, `placed` has it."""

    def __init__(self, meanings: Meanings, matched: Matched) -> None:
        super().__init__()
        self.meanings = meanings
        self.constants = {name: each.value for name, each in matched.constants.items()}
        self.place_bytes: dict[str, int] = {}
        self.tiles: dict[LocalTile, _Names] = {}
        self.plain: dict[str, _Names] = {}
        self.said: dict[str, int] = dict(at_reset(meanings.table))
        self.placed: dict[str, InTile | At] = {}
        self.unknown = 0

    def begin(self, function: Function) -> None:
        super().begin(function)
        for tensor in function.parameters:
            size = np.dtype(tensor.dtype).itemsize * prod(tensor.lanes)
            self.place_bytes[tensor.name] = size

    def run(self, number: int, insn: TiledInsn) -> None:
        """One instruction."""
        self.insn, self.where = insn, f"instruction {number}, {insn.name},"
        form = self.meanings.table.by_name[insn.name]
        own = {bits.name: 0 for bits in form.fields}
        own |= {name: value for name, value in insn.fields.items() if isinstance(value, int)}
        for name, value in own.items():
            self.said[f"{insn.name}.{name}"] = value
        values = {**self.said, **own}
        if form.meaning or not form.sets:
            means = [m for m in self.meanings.all if m.form.name == insn.name and _is_it(m, values)]
            if len(means) != 1:
                _fail(f"{self.where} has {len(means)} meanings")
            (meaning,) = means
            if meaning.before is not None:
                self._execute(meaning.before, values)
            self._execute(meaning, values)
        self._set(form, values)

    def _set(self, form: InstructionForm, values: Mapping[str, int]) -> None:
        """Registers, behind all else that an instruction does."""
        new = [one for one in form.sets if self._value(one.when, values) != 0]
        places = {one.register: self._place(str(one.value)) for one in new}
        for one in new:
            place = places[one.register]
            self.placed.pop(one.register, None)
            self.said.pop(one.register, None)
            if place is None or isinstance(place, int):
                self.said[one.register] = self._value(one.value, values)
            else:
                self.placed[one.register] = place

    def _place(self, name: str) -> int | At | InTile | None:
        """What a field says, or a register holds; None: neither."""
        if name in self.insn.fields:
            return self.insn.fields[name]
        return self.placed.get(name, self.said.get(name))

    def _execute(self, meaning: Meaning, values: Mapping[str, int]) -> None:
        counts = [self._value(count, values) for count in meaning.counts]
        turns = _turns(counts)
        target = self._slot(meaning.target, values, turns)
        scratch, own = target
        if meaning.source is not None:
            if isinstance(meaning.source, MeaningSlot):
                names, places = self._slot(meaning.source, values, turns)
                scratch = names[places]
            else:
                scratch = np.full(len(own), _filled(self._value(meaning.source, values)))
            own = np.arange(len(own))
        for step in meaning.steps:
            read = []
            for number, slot in enumerate(step.operands, 1):
                names, places = self._slot(slot, values, turns)
                tiles = self._tiles(step.name, number)
                if places.size and places.max() + tiles > len(names):
                    _fail(f"{self.where} reads beyond {slot.memory}[{slot.first}]")
                read.append(_operand(names, places, tiles))
            immediates = [self._value(each, values) for each in step.immediates]
            _step(step.name, immediates, (scratch, own), read)
        if meaning.source is not None:
            target[0][target[1]] = scratch

    def _tiles(self, step: str, number: int) -> int:
        return self.meanings.memories.reach.get((step, number), 1)

    def _value(self, term: Term, values: Mapping[str, int]) -> int:
        if isinstance(term, int):
            return term
        for name in fields_of(term):
            if name not in values:
                _fail(f"{self.where} needs {name}, which no instruction said")
        return term_value(term, values)

    def _slot(
        self, slot: MeaningSlot, values: Mapping[str, int], turns: _Places
    ) -> tuple[_Names, _Places]:
        """Where an operand stands: a memory, and (turns,) places of it."""
        strides = np.array([self._value(stride, values) for stride in slot.strides], np.int64)
        moved = strides @ turns
        place = self._place(slot.first) if isinstance(slot.first, str) else slot.first
        if isinstance(place, int):
            names, places = self._plain(slot.memory), moved + place
        elif isinstance(place, InTile):
            names, places = self._tile(slot, place.tile), moved + place.row
        elif isinstance(place, At):
            names, places = self._dram(place, moved)
        else:
            _fail(f"{self.where} has nothing in {slot.first}")
        if places.size and not 0 <= places.min() <= places.max() < len(names):
            _fail(f"{self.where} leaves what {slot.first} names")
        return names, places

    def _tile(self, slot: MeaningSlot, tile: LocalTile) -> _Names:
        if tile.memory != slot.memory:
            _fail(f"{self.where} finds {tile.name} not in {slot.memory}")
        if tile not in self.tiles:
            self.tiles[tile] = self._unknown(tile.size_tiles)
        return self.tiles[tile]

    def _dram(self, place: At, moved: _Places) -> tuple[_Names, _Places]:
        """A parameter, or a constant, whose only place stands for all."""
        if place.symbol in self.constants:
            if moved.any() or place.offset_bytes:
                _fail(f"{self.where} leaves the constant {place.symbol}")
            return _filled(self.constants[place.symbol]).reshape(1), moved
        size, places = self.place_bytes[place.symbol], moved + place.offset_bytes
        if (places % size).any():
            _fail(f"{self.where} reaches a part of a place of {place.symbol}")
        return self.dram[place.symbol], places // size

    def _plain(self, memory: str) -> _Names:
        """A memory that has no tiles: what another instruction fills."""
        if memory not in self.plain:
            entry = self.meanings.table.by_memory[memory]
            self.plain[memory] = self._unknown(entry.rows * entry.lanes)
        return self.plain[memory]

    def _unknown(self, places: int) -> _Names:
        """What stands in memory that nobody wrote: never the same twice."""
        self.unknown += places
        return _mixed("unknown", np.arange(self.unknown - places, self.unknown, dtype=np.uint64))
