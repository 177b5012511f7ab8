# SPDX-License-Identifier: Apache-2.0
"""Two layers on operations: one makes an image in tiles of rows, the other reads it with a halo.

In:   the shape of both.
Out:  a VtaProgram behind passes/store_requantize/, and what it leaves in DRAM.
Next: the tests of store_inp/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadstone.backend.region import Address
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.stream.meaning import execute

KEEPING = load_config("vtaq2-1x16x16")
SECOND = replace(KEEPING, name="by-dram", capabilities=KEEPING.capabilities & ~Capability.STORE_INP)
PAD = -7


@dataclass(frozen=True)
class TwoLayers:
    """An image of height x width pixels in two blocks of channels, stored in tiles of `rows` rows;
    read with a border of one pixel by windows of 3x3, block by block. again: the second layer
    reads each tile twice."""

    height: int = 6
    width: int = 5
    rows: int = 4
    again: bool = False
    inside: bool = True
    config: HwConfig = KEEPING

    @property
    def pixels(self) -> int:
        """Of a block of channels."""
        return self.height * self.width

    def program(self) -> VtaProgram:
        """Both layers."""
        regions = {"x": 0, "w": 1, "p": 1, "mid": 2, "out": 3}
        places = {name: Address(region, 0) for name, region in regions.items()}
        places["p"] = Address(1, 1 << 16)
        operations = [("one", o) for o in self._first()] + [("two", o) for o in self._second()]
        inside = frozenset({"mid"} if self.inside else ())
        return VtaProgram(self.config, places, operations, inside=inside)

    def _first(self) -> Sequence[Operation]:
        made: list[Operation] = []
        operands = VirtualTile(Memory.ACC, 6, "p")
        weights = VirtualTile(Memory.WGT, 2, "w")
        made.append(TileLoad(Memory.ACC, operands, 0, DramTile("p", 0), 1, 6, 6))
        made.append(TileLoad(Memory.WGT, weights, 0, DramTile("w", 0), 1, 2, 2))
        for row in range(0, self.height, self.rows):
            tiles = min(self.rows, self.height - row) * self.width
            x = VirtualTile(Memory.INP, tiles, f"x{row}")
            acc = VirtualTile(Memory.ACC, 2 * tiles, f"acc{row}")
            first = row * self.width
            made.append(TileLoad(Memory.INP, x, 0, DramTile("x", first), 1, tiles, tiles))
            made.append(FillNest((2 * tiles,), Access(acc, 0, (1,)), 0))
            dst, src = Access(acc, 0, (tiles, 1)), Access(x, 0, (0, 1))
            made.append(GemmNest((2, tiles), dst, src, Access(weights, 0, (1, 0))))
            by = StoreRequantization(operands, 0, 3, 3, -128, 127, Rounding.DOUBLE)
            to = DramTile("mid", first)
            made.append(TileStore(acc, 0, to, 2, tiles, self.pixels, by))
        return made

    def _second(self) -> Sequence[Operation]:
        made: list[Operation] = []
        for turn in range(2 if self.again else 1):
            for block in range(2):
                high, wide = self.height + 2, self.width + 2
                x = VirtualTile(Memory.INP, high * wide, f"mid{block}{turn}")
                acc = VirtualTile(Memory.ACC, self.pixels, f"sum{block}{turn}")
                weights = VirtualTile(Memory.WGT, 9, f"w{block}{turn}")
                first = DramTile("mid", block * self.pixels)
                size = (self.height, self.width, self.width)
                made.append(TileLoad(Memory.WGT, weights, 0, DramTile("w", 2), 1, 9, 9))
                made.append(TileLoad(Memory.INP, x, 0, first, *size, 1, 1, 1, 1, PAD))
                made.append(FillNest((self.pixels,), Access(acc, 0, (1,)), 0))
                dst = Access(acc, 0, (0, 0, self.width, 1))
                src = Access(x, 0, (wide, 1, wide, 1))
                shape = (3, 3, self.height, self.width)
                made.append(GemmNest(shape, dst, src, Access(weights, 0, (3, 1, 0, 0))))
                to = DramTile("out", (2 * turn + block) * self.pixels)
                made.append(TileStore(acc, 0, to, 1, self.pixels, self.pixels))
        return made

    def result(self, operations: Sequence[LayerOperation]) -> np.ndarray:
        """What is left in `out` and, where others see it, in `mid`."""
        rng = np.random.default_rng(0)
        block = SECOND.block
        operands = rng.integers(-500, 500, (6, 1, block))
        operands[1::3] = rng.integers(1 << 30, (1 << 31) - 1, (2, 1, block))
        operands[2::3] = -8 & 255
        dram = {
            "x": rng.integers(-128, 128, (self.pixels, 1, block)).astype(np.int8),
            "w": rng.integers(-128, 128, (11, block, block)).astype(np.int8),
            "p": operands.astype(np.int32),
            "mid": np.zeros((2 * self.pixels, 1, block), np.int8),
            "out": np.zeros((4 * self.pixels, 1, block), np.int8),
        }
        execute([operation for _, operation in operations], dram, SECOND)
        seen = dram["mid"][: 0 if self.inside else None]
        return np.concatenate([seen.ravel(), dram["out"].ravel()])
