# SPDX-License-Identifier: Apache-2.0
"""A layer whose weights stay while its inputs come and go, which can be cut between any two.

In:   a name, and how many turns.
Out:  its operations; where its tensors stand.
Next: the tests of pieces.py and verify_pieces.py.
"""

from __future__ import annotations

from loadstone.backend.region import Address
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

CONFIG = load_config("vtaq-1x16x16")
#: Of weights, and of what is stored: other regions, and both in one.
APART = {"w": Address(0, 0), "x": Address(2, 0), "y": Address(2, 1 << 20)}
SAME = {**APART, "y": Address(2, 64)}


def load_of(memory: Memory, tile: VirtualTile, tensor: str, at: int = 0) -> TileLoad:
    """All of a tile, in one row."""
    return TileLoad(memory, tile, 0, DramTile(tensor, at), 1, tile.size_tiles, tile.size_tiles)


def layer_of(name: str, turns: int, steps: int = 100) -> list[LayerOperation]:
    """Weights stay for all turns; in each, an input is loaded, multiplied and stored."""
    weights = VirtualTile(Memory.WGT, 8, "w")
    made: list[LayerOperation] = [(name, load_of(Memory.WGT, weights, "w"))]
    for turn in range(turns):
        x, sums = VirtualTile(Memory.INP, 8, "x"), VirtualTile(Memory.ACC, 8, "y")
        dst, src, wgt = (Access(tile, 0, (0,)) for tile in (sums, x, weights))
        store = TileStore(sums, 0, DramTile("y", 8 * turn), 1, 8, 8)
        made += [
            (name, load_of(Memory.INP, x, "x", 8 * turn)),
            (name, FillNest((8,), Access(sums, 0, (1,)), 0)),
            (name, GemmNest((steps,), dst, src, wgt)),
            (name, AluNest(AluOp.MAX, (8,), Access(sums, 0, (1,)), None)),
            (name, store),
        ]
    return made
