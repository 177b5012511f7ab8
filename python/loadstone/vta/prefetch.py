# SPDX-License-Identifier: Apache-2.0
"""Prefetch: load weights before they are needed, in the time in which the load stage would wait.

In:   a VtaProgram's operations in program order.
Out:  the same in a better order: loads of weights pulled forward into gaps of the load stage.
Next: allocate.py gives the tiles addresses.

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

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.allocate import contents
from loadstone.vta.cost import cost_model
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import LOAD_STAGE, Memory, Stage
from loadstone.vta.program import LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.stream import Operation, TileLoad, TileStore, VirtualTile, tiles_of

__all__ = ["Prefetch"]

Int64Array: TypeAlias = NDArray[np.int64]
#: Of WGT, how many weights that come ahead of their turn may fill.
_QUARTERS = 3


class Prefetch(ProgramPass):
    """Moves loads of weights forward."""

    name: ClassVar[str] = "prefetch"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations in their new order, and in `source_order` the one before."""
        operations = [operation for _, operation in program.operations]
        quarters = program.choice.prefetch
        timeline = _Timeline(
            operations,
            program.config,
            _stored(program),
            _QUARTERS if quarters is None else quarters,
        )
        order = timeline.run()
        return replace(
            program,
            operations=[program.operations[number] for number in order],
            source_order=program.operations,
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
    """Tensors that share a region of DRAM with what the program stores, which all that it makes
    does, under whichever name."""
    tensors = {
        operation.dram.tensor
        for _, operation in program.operations
        if isinstance(operation, TileStore)
    }
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


@dataclass(slots=True)
class _InputRing:
    """A scratchpad that is filled in a circle: a new tile has room when the oldest ones are done
    with."""

    depth: int
    tiles: deque[tuple[int, VirtualTile]] = field(default_factory=deque)
    used: int = 0


class _Timeline:
    """One walk over the program that estimates when each stage does what."""

    def __init__(
        self,
        operations: Sequence[Operation],
        config: HwConfig,
        made: frozenset[str],
        quarters: int = _QUARTERS,
    ) -> None:
        """made: tensors of the program's own, whose loads as weights do not move."""
        self.quarters = quarters
        self.operations = operations
        self.config = config
        self.made = made
        self.cost = cost_model(config)
        self.held = contents(operations)
        self.weights = self._first_weight_loads()
        self.pressure = self._weight_pressure()
        self.free = dict.fromkeys(Stage, 0)
        self.ready: dict[VirtualTile, int] = {}  # last write of a tile is done
        self.done: dict[VirtualTile, int] = {}  # last use of a tile so far is done
        self.stored: dict[str, Int64Array] = {}  # per DRAM tensor and tile: when its store is done
        self.loaded: dict[object, int] = {}  # content -> when it was loaded
        self.inputs = _InputRing(config.depth(Memory.INP))
        self.pulled: set[int] = set()
        self.order: list[int] = []

    def run(self) -> list[int]:
        for number, operation in enumerate(self.operations):
            if number in self.pulled:
                continue
            if type(operation) is TileStore:
                self.store(operation)
            elif type(operation) is TileLoad:
                self.load(number, operation)
            else:
                self.compute(operation)
            self.order.append(number)
        return self.order

    # --- one stage each ---------------------------------------------------------------------------
    def compute(self, operation: Operation) -> None:
        assert type(operation) is not TileLoad
        assert type(operation) is not TileStore
        tiles, time, ready, done = (
            tiles_of(operation),
            self.free[Stage.COMPUTE],
            self.ready,
            self.done,
        )
        for tile in tiles:
            if (since := ready.get(tile, 0)) > time:
                time = since
        time += self.cost.compute(operation)
        for tile in tiles:
            if done.get(tile, 0) < time:
                done[tile] = time
        ready[operation.dst.tile] = self.free[Stage.COMPUTE] = time

    def store(self, operation: TileStore) -> None:
        start = max(self.free[Stage.STORE], self.ready_at(operation.tile))
        cycles = self.cost.copy(operation, self.config)
        self.finish(Stage.STORE, start + cycles, (operation.tile,))
        first, last = (
            operation.dram.tile,
            operation.dram.tile + (operation.y_size - 1) * operation.x_stride + operation.x_size,
        )
        times = self.stored.get(operation.dram.tensor, np.zeros(0, np.int64))
        if len(times) < last:
            times = np.concatenate([times, np.zeros(2 * last - len(times), np.int64)])
            self.stored[operation.dram.tensor] = times
        for y in range(operation.y_size):
            row = first + y * operation.x_stride
            times[row : row + operation.x_size] = self.free[Stage.STORE]

    def load(self, number: int, operation: TileLoad) -> None:
        stage = LOAD_STAGE[operation.memory]
        held = self.held.get(operation.tile)
        if held is not None and operation.tile not in self.ready and held in self.loaded:
            self.ready[operation.tile] = self.loaded[held]  # still there: dropped by allocate.py
        if (
            held is not None
            and operation.tile in self.ready
            and self.loaded.get(held) == self.ready[operation.tile]
            and held in self.loaded
        ):
            return
        release = self.released(operation)
        if operation.memory is Memory.INP:
            release = max(release, self.room(operation.tile))
            self.pull_weights(number, release)
        self.finish(
            stage, max(self.free[stage], release) + self.load_cycles(operation), (operation.tile,)
        )
        self.ready[operation.tile] = self.free[stage]

    def finish(self, stage: Stage, time: int, tiles: Sequence[VirtualTile]) -> None:
        self.free[stage], done = time, self.done
        for tile in tiles:
            if done.get(tile, 0) < time:
                done[tile] = time

    def load_cycles(self, operation: TileLoad) -> int:
        return self.cost.copy(operation, self.config)

    def ready_at(self, tile: VirtualTile) -> int:
        return self.ready.get(tile, 0)

    # --- what a load waits for --------------------------------------------------------------------
    def released(self, operation: TileLoad) -> int:
        """When the last store of what it reads is done."""
        times = self.stored.get(operation.dram.tensor)
        if times is None:
            return 0
        first = operation.dram.tile
        rows, x_size, stride = operation.y_size, operation.x_size, operation.x_stride
        if rows > 1 and x_size <= stride and first + rows * stride <= len(times):
            block = times[first : first + rows * stride].reshape(rows, stride)[:, :x_size]
            return int(np.maximum.reduce(block, None, initial=0))
        latest = 0
        for y in range(rows):
            row = times[first + y * stride : first + y * stride + x_size]
            if row.size:
                latest = max(latest, int(np.maximum.reduce(row)))
        return latest

    def room(self, tile: VirtualTile) -> int:
        """When the scratchpad has room for a tile."""
        ring = self.inputs
        if ring.tiles and ring.tiles[-1][1] is tile:
            return 0
        ring.tiles.append((tile.size_tiles, tile))
        ring.used += tile.size_tiles
        time = 0
        while ring.used > ring.depth and len(ring.tiles) > 1:
            size, oldest = ring.tiles.popleft()
            ring.used -= size
            time = max(time, self.done.get(oldest, 0))
        return time

    def pull_weights(self, number: int, release: int) -> None:
        """Loads of weights, in front of operation `number`, until `release`."""
        while self.weights and self.free[Stage.LOAD] < release:
            first = self.weights[0][0]
            if first <= number or first in self.pulled:
                self.weights.popleft()
                continue
            loads = [self.operations[n] for n in self.weights[0]]
            tile = loads[0].tile  # type: ignore[union-attr]
            if (
                int(self.pressure[number:first].max()) + tile.size_tiles
                > self.quarters * self.config.depth(Memory.WGT) // 4
            ):
                return
            cycles = sum(self.load_cycles(o) for o in loads if isinstance(o, TileLoad))
            if self.free[Stage.LOAD] + cycles > release + cycles // 2:
                return
            numbers = self.weights.popleft()
            self.pressure[number:first] += tile.size_tiles
            self.pulled.update(numbers)
            self.order += numbers
            self.free[Stage.LOAD] += cycles
            self.ready[tile] = self.loaded[self.held[tile]] = self.free[Stage.LOAD]

    # --- weights ----------------------------------------------------------------------------------
    def _first_weight_loads(self) -> deque[list[int]]:
        """Numbers of the loads of each WGT tile whose content was not loaded before, in order."""
        seen: set[object] = set()
        chosen: dict[VirtualTile, list[int]] = {}
        for number, operation in enumerate(self.operations):
            if not isinstance(operation, TileLoad) or not _is_weight_load(operation, self.made):
                continue
            tile = operation.tile
            if tile not in chosen:
                if self.held.get(tile) is None or self.held[tile] in seen:
                    continue
                seen.add(self.held[tile])
                chosen[tile] = []
            chosen[tile].append(number)
        return deque(chosen.values())

    def _weight_pressure(self) -> Int64Array:
        """Weight tiles alive at each operation, were each content kept from its first to its last
        use."""
        lives: dict[object, tuple[int, int, int]] = {}
        for number, operation in enumerate(self.operations):
            for tile in tiles_of(operation):
                if tile.memory is Memory.WGT:
                    key = self.held.get(tile, tile)
                    lives[key] = (lives.get(key, (number, 0, 0))[0], number, tile.size_tiles)
        change = np.zeros(len(self.operations) + 1, np.int64)
        for first, last, size in lives.values():
            change[first] += size
            change[last + 1] -= size
        return np.cumsum(change)[:-1]
