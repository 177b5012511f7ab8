# SPDX-License-Identifier: Apache-2.0
"""Cut a region's operations where the device may turn to another network.

In:   operations in program order; the cycles that a piece may take.
Out:  pieces, each a program of its own: nothing in the scratchpads passes from one to the next.
Next: verify_pieces.py; region/offload.py sends each through passes/pipeline.py.

A program ends with FINISH, behind which no token is left, and registers are as after a reset. So
what remains to be decided is where scratchpads hold nothing that is wanted later:

    layer 1                     | layer 2                              | layer 3
    w1 x  gemm  gemm  store     | w2 x gemm store  [w2] x gemm store   | ...
                                ^ nothing is alive ^ w2 alone is: loaded again behind it

Between layers no virtual tile is alive. Inside one, tiles may be that hold what was loaded, if
nothing is stored there as long as they live: the piece behind the cut loads them again. Sums
prevent a cut. How long a piece takes is estimated here (stream/cost.py), as the stage that works
longest; partition/switching.py times the programs, and asks for shorter pieces where that was too
low.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.isa.weight_planes import PackedConstants
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)
from loadstone.vta.stream.table import columns_of

__all__ = ["cut", "dram_range"]

_LOAD, _COMPUTE, _STORE = range(3)


@dataclass
class _LiveRange:
    """A virtual tile: the first and the last operation that touch it, its loads, and whether these
    can be repeated at any time until then."""

    first: int
    last: int
    loads: list[int]
    is_there: bool = True


def cut(
    operations: Sequence[LayerOperation],
    config: HwConfig,
    addresses: Mapping[str, Address],
    most_cycles: int,
    packed: PackedConstants = MappingProxyType({}),
) -> list[list[LayerOperation]]:
    """Pieces whose estimates are at most `most_cycles`, as far as there are places to cut.
    addresses: of the DRAM tensors. packed: constants of weights that are no tiles there."""
    plain = [operation for _, operation in operations]
    cycles = cost_model(config).operations(plain, columns_of(plain), config, packed)
    ranges = _live_ranges(plain, addresses, config)
    prevented = np.zeros(len(plain) + 1, np.int64)  # at each place: tiles that prevent a cut there
    for live in ranges.values():
        if not live.is_there and live.last > live.first:
            prevented[live.first + 1] += 1
            prevented[live.last + 1] -= 1
    open_places = np.flatnonzero(np.cumsum(prevented)[: len(plain)] == 0).tolist()
    # behind a store: a piece that only loads would have to be repeated by the next one
    places = [place for place in open_places if place and type(plain[place - 1]) is TileStore]
    edges = _edges(plain, cycles, places, ranges, most_cycles)
    return [
        _piece(operations, begin, end, ranges)
        for begin, end in zip(edges, [*edges[1:], len(plain)], strict=True)
    ]


def _live_ranges(
    operations: Sequence[Operation], addresses: Mapping[str, Address], config: HwConfig
) -> dict[int, _LiveRange]:
    """By id of the tile."""
    found: dict[int, _LiveRange] = {}
    for number, operation in enumerate(operations):
        for tile in tiles_of(operation):
            live = found.setdefault(id(tile), _LiveRange(number, number, []))
            live.last = number
        if type(operation) is TileLoad:
            found[id(operation.tile)].loads.append(number)
        elif type(operation) is not TileStore:
            found[id(operation.dst.tile)].is_there = False
    stores = np.array(
        [
            (number, *dram_range(operation, addresses, config))
            for number, operation in enumerate(operations)
            if type(operation) is TileStore
        ],
        np.int64,
    ).reshape(-1, 4)
    for live in found.values():
        live.is_there = live.is_there and not _is_overwritten(
            live, operations, addresses, config, stores
        )
    return found


def _is_overwritten(
    live: _LiveRange,
    operations: Sequence[Operation],
    addresses: Mapping[str, Address],
    config: HwConfig,
    stores: NDArray[np.int64],
) -> bool:
    """Whether something is stored where the tile was loaded from, as long as it is live."""
    begin, end = np.searchsorted(stores[:, 0], [live.first, live.last])
    while_live = stores[begin:end]
    if not len(while_live):
        return False
    for number in live.loads:
        load = operations[number]
        assert type(load) is TileLoad
        region, first, past = dram_range(load, addresses, config)
        same = while_live[:, 1] == region
        meets = (while_live[:, 2] < past) & (first < while_live[:, 3])
        if bool((same & meets).any()):
            return True
    return False


def dram_range(
    transfer: TileLoad | TileStore, addresses: Mapping[str, Address], config: HwConfig
) -> tuple[int, int, int]:
    """Region, first byte, and the one behind the last, gaps between rows included."""
    place, tile_bytes = addresses[transfer.dram.tensor], config.tile_bytes(transfer.memory)
    tiles = (transfer.y_size - 1) * transfer.x_stride + transfer.x_size
    first = place.offset_bytes + transfer.dram.tile * tile_bytes
    return place.region, first, first + tiles * tile_bytes


def _stage(operation: Operation) -> int:
    if type(operation) is TileStore:
        return _STORE
    loads = type(operation) is TileLoad and operation.memory in (Memory.INP, Memory.WGT)
    return _LOAD if loads else _COMPUTE


def _edges(
    operations: Sequence[Operation],
    cycles: NDArray[np.int64],
    places: Sequence[int],
    ranges: Mapping[int, _LiveRange],
    most_cycles: int,
) -> list[int]:
    """Where pieces begin: each as late as its cycles allow."""
    spent = np.zeros((len(operations) + 1, 3), np.int64)
    for number, operation in enumerate(operations):
        spent[number + 1, _stage(operation)] = cycles[number]
    spent = np.cumsum(spent, axis=0)
    edges, again, best = [0], np.zeros(3, np.int64), 0
    for place in [*places, len(operations)]:
        if best and int((spent[place] - spent[edges[-1]] + again).max()) > most_cycles:
            edges.append(best)
            alive = [live for live in ranges.values() if live.first < best <= live.last]
            again = _again(operations, cycles, alive, best)
        best = place
    return edges


def _again(
    operations: Sequence[Operation],
    cycles: NDArray[np.int64],
    alive: Sequence[_LiveRange],
    place: int,
) -> NDArray[np.int64]:
    """Cycles of the stages for loads that are repeated behind a cut."""
    total = np.zeros(3, np.int64)
    for live in alive:
        for number in live.loads:
            if number < place:
                total[_stage(operations[number])] += cycles[number]
    return total


def _piece(
    operations: Sequence[LayerOperation], begin: int, end: int, ranges: Mapping[int, _LiveRange]
) -> list[LayerOperation]:
    """Operations [begin, end) behind the loads of the tiles that are alive where it begins, all on
    tiles of their own."""
    own: dict[int, VirtualTile] = {}

    def tile(old: VirtualTile) -> VirtualTile:
        if id(old) not in own:
            own[id(old)] = VirtualTile(old.memory, old.size_tiles, old.name)
        return own[id(old)]

    before = sorted(
        number
        for live in ranges.values()
        if live.first < begin <= live.last
        for number in live.loads
        if number < begin
    )
    # what is loaded again belongs to the layer that needs it
    layer = operations[begin][0]
    loads = [(layer, _on_tiles(operations[number][1], tile)) for number in before]
    return loads + [(name, _on_tiles(o, tile)) for name, o in operations[begin:end]]


def _on_tiles(operation: Operation, tile: Callable[[VirtualTile], VirtualTile]) -> Operation:
    """The same operation on other tiles."""

    def access(old: Access) -> Access:
        return replace(old, tile=tile(old.tile))

    if type(operation) is TileLoad:
        return replace(operation, tile=tile(operation.tile))
    if type(operation) is TileStore:
        by = operation.requantization
        made = None if by is None else replace(by, tile=tile(by.tile))
        return replace(operation, tile=tile(operation.tile), requantization=made)
    if type(operation) is GemmNest:
        src, wgt = access(operation.src), access(operation.wgt)
        return replace(operation, dst=access(operation.dst), src=src, wgt=wgt)
    if type(operation) is FillNest:
        return replace(operation, dst=access(operation.dst))
    if type(operation) is RequantizeNest:
        return replace(operation, dst=access(operation.dst), operands=access(operation.operands))
    assert type(operation) is AluNest
    source = None if operation.src is None else access(operation.src)
    return replace(operation, dst=access(operation.dst), src=source)
