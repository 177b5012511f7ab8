# SPDX-License-Identifier: Apache-2.0
"""Is every virtual tile still in its scratchpad whenever an operation uses it, and is nothing left
out but loads?

In:   a VtaProgram with addresses; what each tile that only loads write is to hold.
Out:  nothing, or a LoweringError that names the tile and who stands in its place.
Next: the verifier of allocate.py; tests run it behind the pass.

The scratchpads are walked through once, cell by cell: each cell knows the tile that wrote it last.
A tile whose loads were left out takes over cells of a tile with the same content.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.stream.operations import (
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["contents", "verify_kept", "verify_residency"]

Cells: TypeAlias = dict[Memory, list[VirtualTile | None]]


def verify_residency(program: VtaProgram, content: Mapping[VirtualTile, Hashable]) -> None:
    """Raises LoweringError where a tile is gone before its last use, or lies outside."""
    assert program.tile_address is not None
    cells: Cells = {
        memory: [None] * program.config.depth(memory)
        for memory in (Memory.INP, Memory.WGT, Memory.ACC)
    }
    begun: set[VirtualTile] = set()
    for _, operation in program.operations:
        for tile in tiles_of(operation):
            first = program.tile_address[tile]
            _check_inside(tile, first, program.config)
            held = cells[tile.memory][first : first + tile.size_tiles]
            if tile in begun:
                _check_held(tile, held, content)
                continue
            if tile is not _written(operation):
                _check_taken_over(tile, held, content)
            begun.add(tile)
            cells[tile.memory][first : first + tile.size_tiles] = [tile] * tile.size_tiles


def verify_kept(before: VtaProgram, after: VtaProgram) -> None:
    """Raises LoweringError where something other than all loads of a tile is left out, or what is
    left stands neither in the order before nor in that of its source."""
    orders = [before.operations, *([before.source.operations] if before.source else [])]
    if not any(_is_part(after.operations, order) for order in orders):
        raise LoweringError("allocate: an operation is new, or stands in another order")
    kept = {id(operation) for _, operation in after.operations}
    left_out = [(layer, o) for layer, o in before.operations if id(o) not in kept]
    loaded = {o.tile for _, o in after.operations if isinstance(o, TileLoad)}
    for layer, operation in left_out:
        if not isinstance(operation, TileLoad):
            raise LoweringError(f"allocate: {layer}: something other than a load is left out")
        if operation.tile in loaded:
            raise LoweringError(f"allocate: {layer}: a part of {operation.tile.name} is left out")


def _is_part(some: Sequence[LayerOperation], of: Sequence[LayerOperation]) -> bool:
    """Whether the ones come in the order of the others."""
    rest = iter(of)
    return all(any(o is mine and layer == own for own, o in rest) for layer, mine in some)


def contents(operations: Sequence[LayerOperation]) -> dict[VirtualTile, Hashable]:
    """What each tile that loads alone write is to hold: equal for equal loads of tiles of one
    size."""
    loads: dict[VirtualTile, list[Hashable]] = {}
    computed: set[VirtualTile | None] = set()
    for _, operation in operations:
        if isinstance(operation, TileLoad):
            loads.setdefault(operation.tile, []).append(_brought(operation))
        else:
            computed.add(_written(operation))
    return {
        tile: (tile.size_tiles, *brought) for tile, brought in loads.items() if tile not in computed
    }


def _written(operation: Operation) -> VirtualTile | None:
    """The tile that an operation writes."""
    if isinstance(operation, TileLoad):
        return operation.tile
    if isinstance(operation, TileStore):
        return operation.inp.tile if operation.inp is not None else None
    return operation.dst.tile


def _brought(o: TileLoad) -> Hashable:
    """All that a load says, but for the tile. A DRAM tensor is written before it is first read and
    never after, so its name and the place stand for the bytes."""
    size = (o.offset, o.y_size, o.x_size, o.x_stride)
    pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1, o.pad_value)
    return (o.memory, o.dram.tensor, o.dram.tile, *size, *pads)


def _check_inside(tile: VirtualTile, first: int, config: HwConfig) -> None:
    depth = config.depth(tile.memory)
    if first < 0 or first + tile.size_tiles > depth:
        raise LoweringError(
            f"allocate: {tile.name} at [{first}, {first + tile.size_tiles}) leaves "
            f"{tile.memory.name} of {depth} tiles"
        )


def _check_held(
    tile: VirtualTile, held: list[VirtualTile | None], content: Mapping[VirtualTile, Hashable]
) -> None:
    """All cells hold the tile, or one that took over its content: both are in use."""
    other = next((holder for holder in held if holder is not tile), tile)
    if other is not tile:
        same = other is not None and tile in content and content.get(other) == content[tile]
        if same and all(holder is other for holder in held):
            return
        raise LoweringError(
            f"allocate: {tile.name} is used after {other.name if other else 'nobody'} took its "
            f"place in {tile.memory.name}"
        )


def _check_taken_over(
    tile: VirtualTile, held: list[VirtualTile | None], content: Mapping[VirtualTile, Hashable]
) -> None:
    """All cells hold one tile with the content that this one is to have."""
    holder = held[0]
    if (
        holder is None
        or any(other is not holder for other in held)
        or holder not in content
        or content[holder] != content.get(tile)
    ):
        raise LoweringError(
            f"allocate: the loads of {tile.name} were left out, but {tile.memory.name} does not "
            "hold its content"
        )
