# SPDX-License-Identifier: Apache-2.0
"""Loops with their bounds known: clipped, joined, and as the 2-D blocks that a copy is made of.

In:   loops of an intrinsic as emitted Python gives them, and the tiles they begin with.
Out:  `ComputeNest`: extents and accesses; `copy_blocks`: rows and columns with their pads.
Next: emitter.py makes operations of them.

A loop of a compute intrinsic is (extent, first, last, stride per operand); one of a copy is
(extent, first, last, inside_first, inside_last, stride in the scratchpad, stride in DRAM). At a
border a loop gets shorter and a copy gets pads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from loadstone.errors import LoweringError
from loadstone.vta.stream import Access, VirtualTile

__all__ = [
    "SINGLE",
    "ComputeLoop",
    "ComputeNest",
    "CopyAxis",
    "CopyLoop",
    "TileOperand",
    "clipped_nest",
    "copy_blocks",
]

#: A tile, and the number of a tile in it.
TileOperand: TypeAlias = tuple[VirtualTile, int]
ComputeLoop = tuple[int, ...]
CopyLoop = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class CopyAxis:
    """One clipped axis of a copy: `pad_0 | size | pad_1` tiles, `gap` more to the full extent in
    the scratchpad."""

    pad_0: int
    size: int
    pad_1: int
    gap: int
    sram_stride: int
    dram_stride: int

    @property
    def length(self) -> int:
        """Tiles in the scratchpad, pads included."""
        return self.pad_0 + self.size + self.pad_1

    @property
    def is_plain(self) -> bool:
        """Whether it is all data, packed."""
        return self.pad_0 == self.pad_1 == self.gap == 0


@dataclass(frozen=True, slots=True)
class ComputeNest:
    """Loops that every operand moves through: extents, and of each operand its tile, base and
    strides."""

    extents: tuple[int, ...]
    tiles: list[VirtualTile]
    bases: list[int]
    strides: list[tuple[int, ...]]

    def access(self, operand: int, reach: int = 1) -> Access:
        """What an operand reaches, inside its tile; reach: tiles from the indexed one on that are
        read."""
        return _access(
            self.extents, self.tiles[operand], self.bases[operand], self.strides[operand], reach
        )


def clipped_nest(
    loops: Sequence[ComputeLoop], operands: Sequence[TileOperand]
) -> ComputeNest | None:
    """Clips loops, drops those of one turn, joins those that are contiguous for every operand.
    None: nothing is executed."""
    starts = [base for _, base in operands]
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
    return ComputeNest(
        tuple(loop[0] for loop in joined),
        [tile for tile, _ in operands],
        starts,
        [tuple(loop[1 + operand] for loop in joined) for operand in range(len(operands))],
    )


def _access(
    extents: tuple[int, ...], tile: VirtualTile, base: int, strides: tuple[int, ...], reach: int = 1
) -> Access:
    """An access that stays inside its tile; `reach`: tiles from the indexed one on that are
    read."""
    low, high = base, base + reach
    for extent, stride in zip(extents, strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    if low < 0 or high > tile.size_tiles:
        raise LoweringError(
            f"emitter: tiles [{low}, {high}) leave {tile.name} of {tile.size_tiles} tiles"
        )
    return Access(tile, base, strides)


def copy_blocks(
    loops: Sequence[CopyLoop], sram: int, dram: int
) -> Iterator[tuple[int, int, CopyAxis, CopyAxis]]:
    """A copy as 2-D blocks: (first tile in the scratchpad, first data tile in DRAM, rows,
    columns)."""
    axes: list[CopyAxis] = []
    outside = False
    for loop in loops:
        _, first, last, _, _, sram_stride, dram_stride = loop
        if last <= first:
            return
        axis, start = _clipped_axis(loop)
        sram += first * sram_stride
        dram += start * dram_stride
        if sram_stride == 0:  # a condition of the outer loops
            outside |= axis.size == 0
        elif not (axis.is_plain and axis.size == 1):
            axes.append(axis)
    joined = _joined(sorted(axes, key=lambda axis: -axis.sram_stride))
    if not joined or joined[-1].sram_stride != 1 or joined[-1].dram_stride != 1:
        joined.append(CopyAxis(0, 1, 0, 0, 1, 1))
    x = joined.pop()
    if outside:
        x = CopyAxis(x.length, 0, 0, x.gap, x.sram_stride, x.dram_stride)
    packed = x.length + x.gap
    y = (
        joined.pop()
        if joined and joined[-1].sram_stride == packed
        else CopyAxis(0, 1, 0, 0, packed, packed)
    )
    for sram_offset, dram_offset in _turns(joined):
        yield sram + sram_offset, dram + dram_offset, y, x


def _clipped_axis(loop: CopyLoop) -> tuple[CopyAxis, int]:
    """One loop of a copy as an axis, and the first turn that has data."""
    extent, first, last, inside_first, inside_last, sram_stride, dram_stride = loop
    start, end = max(first, inside_first), min(last, inside_last)
    if end < start:  # all of it is padding
        start = end = first
    gap = extent - last + first
    return CopyAxis(start - first, end - start, last - end, gap, sram_stride, dram_stride), start


def _joined(axes: Sequence[CopyAxis]) -> list[CopyAxis]:
    """Axes from the outermost, where those that continue each other on both sides are one."""
    joined: list[CopyAxis] = []
    for axis in axes:
        outer = joined[-1] if joined else None
        if (
            outer
            and outer.is_plain
            and axis.is_plain
            and (outer.sram_stride, outer.dram_stride)
            == (axis.size * axis.sram_stride, axis.size * axis.dram_stride)
        ):
            joined[-1] = CopyAxis(
                0, outer.size * axis.size, 0, 0, axis.sram_stride, axis.dram_stride
            )
        else:
            joined.append(axis)
    return joined


def _turns(axes: list[CopyAxis]) -> Iterator[tuple[int, int]]:
    """Offsets (scratchpad, DRAM) of every turn of the axes that are left."""
    if any(axis.length != axis.size for axis in axes):
        raise LoweringError("emitter: a copy has pads on more than its two inner axes")
    for turn in range(prod(axis.size for axis in axes)):
        sram = dram = 0
        for axis in reversed(axes):
            turn, position = divmod(turn, axis.size)
            sram += position * axis.sram_stride
            dram += position * axis.dram_stride
        yield sram, dram


#: One row of one tile.
SINGLE = CopyAxis(0, 1, 0, 0, 0, 0)
