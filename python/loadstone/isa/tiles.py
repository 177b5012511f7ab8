# SPDX-License-Identifier: Apache-2.0
"""Virtual tiles of a device's local memories, and instructions that name places in them.

In:   what a back end says: memory and rows of a tile, fields by tile and row.
Out:  LocalTile, InTile, TiledInsn; what each reach of such an instruction is of, and what registers
      it finds.
Next: tile_order.py brings loads forward, tiled.py gives rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadstone.errors import LoweringError
from loadstone.isa.codec import At
from loadstone.isa.form import DRAM, Reach, Set
from loadstone.isa.registers import at_reset, set_registers, with_registers
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import Term, fields_of, term_value

__all__ = [
    "FoundRegisters",
    "InTile",
    "LocalTile",
    "TileReach",
    "TiledInsn",
    "found_registers",
    "numbers",
    "reached",
    "tiles_of",
]


@dataclass(frozen=True, eq=False, slots=True)
class LocalTile:
    """One life of a buffer in a local memory, known by identity. size_tiles: in rows."""

    memory: str
    size_tiles: int
    name: str


@dataclass(frozen=True, slots=True)
class InTile:
    """Row `row` of a tile, in a field that says where a reach begins."""

    tile: LocalTile
    row: int = 0


@dataclass(frozen=True)
class TiledInsn:
    """One instruction. fields: those that are not named are 0."""

    name: str
    fields: Mapping[str, int | At | InTile]


@dataclass(frozen=True, slots=True)
class TileReach:
    """A reach, and what it is of: a tile, memory of a name (empty: at a plain address), or neither:
    a local memory at plain rows."""

    reach: Reach
    tile: LocalTile | None = None
    symbol: str | None = None


@dataclass(frozen=True)
class FoundRegisters:
    """What an instruction finds in the registers that it reads: values, as if tiles began at 0;
    places in tiles."""

    values: Mapping[str, int]
    places: Mapping[str, InTile]


def found_registers(table: InstructionTable, insns: Sequence[TiledInsn]) -> list[FoundRegisters]:
    """Of instructions in program order. Raises LoweringError for a register that is not set, or is
    set to what it may not be or to more than a place in a tile."""
    if not table.registers:
        return [FoundRegisters({}, {})] * len(insns)
    held, places = at_reset(table), dict[str, InTile]()
    found = []
    for number, insn in enumerate(insns):
        form = table.by_name.get(insn.name)
        if form is None:  # codec.py refuses it
            found.append(FoundRegisters({}, {}))
            continue
        fields = {bits.name: 0 for bits in form.fields} | numbers(insn)
        read = table.read_registers[form.name]
        try:
            values = with_registers(table, form, fields, held)
            found.append(
                FoundRegisters(
                    {name: held[name] for name in read},
                    {name: places[name] for name in read if name in places},
                )
            )
            set_now = [one for one in form.sets if term_value(one.when, values) != 0]
            new = {one.register: _place_of(insn, one, found[-1].places) for one in set_now}
            plain = tuple(one for one in set_now if new[one.register] is None)
            held = set_registers(table, replace(form, sets=plain), values, held)
        except LoweringError as error:
            raise LoweringError(f"instruction {number}, {insn.name}: {error}") from None
        for register, place in new.items():
            places.pop(register, None)
            if place is not None:
                places[register], held[register] = place, 0
    return found


def _place_of(insn: TiledInsn, one: Set, found: Mapping[str, InTile]) -> InTile | None:
    """The place in a tile that a register is set to; None for a number."""
    for name in fields_of(one.value):
        value = insn.fields.get(name, found.get(name))
        if not isinstance(value, InTile):
            continue
        if one.value != name:
            raise LoweringError(
                f"{insn.name}: sets register {one.register} to {one.value}, and {name} is a row of "
                f"tile {value.tile.name}: let it set the row alone"
            )
        return value
    return None


def reached(
    table: InstructionTable, insn: TiledInsn, registers: FoundRegisters | None = None
) -> list[TileReach]:
    """What an instruction reaches; of a memory with words that it goes through, all. registers:
    that it finds. Raises LoweringError for a tile of another memory than its field reaches, or one
    in a field from which nothing is reached and no register set."""
    held: Mapping[str, InTile] = registers.places if registers is not None else {}
    found: list[TileReach] = []
    placed: set[Term] = set()
    if insn.name in table.by_name:
        placed = {one.value for one in table.by_name[insn.name].sets}
    for reach in table.by_name[insn.name].reaches if insn.name in table.by_name else ():
        if reach.through is not None:
            words = table.by_memory[reach.through.memory]
            found += [TileReach(reach), TileReach(Reach(words.name, 0, extent=words.rows))]
            continue
        value = insn.fields.get(str(reach.first), held.get(str(reach.first), 0))
        if isinstance(value, InTile):
            placed.add(reach.first)
            if value.tile.memory != reach.memory:
                raise LoweringError(
                    f"{insn.name}: {reach.first} is a row of {reach.memory}; tile "
                    f"{value.tile.name} is one of {value.tile.memory}"
                )
            found.append(TileReach(reach, tile=value.tile))
        elif reach.memory == DRAM:
            symbol = value.symbol if isinstance(value, At) else ""
            found.append(TileReach(reach, symbol=symbol))
        else:
            found.append(TileReach(reach))
    for name, value in insn.fields.items():
        if isinstance(value, InTile) and name not in placed:
            raise LoweringError(f"{insn.name}: nothing is reached from {name}: give it a number")
    return found


def numbers(insn: TiledInsn) -> dict[str, int]:
    """Its fields, as if tiles and what symbols name began at 0."""
    return {name: value if isinstance(value, int) else 0 for name, value in insn.fields.items()}


def tiles_of(reaches: Sequence[TileReach]) -> list[LocalTile]:
    """The tiles among what is reached."""
    return [each.tile for each in reaches if each.tile is not None]
