# SPDX-License-Identifier: Apache-2.0
"""The walk of native/prefetch.cc in Python, for tests that hold one against the other.

In:   operations in program order, and the cycles of each.
Out:  the order in which loads of weights come early.
Next: test_prefetch.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import LOAD_STAGE, Memory, Stage
from loadstone.vta.passes.allocate.verify import contents
from loadstone.vta.stream.operations import Operation, TileLoad, TileStore, VirtualTile, tiles_of

Int64Array: TypeAlias = NDArray[np.int64]


@dataclass(slots=True)
class _InputRing:
    """A scratchpad that is filled in a circle: a new tile has room when the oldest ones are done
    with."""

    depth: int
    tiles: deque[tuple[int, VirtualTile]] = field(default_factory=deque)
    used: int = 0


class Timeline:
    """One walk over the program that estimates when each stage does what."""

    def __init__(
        self,
        operations: Sequence[Operation],
        config: HwConfig,
        made: frozenset[str],
        cycles: Sequence[int],
        quarters: int = 3,
    ) -> None:
        """made: tensors of the program's own, whose loads as weights do not move."""
        self.quarters = quarters
        self.operations = operations
        self.config = config
        self.made = made
        self.cycles = cycles
        self.held = contents([("layer", operation) for operation in operations])
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
        """Numbers of the operations in their new order."""
        for number, operation in enumerate(self.operations):
            if number in self.pulled:
                continue
            if type(operation) is TileStore:
                self.store(number, operation)
            elif type(operation) is TileLoad:
                self.load(number, operation)
            else:
                self.compute(number, operation)
            self.order.append(number)
        return self.order

    # --- one stage each ---------------------------------------------------------------------------
    def compute(self, number: int, operation: Operation) -> None:
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
        time += self.cycles[number]
        for tile in tiles:
            if done.get(tile, 0) < time:
                done[tile] = time
        ready[operation.dst.tile] = self.free[Stage.COMPUTE] = time

    def store(self, number: int, operation: TileStore) -> None:
        start = max(self.free[Stage.STORE], self.ready_at(operation.tile))
        self.finish(Stage.STORE, start + self.cycles[number], (operation.tile,))
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
            self.ready[operation.tile] = self.loaded[held]  # still there: allocate/ drops it
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
        start = max(self.free[stage], release)
        self.finish(stage, start + self.cycles[number], (operation.tile,))
        self.ready[operation.tile] = self.free[stage]

    def finish(self, stage: Stage, time: int, tiles: Sequence[VirtualTile]) -> None:
        self.free[stage], done = time, self.done
        for tile in tiles:
            if done.get(tile, 0) < time:
                done[tile] = time

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
            load = self.operations[first]
            assert isinstance(load, TileLoad)
            tile = load.tile
            if (
                int(self.pressure[number:first].max()) + tile.size_tiles
                > self.quarters * self.config.depth(Memory.WGT) // 4
            ):
                return
            cycles = sum(self.cycles[n] for n in self.weights[0])
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
            if not isinstance(operation, TileLoad) or operation.memory is not Memory.WGT:
                continue
            if operation.dram.tensor in self.made:
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
