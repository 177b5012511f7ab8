# SPDX-License-Identifier: Apache-2.0
"""Instructions that name virtual tiles of local memories, and what becomes of them.

In:   a table; TiledInsn in program order, by layer; the port.
Out:  the same instructions with rows of the table's memories: in the order in which units would
      start them, loads of what is still there left out.
Next: backend/program.py asks it when a program is built; then tokens are set.

    pixels = LocalTile("scratchpad", 64, "pixels")
    TiledInsn("mvin", {"address": At(x), "rows": 64, "row": InTile(pixels)})

Two steps. tile_order.py moves what another unit does (loads, above all) in front of work that it
need not wait for, as far as the memories have room: what is needed next arrives while this is
computed. residency.py then gives each tile its rows. Where tiles that come so early do not fit, the
order of the program stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain, compress

import numpy as np

from loadstone.errors import LoweringError
from loadstone.isa.accelerator import Port
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.residency import NO_CONTENT, Lives, TileColumns, lives_of, reside
from loadstone.isa.scratchpad import Content, Order, Scratchpad
from loadstone.isa.table import InstructionTable
from loadstone.isa.tile_order import early
from loadstone.isa.tiles import (
    FoundRegisters,
    InTile,
    LocalTile,
    TiledInsn,
    TileReach,
    found_registers,
    reached,
    tiles_of,
)

__all__ = ["in_rows"]

#: How much of each memory may hold what lives or comes early, in quarters; 0: none comes early.
_QUARTERS = (4, 3, 0)


def in_rows(
    table: InstructionTable, insns: Sequence[TiledInsn], layers: Sequence[int], port: Port | None
) -> tuple[list[TableInsn], list[int]]:
    """The instructions, and of each the number of the one that it was. layers: of each, and they
    ascend: what is moved stays inside. Raises LoweringError when the tiles of one instruction do
    not fit a memory together, a tile is not of the memory that its field reaches, or a memory has
    tiles and is reached at plain rows, too."""
    registers = found_registers(table, insns)
    reaches = [reached(table, *each) for each in zip(insns, registers, strict=True)]
    _require_tiles(insns, reaches)
    orders = [list(range(len(insns)))]
    if not table.address_registers:  # where these point is known to nobody
        more = (early(table, insns, reaches, layers, port, q) for q in _QUARTERS if q)
        orders = [*more, *orders]
    refused: LoweringError | None = None
    for order in orders:
        for pads in (Order.SPREAD, Order.PACKED, Order.FITTED):
            try:
                remain, address = _placed(
                    table,
                    [insns[n] for n in order],
                    [registers[n] for n in order],
                    [reaches[n] for n in order],
                    pads,
                )
            except LoweringError as error:
                refused = error
                continue
            kept = [order[n] for n in remain]
            return [_with_rows(insns[n], address) for n in kept], kept
    raise refused or LoweringError("tiles: a program without an order")


def _require_tiles(insns: Sequence[TiledInsn], reaches: Sequence[Sequence[TileReach]]) -> None:
    """Plain rows may not stand in a memory that is given away."""
    tiled = {tile.memory for each in reaches for tile in tiles_of(each)}
    for insn, each in zip(insns, reaches, strict=True):
        for one in each:
            words = one.reach.through
            if words is not None and tiled & {words.memory, one.reach.memory}:
                raise LoweringError(
                    f"{insn.name}: reaches {one.reach.memory} through words of {words.memory}, "
                    "where rows that tiles get cannot be written: give plain rows of both memories"
                )
            if one.tile is None and one.reach.memory in tiled:
                raise LoweringError(
                    f"{insn.name}: {one.reach.first} is a plain row of {one.reach.memory}, whose "
                    "rows other instructions take by tile: name a tile here, too"
                )


def _with_rows(insn: TiledInsn, address: Mapping[LocalTile, int]) -> TableInsn:
    fields: dict[str, int | At] = {}
    for name, value in insn.fields.items():
        if isinstance(value, InTile) and value.tile not in address:
            raise LoweringError(
                f"{insn.name}: {name} is a row of tile {value.tile.name}, which no instruction "
                "reaches: leave the instruction out"
            )
        fields[name] = address[value.tile] + value.row if isinstance(value, InTile) else value
    return TableInsn(insn.name, fields)


def _placed(
    table: InstructionTable,
    insns: Sequence[TiledInsn],
    registers: Sequence[FoundRegisters],
    reaches: Sequence[Sequence[TileReach]],
    order: Order,
) -> tuple[list[int], dict[LocalTile, int]]:
    """Numbers of the instructions that remain, and each tile's first row."""
    pads = {n: Scratchpad(m.name, m.rows, order, "rows") for n, m in enumerate(table.memories)}
    loads = [
        None if table.by_name[insn.name].sets else _loaded(each)
        for insn, each in zip(insns, reaches, strict=True)
    ]
    records = list(map(_record, insns, registers))
    content = {} if table.address_registers else _contents(records, reaches, loads)
    lives = _lives([tiles_of(each) for each in reaches], content, [m.name for m in table.memories])
    found = reside(lives, pads)
    there = set(compress(lives.tiles.tiles, found.resident))
    remain = [n for n, tile in enumerate(loads) if tile is None or tile not in there]
    return remain, dict(zip(lives.tiles.tiles, found.address.tolist(), strict=True))


def _lives(
    touched: Sequence[Sequence[LocalTile]],
    content: Mapping[LocalTile, Content],
    memories: Sequence[str],
) -> Lives[LocalTile]:
    """touched: by instruction."""
    tiles = list(dict.fromkeys(chain.from_iterable(touched)))
    numbers = {tile: n for n, tile in enumerate(tiles)}
    columns = (
        [memories.index(tile.memory) for tile in tiles],
        [tile.size_tiles for tile in tiles],
        [content.get(tile, NO_CONTENT) for tile in tiles],
    )
    return lives_of(
        TileColumns(tiles, *(np.array(column, np.int64) for column in columns)),
        np.repeat(np.arange(len(touched)), list(map(len, touched))),
        np.array([numbers[tile] for tile in chain.from_iterable(touched)], np.int64),
    )


def _loaded(reaches: Sequence[TileReach]) -> LocalTile | None:
    """The tile that an instruction fills with what it reads of named memory, and does no more."""
    written = [each for each in reaches if each.reach.writes]
    read = [each for each in reaches if not each.reach.writes]
    if len(written) != 1 or not read or not all(each.symbol for each in read):
        return None
    return written[0].tile


def _contents(
    said: Sequence[Hashable],
    reaches: Sequence[Sequence[TileReach]],
    loads: Sequence[LocalTile | None],
) -> dict[LocalTile, Content]:
    """What each tile that only loads write holds: equal numbers for equal loads. Memory that is
    stored to after a load of it is not the same at every load; a store without a name may be to
    any. said: by each instruction, as _record has it."""
    loaded: dict[LocalTile, set[str]] = {}
    records: dict[LocalTile, list[Hashable]] = {}
    computed: set[LocalTile] = set()
    read: set[str] = set()
    varying: set[str] = set()
    for record, each, tile in zip(said, reaches, loads, strict=True):
        stored = {one.symbol for one in each if one.symbol is not None and one.reach.writes}
        named = {one.symbol for one in each if one.symbol is not None and not one.reach.writes}
        varying |= read if "" in stored else stored & read
        read |= named
        if tile is not None:
            records.setdefault(tile, []).append(record)
            loaded.setdefault(tile, set()).update(named)
        else:
            computed.update(o.tile for o in each if o.tile is not None and o.reach.writes)
    numbers: dict[Hashable, Content] = {}
    return {
        tile: numbers.setdefault((tile.memory, tile.size_tiles, *each), len(numbers))
        for tile, each in records.items()
        if tile not in computed and not varying & loaded[tile]
    }


def _record(insn: TiledInsn, registers: FoundRegisters) -> Hashable:
    """What a load says and finds in registers, its place relative to its tile."""
    values = sorted(insn.fields.items(), key=lambda item: item[0])
    said = tuple((n, v.row if isinstance(v, InTile) else v) for n, v in values)
    places = tuple((n, place.row) for n, place in registers.places.items())
    return insn.name, said, tuple(registers.values.items()), places
