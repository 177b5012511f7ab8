# SPDX-License-Identifier: Apache-2.0
"""A copy between DRAM and a scratchpad as LOADs and STOREs: 2-D pieces, and pads where it has a
border.

In:   loops of a copy, with plain numbers.
Out:  `Piece`s: what each instruction moves, from where the copy begins.
Next: emitter.py makes operations of them.

A loop of a copy is (extent, first, last, inside_first, inside_last, stride in the scratchpad,
stride in DRAM); at a border it gets shorter, or a copy gets pads. The LOAD makes them where its
fields can, else they come from a constant in DRAM. Most turns of a kernel have the same loops and
differ in where they begin alone, so loops are looked at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from loadstone.errors import LoweringError
from loadstone.vta.isa.insn import KINDS
from loadstone.vta.isa.spec import Memory, Opcode

__all__ = [
    "MAX_PAD",
    "UNPADDED",
    "CopyLoop",
    "Loading",
    "Piece",
    "load_pieces",
    "store_pieces",
]

#: Tiles that a pad field of LOAD can hold on each side; its width is the same on every device.
MAX_PAD = min(
    (1 << int(field.width)) - 1 for field in KINDS[Opcode.LOAD].fields if "_pad_" in field.name
)
#: What is loaded without pads: real hardware has none for WGT, and operand tiles have no border.
UNPADDED = (Memory.WGT, Memory.ACC)
CopyLoop = tuple[int, int, int, int, int, int, int]


class Loading(NamedTuple):
    """What decides how a LOAD makes pads: where it goes, the value, and whether the device can make
    one that is not 0."""

    memory: Memory
    pad_value: int
    any_value: bool


class Piece(NamedTuple):
    """One LOAD or STORE: tiles [first, end) of the scratchpad; its first tile in DRAM (None: the
    constant of pads), and how far it reaches from there; y_size, x_size and x_stride, and of a LOAD
    its pads and their value (stream/operations.py has them all in this order)."""

    first: int
    end: int
    dram: int | None
    reach: int
    fields: tuple[int, ...]

    @property
    def has_pads(self) -> bool:
        """Whether it makes pads, or is one."""
        return self.dram is None or any(self.fields[3:7])


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


#: One row of one tile.
_SINGLE = CopyAxis(0, 1, 0, 0, 0, 0)


@lru_cache(maxsize=1 << 14)
def load_pieces(to: Loading, loops: tuple[CopyLoop, ...]) -> tuple[Piece, ...]:
    """The LOADs of a copy. Raises LoweringError for pads that two dimensions do not reach, or of
    what is loaded without."""
    pieces = tuple(
        piece
        for sram, dram, y, x in _blocks(loops)
        for piece in _block_pieces(to, sram, dram, y, x)
    )
    if to.memory in UNPADDED and any(piece.has_pads for piece in pieces):
        raise LoweringError(f"emitter: a load of {to.memory.name} has pads")
    return pieces


@lru_cache(maxsize=1 << 14)
def store_pieces(loops: tuple[CopyLoop, ...]) -> tuple[Piece, ...]:
    """The STOREs of a copy. Rows that are clipped are not packed in the scratchpad: one STORE each.
    Raises LoweringError for pads."""
    pieces: list[Piece] = []
    for sram, dram, y, x in _blocks(loops):
        if y.length != y.size or x.length != x.size:
            raise LoweringError("emitter: a store has pads")
        if y.size == 1 or x.gap == 0:
            pieces.append(_stored(sram, dram, (y.size, x.size), y.dram_stride))
            continue
        pieces += (
            _stored(sram + row * y.sram_stride, dram + row * y.dram_stride, (1, x.size), x.size)
            for row in range(y.size)
        )
    return tuple(pieces)


# --- pieces of a block ----------------------------------------------------------------------------
def _block_pieces(to: Loading, sram: int, dram: int, y: CopyAxis, x: CopyAxis) -> Iterator[Piece]:
    """One 2-D block; where LOAD cannot make the pads, they come from a constant in DRAM."""
    if y.size <= 0 or x.size <= 0:
        for row in range(y.length):
            yield from _pads(sram + row * y.sram_stride, x.length)
    elif (
        y.length > 1 and x.gap and (x.pad_1 + x.gap > MAX_PAD or to.memory in UNPADDED)
    ):  # a clipped row is not packed: one LOAD each
        for row in range(y.length):
            start = sram + row * y.sram_stride
            if y.pad_0 <= row < y.pad_0 + y.size:
                place = dram + (row - y.pad_0) * y.dram_stride
                yield from _block_pieces(to, start, place, _SINGLE, x)
            else:
                yield from _pads(start, x.length)
    elif _can_pad(to, y, x):
        x_pad_1 = (
            x.pad_1 + x.gap if y.length > 1 else x.pad_1
        )  # what the gap holds is never read: let the pad fill it
        pads = (y.pad_0, y.pad_1, x.pad_0, x_pad_1)
        value = to.pad_value if _has_pads(y, x) else 0
        yield _loaded(sram, dram, (y.size, x.size), y.dram_stride, pads, value)
    else:
        yield from _pieces_around(to, sram, dram, y, x)


def _loaded(
    sram: int,
    dram: int | None,
    size: tuple[int, int],
    x_stride: int,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    value: int = 0,
) -> Piece:
    """A LOAD of (rows, columns); pads: above, below, left, right."""
    (y_size, x_size), (above, below, left, right) = size, pads
    end = sram + (above + y_size + below) * (left + x_size + right)
    reach = (y_size - 1) * x_stride + x_size
    return Piece(sram, end, dram, reach, (*size, x_stride, *pads, value))


def _stored(sram: int, dram: int, size: tuple[int, int], x_stride: int) -> Piece:
    """A STORE of (rows, columns)."""
    y_size, x_size = size
    reach = (y_size - 1) * x_stride + x_size
    return Piece(sram, sram + y_size * x_size, dram, reach, (*size, x_stride))


def _can_pad(to: Loading, y: CopyAxis, x: CopyAxis) -> bool:
    if max(y.pad_0, y.pad_1, x.pad_0, x.pad_1) > MAX_PAD:
        return False
    return to.pad_value == 0 or not _has_pads(y, x) or to.any_value


def _pieces_around(to: Loading, sram: int, dram: int, y: CopyAxis, x: CopyAxis) -> Iterator[Piece]:
    """The block without pads, then its pads from the constant."""
    row_tiles = y.sram_stride if y.length > 1 else x.length
    first = sram + y.pad_0 * row_tiles
    yield from _pads(sram, y.pad_0 * row_tiles)
    if x.length == x.size and x.gap == 0:
        yield _loaded(first, dram, (y.size, x.size), y.dram_stride)
    elif to.memory is Memory.INP and x.gap == 0 and max(x.pad_0, x.pad_1) <= MAX_PAD:
        yield from _patched_pieces(first, dram, y, x)
    else:
        for row in range(y.size):
            start = first + row * row_tiles
            yield from _pads(start, x.pad_0)
            place = dram + row * y.dram_stride
            yield _loaded(start + x.pad_0, place, (1, x.size), x.size)
            yield from _pads(start + x.pad_0 + x.size, x.pad_1)
    if y.pad_1:
        yield from _pads(first + y.size * row_tiles, (y.pad_1 - 1) * row_tiles + x.length)


def _patched_pieces(sram: int, dram: int, y: CopyAxis, x: CopyAxis) -> Iterator[Piece]:
    """Rows with zeros as their pads, in one LOAD; then the pads, those between two rows at
    once."""
    yield _loaded(sram, dram, (y.size, x.size), y.dram_stride, (0, 0, x.pad_0, x.pad_1))
    yield from _pads(sram, x.pad_0)
    for row in range(1, y.size + 1):
        between = x.pad_1 + (x.pad_0 if row < y.size else 0)
        yield from _pads(sram + row * x.length - x.pad_1, between)


def _pads(sram: int, tiles: int) -> Iterator[Piece]:
    """`tiles` times the same tile of DRAM: a stride of 0."""
    if tiles:
        yield _loaded(sram, None, (tiles, 1), 0)


def _has_pads(y: CopyAxis, x: CopyAxis) -> bool:
    return bool(y.pad_0 or y.pad_1 or x.pad_0 or x.pad_1)


# --- blocks of a copy -----------------------------------------------------------------------------
def _blocks(
    loops: Sequence[CopyLoop],
) -> Iterator[tuple[int, int, CopyAxis, CopyAxis]]:
    """A copy as 2-D blocks: (first tile in the scratchpad, first data tile in DRAM, rows,
    columns)."""
    axes: list[CopyAxis] = []
    outside = False
    sram = dram = 0
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
        left = turn
        for axis in reversed(axes):
            left, position = divmod(left, axis.size)
            sram += position * axis.sram_stride
            dram += position * axis.dram_stride
        yield sram, dram
