# SPDX-License-Identifier: Apache-2.0
"""Instruction selection: a function of nests with copies becomes instructions that name tiles.

In:   a `Function` in which every operand stands in a memory; what the table's
      instructions mean.
Out:  `Matched`: TiledInsn in order, and the constants that they copy; or the cycles of each unit.
Next: verify_match.py replays them; backend/from_table.py names the tensors; isa/tiled.py gives the
      tiles their rows.

Calls are taken in order, as many at once as make one chain that an instruction means: a fill goes
with the first product, a requantization with its store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from loadstone.errors import LoweringError
from loadstone.ir_pass.nests import COPY, Function
from loadstone.ir_pass.unroll import Buffer, Call, Place, unroll_nests
from loadstone.isa.codec import At
from loadstone.isa.form import DRAM
from loadstone.isa.registers import at_reset
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.selection.chains import Placed, chains_of, is_taken_up
from loadstone.selection.choose import CONSTANT, Chooser, InsnChoice, Template
from loadstone.selection.meanings import FILL, Meanings
from loadstone.selection.unify import ChainLoop, ValueChain

__all__ = ["DramConstant", "Matched", "match_instructions", "text_of_instructions", "unit_cycles"]

#: Calls that one instruction may take, at most.
_WINDOW = 3
#: The memory of a tensor in DRAM, as calls name it.
_GLOBAL = "global"


class DramConstant(NamedTuple):
    """A place of DRAM whose elements all are `value`."""

    value: int
    dtype: str
    lanes: int

    @property
    def name(self) -> str:
        """No name of a tensor is such."""
        return f"{self.lanes} {self.dtype} of {self.value}"


@dataclass(frozen=True)
class Matched:
    """instructions: in which an At names a parameter of the function, or a constant."""

    instructions: list[TiledInsn] = field(default_factory=list)
    constants: dict[str, DramConstant] = field(default_factory=dict)


class _Selected(NamedTuple):
    """Calls that are taken together, and for each chain of them the instructions."""

    calls: Sequence[Call]
    parts: Sequence[tuple[Placed, InsnChoice]]


def match_instructions(function: Function, chooser: Chooser) -> Matched:
    """Raises LoweringError where no instruction means what a call does, and names it."""
    writer = _Writer(chooser.meanings, _place_bytes(function))
    for selected in _Selector(function, chooser).all():
        writer.write(selected)
    return writer.made


def unit_cycles(function: Function, chooser: Chooser, most: int | None = None) -> dict[str, int]:
    """What match_instructions would make takes of each unit, with its transfers; {} where one takes
    more than `most`. Raises LoweringError as that does."""
    cycles: dict[str, int] = {}
    for selected in _Selector(function, chooser).all():
        for _, choice in selected.parts:
            for unit, each in choice.cycles.items():
                cycles[unit] = cycles.get(unit, 0) + each
                if most is not None and cycles[unit] > most:
                    return {}
    return cycles


def _place_bytes(function: Function) -> dict[str, int]:
    return {t.name: prod(t.lanes) * np.dtype(t.dtype).itemsize for t in function.tensors}


# --- which ----------------------------------------------------------------------------------------
class _Selector:
    """Selects for calls, once for all of a device's that differ in their places alone."""

    def __init__(self, function: Function, chooser: Chooser) -> None:
        self.chooser = chooser
        self.bytes = _place_bytes(function)
        self.calls = list(_sunk(unroll_nests(function)))
        self.last = {
            place.buffer: n for n, call in enumerate(self.calls) for place in call.operands
        }

    def all(self) -> Iterator[_Selected]:
        """Of all calls, in order."""
        begin = 0
        while begin < len(self.calls):
            end = min(begin + _WINDOW, len(self.calls))
            end = next((n for n in range(begin + 1, end) if not self._continues(n)), end)
            for last in range(end, begin, -1):
                calls = self.calls[begin:last]
                parts = self._parts(calls)
                if parts is not None:
                    yield _Selected(calls, parts)
                    begin = last
                    break
            else:
                raise LoweringError(
                    f"match_instructions: no instruction of {self.chooser.meanings.table.name} "
                    f"means {_text_of(self.calls[begin])}"
                )

    def _continues(self, number: int) -> bool:
        """Whether a call can be taken with the one before: it takes up its value; which nothing
        reads later, if this moves it to another place."""
        before, call = self.calls[number - 1], self.calls[number]
        moves = call.name == COPY and self.last[call.operands[1].buffer] > number
        return is_taken_up(before, call) and not moves

    def _parts(self, calls: Sequence[Call]) -> Sequence[tuple[Placed, InsnChoice]] | None:
        """None where no instructions mean what calls do together."""
        key = tuple(
            (call.name, call.immediates, call.loops, *(self._kind(p.buffer) for p in call.operands))
            for call in calls
        )
        known = self.chooser.of_calls
        if key not in known:
            known[key] = self._chosen(calls)
        return known[key]

    def _chosen(self, calls: Sequence[Call]) -> Sequence[tuple[Placed, InsnChoice]] | None:
        found = []
        for placed in chains_of(calls) or ():
            choice = self.chooser.choice(self._in_places(placed, calls))
            if choice is None:
                return None
            found.append((placed, choice))
        return found or None

    def _kind(self, buffer: Buffer) -> tuple[str, str, int]:
        return buffer.scope, buffer.dtype, self._unit(buffer)

    def _unit(self, buffer: Buffer) -> int:
        return self.bytes[buffer.name] if buffer.scope == _GLOBAL else 1

    def _in_places(self, placed: Placed, calls: Sequence[Call]) -> ValueChain:
        """With memories and places as the table counts them: DRAM in bytes."""
        chain = placed.chain
        each = [self._unit(calls[at.call].operands[at.operand].buffer) for at in placed.slots]
        loops = tuple(
            ChainLoop(loop.extent, tuple(s * n for s, n in zip(loop.strides, each, strict=True)))
            for loop in chain.loops
        )
        memories = tuple(DRAM if name == _GLOBAL else name for name in chain.memories)
        return ValueChain(memories, chain.fill, chain.is_moved, chain.steps, loops)


def _sunk(calls: Sequence[Call]) -> Iterator[Call]:
    """With each fill in front of the next call that has its buffer."""
    waiting: dict[Buffer, list[Call]] = {}
    for call in calls:
        for place in call.operands:
            yield from waiting.pop(place.buffer, ())
        if call.name == FILL:
            waiting.setdefault(call.operands[0].buffer, []).append(call)
        else:
            yield call
    for left in waiting.values():
        yield from left


# --- where ----------------------------------------------------------------------------------------
class _Writer:
    """bytes: of a place of each parameter. held: what others need: by name of a register what it
    holds, by name of an instruction that fills what it last said."""

    def __init__(self, meanings: Meanings, place_bytes: Mapping[str, int]) -> None:
        self.meanings, self.bytes = meanings, place_bytes
        self.made = Matched()
        self.tiles: dict[Buffer, LocalTile] = {}
        self.held: dict[str, object] = dict(at_reset(meanings.table))

    def write(self, selected: _Selected) -> None:
        """The instructions of some calls."""
        for placed, choice in selected.parts:
            operands = [(selected.calls[n].operands[k], more) for n, k, more in placed.slots]
            places = [Place(place.buffer, place.offset + more) for place, more in operands]
            for template in choice.templates:
                self._instruction(template, places, placed.chain.fill)

    def _instruction(self, template: Template, places: Sequence[Place], fill: int | None) -> None:
        fields: dict[str, int | At | InTile] = dict(template.fields)
        for name, (slot, offset) in template.places.items():
            if slot == CONSTANT:
                fields[name] = self._constant(fill or 0, places[0].buffer)
            else:
                fields[name] = self._place(places[slot], offset)
        insn = TiledInsn(template.name, fields)
        if template.writes is None:
            left = self._left_by(insn)
            same = (self.held.get(name) == value for name, value in left.items())
            if all(name in self.held for name in left) if template.is_any else all(same):
                return
            self.held |= left
        elif self.held:
            written = self.tiles.get(places[template.writes].buffer)
            for name in [n for n, kept in self.held.items() if _reads(kept, written)]:
                del self.held[name]
            for one in self.meanings.table.by_name[insn.name].sets:
                self.held.pop(one.register, None)
        self.made.instructions.append(insn)

    def _left_by(self, insn: TiledInsn) -> dict[str, object]:
        """What an instruction leaves that fills or sets: by register what it holds, or the
        instruction itself."""
        sets = self.meanings.table.by_name[insn.name].sets
        said = {one.register: insn.fields.get(str(one.value), one.value) for one in sets}
        return dict(said) if sets else {insn.name: insn}

    def _constant(self, value: int, target: Buffer) -> At:
        constant = DramConstant(value, target.dtype, self.meanings.lanes(target.scope))
        self.made.constants[constant.name] = constant
        return At(constant.name)

    def _place(self, place: Place, offset: int) -> At | InTile:
        buffer, at = place
        if buffer.scope == _GLOBAL:
            return At(buffer.name, at * self.bytes[buffer.name] + offset)
        if buffer not in self.tiles:
            self.tiles[buffer] = LocalTile(buffer.scope, prod(buffer.shape), buffer.name)
        return InTile(self.tiles[buffer], at + offset)


def _reads(kept: object, tile: LocalTile | None) -> bool:
    """Whether an instruction filled something from a tile. A register holds the place alone."""
    fields = kept.fields.values() if isinstance(kept, TiledInsn) else ()
    return any(isinstance(v, InTile) and v.tile is tile for v in fields)


# --- text -----------------------------------------------------------------------------------------
def _text_of(call: Call) -> str:
    def place(each: Place) -> str:
        where = "dram" if each.buffer.scope == _GLOBAL else each.buffer.scope
        return f"{each.buffer.name} in {where}"

    loops = " ".join(f"{loop.extent} by {','.join(map(str, loop.strides))}" for loop in call.loops)
    immediates = f" | {', '.join(map(str, call.immediates))}" if call.immediates else ""
    return (
        f"{call.name}({', '.join(map(place, call.operands))}{immediates}), loops {loops or 'none'}"
    )


def text_of_instructions(matched: Matched) -> str:
    """One a line; a tile has a number where others of its name came before."""
    lines, names, count = [], dict[LocalTile, str](), dict[str, int]()
    for insn in matched.instructions:
        words = [insn.name]
        for name, value in insn.fields.items():
            if isinstance(value, InTile):
                tile = value.tile
                if tile not in names:
                    count[tile.name] = number = count.get(tile.name, 0) + 1
                    names[tile] = tile.name if number == 1 else f"{tile.name}_{number}"
                words.append(f"{name}={names[tile]}[{value.row}]")
            elif isinstance(value, At):
                words.append(f"{name}=@{value.symbol}+{value.offset_bytes}".replace(" ", "_"))
            else:
                words.append(f"{name}={value}")
        lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)
