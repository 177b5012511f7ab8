# SPDX-License-Identifier: Apache-2.0
"""Prefetch: load weights before they are needed, in the time in which the load stage would wait.

In:   a VtaProgram's operations in program order.
Out:  the same in a better order: loads of weights pulled forward into gaps of the load stage.
Next: allocate/allocate.py gives the tiles addresses.

Loads run in order, and an input that waits for the store of the layer before holds back the weights
behind it:

    load      [x1][w1]          ....wait....[x2][w2]                        [x1][w1]   [w2]
              ..wait..[x2]
    compute            [layer 1 ........]           [layer 2]      ->               [layer 1
                       ........]  [layer 2]

One walk over the program estimates when each stage does what. Where a load would have to wait, be
it for a store or for room in its scratchpad, the next weights that nobody loaded yet are pulled in
front of it, as many as fit into the gap and, with all that is alive until they are used, into the
scratchpad. Weights never change, so nothing else limits how early they come. What a store of the
program writes is no weight, although the GEMM core may read it as one: it stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.residency import NO_CONTENT
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import LayerOperation, ProgramPass, SourceOrder, VtaProgram
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import Operation, TileLoad, TileStore, VirtualTile, tiles_of
from loadstone.vta.stream.table import NO_TILE, StreamColumns, columns_of

__all__ = ["Prefetch"]

Int64Array: TypeAlias = NDArray[np.int64]
#: Of WGT, how many weights that come ahead of their turn may fill.
_QUARTERS = 3
#: Load hears of a store through compute, which is at the next tile's products while a store
#: requantizes: about so many cycles later. With 0 the gaps of ResNet8 and of two MobileNets seem so
#: short that 2 % of their cycles are waits for weights; from 128 to 200 it is all the same.
_HEARD_CYCLES = 150


class Prefetch(ProgramPass):
    """Moves loads of weights forward."""

    name: ClassVar[str] = "prefetch"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations in their new order, and in `source` the one before."""
        operations = [operation for _, operation in program.operations]
        columns = program.columns or columns_of(operations)
        cost, config = cost_model(program.config), program.config
        cycles = cost.operations(operations, columns, config, program.packed)
        stores = columns.kinds[TileStore]
        in_dram = stores[columns.touched[stores, 2] == NO_TILE]
        cycles[in_dram[columns.touched[in_dram, 1] != NO_TILE]] += _HEARD_CYCLES
        named = columns.copies[stores, 0]
        stored = _beside({columns.tensors[n] for n in np.unique(named).tolist()}, program)
        order = _order(
            _steps(columns, cycles, stored), columns, program.config, program.choice.prefetch
        )
        return replace(
            program,
            operations=[program.operations[number] for number in order.tolist()],
            columns=None,
            source=SourceOrder(program.operations, columns, order),
        )

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Only loads of weights moved, forward, in their own order."""
        stored = _stored(before)
        others = [_others(program.operations, stored) for program in (before, after)]
        loads = [_weight_loads(program.operations, stored) for program in (before, after)]
        if not _same_objects(*others) or sorted(map(id, loads[0])) != sorted(map(id, loads[1])):
            raise LoweringError("prefetch: something other than a load of weights moved")
        position = {id(o): number for number, (_, o) in enumerate(after.operations)}
        for tile, parts in _by_tile(before.operations).items():
            places = [position[id(o)] for o in parts]
            if places != sorted(places):
                raise LoweringError(f"prefetch: {tile.name} is used before its load")


def _stored(program: VtaProgram) -> frozenset[str]:
    """Tensors that stand where the program stores."""
    operations = (operation for _, operation in program.operations)
    return _beside({o.dram.tensor for o in operations if isinstance(o, TileStore)}, program)


def _beside(tensors: set[str], program: VtaProgram) -> frozenset[str]:
    """Tensors that share a region of DRAM with some others. All that a program makes does, under
    whichever name."""
    regions = {program.places[name].region for name in tensors if name in program.places}
    beside = {name for name, place in program.places.items() if place.region in regions}
    return frozenset(tensors | beside)


def _is_weight_load(operation: Operation, stored: frozenset[str]) -> bool:
    return (
        isinstance(operation, TileLoad)
        and operation.memory is Memory.WGT
        and operation.dram.tensor not in stored
    )


def _others(operations: Sequence[LayerOperation], stored: frozenset[str]) -> list[Operation]:
    return [operation for _, operation in operations if not _is_weight_load(operation, stored)]


def _weight_loads(operations: Sequence[LayerOperation], stored: frozenset[str]) -> list[Operation]:
    return [operation for _, operation in operations if _is_weight_load(operation, stored)]


def _same_objects(first: Sequence[Operation], second: Sequence[Operation]) -> bool:
    return list(map(id, first)) == list(map(id, second))


def _by_tile(operations: Sequence[LayerOperation]) -> dict[VirtualTile, list[Operation]]:
    """The operations that touch each weight tile, in order."""
    touched: dict[VirtualTile, list[Operation]] = {}
    for _, operation in operations:
        for tile in tiles_of(operation):
            if tile.memory is Memory.WGT:
                touched.setdefault(tile, []).append(operation)
    return touched


# --- the walk -------------------------------------------------------------------------------------
def _steps(columns: StreamColumns, cycles: Int64Array, stored: frozenset[str]) -> Int64Array:
    """By operation, the fields of `lds_prefetch_step` in native/include/lds_prefetch.h."""
    kind = np.full(len(cycles), lib().LDS_PREFETCH_COMPUTE)
    kind[columns.kinds[TileStore]] = lib().LDS_PREFETCH_STORE
    loads = columns.kinds[TileLoad]
    memory = columns.tiles.memory[columns.touched[loads, 0]]
    stays = np.array([tensor in stored for tensor in columns.tensors], np.bool_)
    kind[loads] = np.select(
        [memory == Memory.INP, memory == Memory.ACC, stays[columns.copies[loads, 0]]],
        [
            lib().LDS_PREFETCH_INPUT,
            lib().LDS_PREFETCH_OPERANDS,
            lib().LDS_PREFETCH_WEIGHTS_THAT_STAY,
        ],
        lib().LDS_PREFETCH_WEIGHTS,
    )
    copies = columns.copies[:, :5].copy()
    copies[(kind == lib().LDS_PREFETCH_STORE) & (columns.touched[:, 2] != NO_TILE), 2] = 0
    return np.column_stack([kind, cycles, columns.touched, copies])


def _order(
    steps: Int64Array, columns: StreamColumns, config: HwConfig, quarters: int | None
) -> Int64Array:
    """Numbers of the operations in their new order."""
    tiles = columns.tiles
    weights = tiles.memory == Memory.WGT
    own = np.stack([tiles.size, tiles.content, weights], axis=1)
    quarters = _QUARTERS if quarters is None else quarters
    stream = ffi.new(
        "lds_prefetch_stream *",
        (
            config.depth(Memory.INP),
            quarters * config.depth(Memory.WGT) // 4,
            int(tiles.content.max(initial=NO_CONTENT)) + 1,
            len(columns.tensors),
            len(own),
            len(steps),
            ffi.from_buffer("lds_prefetch_tile[]", own),
            ffi.from_buffer("lds_prefetch_step[]", steps),
        ),
    )
    order = np.empty(len(steps), np.int64)
    status = lib().lds_prefetch(stream, ffi.from_buffer("int64_t[]", order))
    if status == lib().LDS_PREFETCH_NO_MEMORY:
        raise MemoryError("prefetch")
    if status != lib().LDS_PREFETCH_OK:
        raise AssertionError(f"lds_prefetch: status {status}")
    return order
