# SPDX-License-Identifier: Apache-2.0
"""Virtual tiles of a device's local memories, and instructions that name places in them.

In:   what a back end says: memory and rows of a tile, fields by tile and row.
Out:  LocalTile, InTile, TiledInsn; what each reach of such an instruction is of.
Next: tile_order.py brings loads forward, tiled.py gives rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.errors import LoweringError
from loadstone.isa.codec import At
from loadstone.isa.form import DRAM, Reach
from loadstone.isa.table import InstructionTable

__all__ = ["InTile", "LocalTile", "TileReach", "TiledInsn", "numbers", "reached", "tiles_of"]


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


def reached(table: InstructionTable, insn: TiledInsn) -> list[TileReach]:
    """What an instruction reaches; of a memory with words that it goes through, all. Raises
    LoweringError for a tile of another memory than its field reaches, or one in a field from which
    nothing is reached."""
    found, placed = [], set()
    for reach in table.by_name[insn.name].reaches if insn.name in table.by_name else ():
        if reach.through is not None:
            words = table.by_memory[reach.through.memory]
            found += [TileReach(reach), TileReach(Reach(words.name, 0, extent=words.rows))]
            continue
        value = insn.fields.get(str(reach.first), 0)
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
