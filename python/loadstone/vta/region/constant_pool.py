# SPDX-License-Identifier: Apache-2.0
"""Constants of layers and of their parts, each of which stands in DRAM once.

In:   operations of a layer or of a part of it, and their constants.
Out:  the operations, which read those of a part where the whole layer has them.
Next: cores.py keeps the constants of several devices so, bands.py those of bands of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from loadstone.numerics import Array
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.kernels import Constants
from loadstone.vta.stream.operations import DramTile, Operation, TileLoad

__all__ = ["ConstantPool"]


class ConstantPool:
    """Constants of layers and of their parts. What a part reads is nearly always a piece of what
    its layer reads, and stands there once."""

    def __init__(self) -> None:
        self.constants: dict[str, tuple[Memory, Array]] = {}

    def kept(
        self, constants: Constants, operations: Sequence[Operation], whole: Constants | None = None
    ) -> list[Operation]:
        """The operations; those of a part read where the constants of the whole layer have it."""
        places: dict[str, tuple[str, int]] = {}
        for name, (memory, tiles) in constants.items():
            found = None if whole is None else _piece_of(whole, memory, tiles)
            if found is None:
                self.constants.setdefault(name, (Memory(memory), tiles))
            else:
                places[name] = found
        return [
            replace(o, dram=_moved(o.dram, *places[o.dram.tensor]))
            if type(o) is TileLoad and o.dram.tensor in places
            else o
            for o in operations
        ]

    def zero_tiles(self) -> dict[str, Array]:
        """As VtaProgram has them, (tiles,) each."""
        found = {}
        for name, (memory, tiles) in self.constants.items():
            zeros = np.logical_not(np.any(tiles, axis=tuple(range(1, tiles.ndim))))
            if memory is Memory.WGT and zeros.any():
                found[name] = np.asarray(zeros, np.bool_)
        return found


def _piece_of(whole: Constants, memory: Memory, tiles: Array) -> tuple[str, int] | None:
    """The constant that has these tiles, and the first of them there."""
    content = tiles.tobytes()
    tile_bytes = len(content) // max(len(tiles), 1)
    for name, (theirs, every) in whole.items():
        if theirs != memory or not content:
            continue
        held = every.tobytes()
        at = held.find(content)
        while at >= 0 and at % tile_bytes:
            at = held.find(content, at + 1)
        if at >= 0:
            return name, at // tile_bytes
    return None


def _moved(place: DramTile, tensor: str, first: int) -> DramTile:
    return replace(place, tensor=tensor, tile=first + place.tile)
