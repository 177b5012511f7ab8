# SPDX-License-Identifier: Apache-2.0
"""Two layers on operations: one makes an image in tiles of rows, the other reads it with a halo.

In:   the shape of both.
Out:  a VtaProgram behind passes/store_requantize/, and what it leaves in DRAM.
Next: the tests of store_inp/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

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
    reads each tile twice. taken: rows that the second one takes at a time, 0: all. The first one's
    tiles then have a row more at the top, which the windows of each take reach."""

    height: int = 6
    width: int = 5
    rows: int = 4
    again: bool = False
    taken: int = 0
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
        chains = [("one", "two")] if self.taken else []
        return VtaProgram(self.config, places, operations, inside=inside, chains=chains)

    def _first(self) -> Sequence[Operation]:
        made: list[Operation] = []
        operands = VirtualTile(Memory.ACC, 6, "p")
        weights = VirtualTile(Memory.WGT, 2, "w")
        made.append(TileLoad(Memory.ACC, operands, 0, DramTile("p", 0), 1, 6, 6))
        made.append(TileLoad(Memory.WGT, weights, 0, DramTile("w", 0), 1, 2, 2))
        edges = [0, *range(self.rows + bool(self.taken), self.height, self.rows), self.height]
        for row, end in pairwise(edges):
            tiles = (end - row) * self.width
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
            edges = [*range(0, self.height, self.taken or self.height), self.height]
            for (row, end), block in product(pairwise(edges), range(2)):
                made += self._take(turn, block, row, end)
        return made

    def _take(self, turn: int, block: int, row: int, end: int) -> Sequence[Operation]:
        """Rows of a block of channels of the second layer's output."""
        rows, wide = end - row, self.width + 2
        name = f"{block}{turn}" + (f" from {row}" if row else "")
        x = VirtualTile(Memory.INP, (rows + 2) * wide, f"mid{name}")
        acc = VirtualTile(Memory.ACC, rows * self.width, f"sum{name}")
        weights = VirtualTile(Memory.WGT, 9, f"w{name}")
        top, bottom = int(row == 0), int(end == self.height)
        first = DramTile("mid", block * self.pixels + (row - 1 + top) * self.width)
        size = (rows + 2 - top - bottom, self.width, self.width)
        dst = Access(acc, 0, (0, 0, self.width, 1))
        src = Access(x, 0, (wide, 1, wide, 1))
        to = DramTile("out", (2 * turn + block) * self.pixels + row * self.width)
        tiles = rows * self.width
        return [
            TileLoad(Memory.WGT, weights, 0, DramTile("w", 2), 1, 9, 9),
            TileLoad(Memory.INP, x, 0, first, *size, top, bottom, 1, 1, PAD),
            FillNest((tiles,), Access(acc, 0, (1,)), 0),
            GemmNest((3, 3, rows, self.width), dst, src, Access(weights, 0, (3, 1, 0, 0))),
            TileStore(acc, 0, to, 1, tiles, tiles),
        ]

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
