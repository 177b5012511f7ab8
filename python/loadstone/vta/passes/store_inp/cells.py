# SPDX-License-Identifier: Apache-2.0
"""Which tiles of DRAM a load or a store touches: a tensor's by their places, not by its name.

In:   a VtaProgram's operations, and where its DRAM tensors stand.
Out:  DramCells: of a copy its region, and its tiles of OUT from the start of the region on.
Next: flow.py and weave.py note who wrote each.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.stream.operations import TileLoad, TileStore

__all__ = ["NOBODY", "DramCells"]

Int64Array: TypeAlias = NDArray[np.int64]
#: Of a tile in DRAM that no store of the program has written.
NOBODY = -1


class DramCells:
    """ends: of each region that is stored to, one past the last tile."""

    def __init__(self, program: VtaProgram) -> None:
        self._program = program
        self._bytes = program.config.tile_bytes(Memory.OUT)
        self.ends: dict[int, int] = {}
        for _, o in program.operations:
            if type(o) is TileStore:
                region, cells = self.of(o)
                self.ends[region] = max(self.ends.get(region, 0), int(cells.max()) + 1)

    def numbers(self, region: int) -> Int64Array:
        """For each tile of a region NOBODY, to note who wrote it."""
        return np.full(self.ends[region], NOBODY)

    def of(self, o: TileLoad | TileStore) -> tuple[int, Int64Array]:
        """The region, and (cells,) the tiles, row by row; of larger ones all that they touch."""
        memory = o.memory if isinstance(o, TileLoad) or o.whole else Memory.OUT
        place, size = self._program.places[o.dram.tensor], self._program.config.tile_bytes(memory)
        first = place.offset_bytes + o.dram.tile * size
        rows = np.arange(o.y_size)[:, None] * o.x_stride * size
        if size == self._bytes:
            begins = (first + rows + np.arange(o.x_size) * size) // size
            return place.region, begins.ravel()
        begin, end = first + rows[:, 0], first + rows[:, 0] + o.x_size * size
        ranges = zip(begin // self._bytes, -(-end // self._bytes), strict=True)
        return place.region, np.concatenate([np.arange(*some) for some in ranges])
