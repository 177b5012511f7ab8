# SPDX-License-Identifier: Apache-2.0
"""Loops of a step with their bounds known: clipped, and joined.

In:   loops of a call, with plain numbers.
Out:  `ComputeNest`: extents, and of each operand the way that it takes through its tile.
Next: from_nests.py makes operations of them; copy_pieces.py does the same for copies.

A loop is (extent, first, last, stride per operand); at a border it gets shorter. Most turns of a
kernel have the same loops and differ in their tiles alone, so loops are looked at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from loadstone.errors import LoweringError
from loadstone.vta.stream.operations import Access, VirtualTile

__all__ = ["ComputeLoop", "ComputeNest", "OperandPath", "TileOperand", "clipped_nest"]

#: A tile, and the number of a tile in it.
TileOperand: TypeAlias = tuple[VirtualTile, int]
ComputeLoop = tuple[int, ...]


class OperandPath(NamedTuple):
    """The way of one operand: where it begins, its strides, and the tiles [low, high) that it
    touches; all but the strides from the operand's own number on."""

    start: int
    strides: tuple[int, ...]
    low: int
    high: int

    def access(self, operand: TileOperand, reach: int = 1) -> Access:
        """The access of an operand that stays inside its tile; reach: tiles from the indexed one
        on that are read."""
        tile, base = operand
        low, high = base + self.low, base + self.high - 1 + reach
        if low < 0 or high > tile.size_tiles:
            raise LoweringError(
                f"emitter: tiles [{low}, {high}) leave {tile.name} of {tile.size_tiles} tiles"
            )
        return Access(tile, base + self.start, self.strides)


class ComputeNest(NamedTuple):
    """Loops that every operand moves through."""

    extents: tuple[int, ...]
    paths: tuple[OperandPath, ...]


@lru_cache(maxsize=1 << 14)
def clipped_nest(loops: tuple[ComputeLoop, ...], operands: int) -> ComputeNest | None:
    """Clips the loops of so many operands, drops those of one turn, joins those that are contiguous
    for every operand. None: nothing is executed."""
    starts = [0] * operands
    joined: list[tuple[int, ...]] = []
    for _, first, last, *strides in loops:
        size = last - first
        if size <= 0:
            return None
        if first:
            starts = [start + first * stride for start, stride in zip(starts, strides, strict=True)]
        if size == 1:
            continue
        if joined and all(
            outer == size * inner for outer, inner in zip(joined[-1][1:], strides, strict=True)
        ):
            joined[-1] = (joined[-1][0] * size, *strides)
        else:
            joined.append((size, *strides))
    extents = tuple(loop[0] for loop in joined)
    paths = (
        _path(extents, start, tuple(loop[1 + operand] for loop in joined))
        for operand, start in enumerate(starts)
    )
    return ComputeNest(extents, tuple(paths))


def _path(extents: tuple[int, ...], start: int, strides: tuple[int, ...]) -> OperandPath:
    ways = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
    back, on = sum(way for way in ways if way < 0), sum(way for way in ways if way > 0)
    return OperandPath(start, strides, start + back, start + on + 1)
