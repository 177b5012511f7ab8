"""What the emitted Python calls: one method per intrinsic, appending operations on virtual tiles.

In:   calls from the source that lower.py makes, with concrete tile indices, strides in tiles, and
      clipped loops.
Out:  `operations`: the stream of stream.py, and the pad constants that its loads read.
Next: operators/ hands them on; allocate.py places the virtual tiles.

A loop of a compute intrinsic is (extent, first, last, stride per operand); one of a copy is
(extent, first, last, inside_first, inside_last, stride in the scratchpad, stride in DRAM). Clipping
is done here, where every number is known: at a border a loop gets shorter and a copy gets pads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import prod

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.stream import (
    Access,
    Alu,
    DramTile,
    Fill,
    Gemm,
    Load,
    Operation,
    Requantize,
    Store,
    VirtualTile,
)

__all__ = ["PAD_TENSOR", "Emitter"]

#: The constant of one INP tile that holds a pad value in every lane, for pads that a LOAD cannot
#: make itself.
PAD_TENSOR = "pad.{}"
#: LOAD's pad fields have 4 bits.
MAX_PAD = 15
#: Bias, multiplier, shift.
OPERAND_TILES = 3
#: What is loaded without pads: real hardware has none for WGT, and operand tiles have no border.
_UNPADDED = (Memory.WGT, Memory.ACC)

ComputeLoop = tuple[int, ...]
CopyLoop = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Axis:
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
        return self.pad_0 + self.size + self.pad_1

    @property
    def is_plain(self) -> bool:
        return self.pad_0 == self.pad_1 == self.gap == 0


class Emitter:
    """Collects the operations of one operator."""

    def __init__(self, config: HwConfig, sizes: Mapping[str, int]) -> None:
        """sizes: DRAM tensors and how many tiles they have."""
        self.config = config
        self._sizes = sizes
        self.operations: list[Operation] = []
        self.pad_values: set[int] = set()

    def tile(self, memory: Memory, size_tiles: int, name: str) -> VirtualTile:
        """A new life of a scratchpad buffer."""
        return VirtualTile(memory, size_tiles, name)

    # --- compute ----------------------------------------------------------------------------------
    def gemm(
        self,
        dst: VirtualTile,
        dst_base: int,
        src: VirtualTile,
        src_base: int,
        wgt: VirtualTile,
        wgt_base: int,
        loops: Sequence[ComputeLoop],
    ) -> None:
        """acc[dst] += inp[src] * wgt[wgt]."""
        nest = _nest(loops, (dst_base, src_base, wgt_base))
        if nest is not None:
            extents, bases, strides = nest
            self.operations.append(
                Gemm(extents, *map(_access, repeat(extents), (dst, src, wgt), bases, strides))
            )

    def fill(
        self, dst: VirtualTile, dst_base: int, value: int, loops: Sequence[ComputeLoop]
    ) -> None:
        """acc[dst] = value."""
        nest = _nest(loops, (dst_base,))
        if nest is not None:
            extents, bases, strides = nest
            self.operations.append(
                Fill(extents, _access(extents, dst, bases[0], strides[0]), value)
            )

    def alu_immediate(
        self, op: AluOp, dst: VirtualTile, dst_base: int, value: int, loops: Sequence[ComputeLoop]
    ) -> None:
        """acc[dst] = op(acc[dst], value)."""
        nest = _nest(loops, (dst_base,))
        if nest is not None:
            extents, bases, strides = nest
            self.operations.append(
                Alu(op, extents, _access(extents, dst, bases[0], strides[0]), None, value)
            )

    def alu(
        self,
        op: AluOp,
        dst: VirtualTile,
        dst_base: int,
        src: VirtualTile,
        src_base: int,
        loops: Sequence[ComputeLoop],
    ) -> None:
        """acc[dst] = op(acc[dst], acc[src])."""
        nest = _nest(loops, (dst_base, src_base))
        if nest is not None:
            extents, bases, strides = nest
            target, source = map(_access, repeat(extents), (dst, src), bases, strides)
            self.operations.append(Alu(op, extents, target, source))

    def requantize(
        self,
        dst: VirtualTile,
        dst_base: int,
        operands: VirtualTile,
        base: int,
        zero_point: int,
        low: int,
        high: int,
        rounding: int,
        loops: Sequence[ComputeLoop],
    ) -> None:
        """acc[dst] = clamp(requantize(acc[dst] + bias, multiplier, shift) + zero_point, low,
        high)."""
        nest = _nest(loops, (dst_base, base))
        if nest is not None:
            extents, bases, strides = nest
            accesses = (
                _access(extents, dst, bases[0], strides[0]),
                _access(extents, operands, bases[1], strides[1], OPERAND_TILES),
            )
            self.operations.append(
                Requantize(extents, *accesses, zero_point, low, high, Rounding(rounding))
            )

    # --- copies -----------------------------------------------------------------------------------
    def load(
        self,
        memory: Memory,
        tile: VirtualTile,
        offset: int,
        tensor: DramTile,
        dram_tile: int,
        pad_value: int,
        loops: Sequence[CopyLoop],
    ) -> None:
        """DRAM -> scratchpad. tensor: where the emitted code's tile 0 is."""
        for sram, dram, y, x in _blocks(loops, offset, tensor.tile + dram_tile):
            if memory in _UNPADDED and (y.pad_0 or y.pad_1 or x.pad_0 or x.pad_1):
                raise LoweringError(f"emitter: a load of {memory.name} tile {tile.name} has pads")
            self._load_block(memory, tile, sram, DramTile(tensor.tensor, dram), y, x, pad_value)

    def store(
        self,
        tile: VirtualTile,
        offset: int,
        tensor: DramTile,
        dram_tile: int,
        loops: Sequence[CopyLoop],
    ) -> None:
        """Scratchpad -> DRAM, low 8 bits. Rows that are clipped are not packed in the scratchpad:
        one STORE each."""
        for sram, dram, y, x in _blocks(loops, offset, tensor.tile + dram_tile):
            if y.length != y.size or x.length != x.size:
                raise LoweringError(f"emitter: a store of tile {tile.name} has pads")
            if y.size == 1 or x.gap == 0:
                self._copy(
                    Store(tile, sram, DramTile(tensor.tensor, dram), y.size, x.size, y.dram_stride)
                )
                continue
            for row in range(y.size):
                place = DramTile(tensor.tensor, dram + row * y.dram_stride)
                self._copy(Store(tile, sram + row * y.sram_stride, place, 1, x.size, x.size))

    def _copy(self, operation: Load | Store) -> None:
        """Appends a copy that stays inside its tile and its tensor."""
        o = operation
        pads = (o.y_pad_0 + o.y_pad_1, o.x_pad_0 + o.x_pad_1) if isinstance(o, Load) else (0, 0)
        end = o.offset + (o.y_size + pads[0]) * (o.x_size + pads[1])
        if o.offset < 0 or end > o.tile.size_tiles:
            raise LoweringError(
                f"emitter: tiles [{o.offset}, {end}) leave {o.tile.name} of "
                f"{o.tile.size_tiles} tiles"
            )
        end = o.dram.tile + (o.y_size - 1) * o.x_stride + o.x_size
        if o.dram.tile < 0 or end > self._sizes.get(o.dram.tensor, end):
            raise LoweringError(
                f"emitter: tiles [{o.dram.tile}, {end}) leave DRAM tensor {o.dram.tensor}"
            )
        self.operations.append(operation)

    def _load_block(
        self,
        memory: Memory,
        tile: VirtualTile,
        sram: int,
        dram: DramTile,
        y: _Axis,
        x: _Axis,
        pad_value: int,
    ) -> None:
        """One 2-D block; where LOAD cannot make the pads, they come from a constant in DRAM."""
        if y.size <= 0 or x.size <= 0:
            for row in range(y.length):
                self._load_pads(memory, tile, sram + row * y.sram_stride, x.length, pad_value)
        elif (
            y.length > 1 and x.gap and (x.pad_1 + x.gap > MAX_PAD or memory in _UNPADDED)
        ):  # a clipped row is not packed: one LOAD each
            for row in range(y.length):
                place = DramTile(dram.tensor, dram.tile + (row - y.pad_0) * y.dram_stride)
                if y.pad_0 <= row < y.pad_0 + y.size:
                    self._load_block(
                        memory, tile, sram + row * y.sram_stride, place, _SINGLE, x, pad_value
                    )
                else:
                    self._load_pads(memory, tile, sram + row * y.sram_stride, x.length, pad_value)
        elif self._can_pad(y, x, pad_value):
            x_pad_1 = (
                x.pad_1 + x.gap if y.length > 1 else x.pad_1
            )  # what the gap holds is never read: let the pad fill it
            self._copy(
                Load(
                    memory,
                    tile,
                    sram,
                    dram,
                    y.size,
                    x.size,
                    y.dram_stride,
                    y.pad_0,
                    y.pad_1,
                    x.pad_0,
                    x_pad_1,
                    pad_value if _has_pads(y, x) else 0,
                )
            )
        else:
            self._load_around(memory, tile, sram, dram, y, x, pad_value)

    def _can_pad(self, y: _Axis, x: _Axis, pad_value: int) -> bool:
        if max(y.pad_0, y.pad_1, x.pad_0, x.pad_1) > MAX_PAD:
            return False
        return pad_value == 0 or not _has_pads(y, x) or self.config.has(Capability.CONFIG)

    def _load_around(
        self,
        memory: Memory,
        tile: VirtualTile,
        sram: int,
        dram: DramTile,
        y: _Axis,
        x: _Axis,
        pad_value: int,
    ) -> None:
        """The block without pads, then its pads from the constant."""
        row_tiles = y.sram_stride if y.length > 1 else x.length
        if y.pad_0:
            self._load_pads(memory, tile, sram, y.pad_0 * row_tiles, pad_value)
        if x.length == x.size and x.gap == 0:
            self._copy(
                Load(memory, tile, sram + y.pad_0 * row_tiles, dram, y.size, x.size, y.dram_stride)
            )
        else:
            for row in range(y.size):
                start = sram + (y.pad_0 + row) * row_tiles
                self._load_pads(memory, tile, start, x.pad_0, pad_value)
                self._copy(
                    Load(
                        memory,
                        tile,
                        start + x.pad_0,
                        DramTile(dram.tensor, dram.tile + row * y.dram_stride),
                        1,
                        x.size,
                        x.size,
                    )
                )
                self._load_pads(memory, tile, start + x.pad_0 + x.size, x.pad_1, pad_value)
        if y.pad_1:
            start = sram + (y.pad_0 + y.size) * row_tiles
            self._load_pads(memory, tile, start, (y.pad_1 - 1) * row_tiles + x.length, pad_value)

    def _load_pads(
        self, memory: Memory, tile: VirtualTile, sram: int, tiles: int, pad_value: int
    ) -> None:
        """`tiles` times the same tile of DRAM: a stride of 0."""
        if tiles:
            self.pad_values.add(pad_value)
            self._copy(
                Load(memory, tile, sram, DramTile(PAD_TENSOR.format(pad_value), 0), tiles, 1, 0)
            )


def _access(
    extents: tuple[int, ...], tile: VirtualTile, base: int, strides: tuple[int, ...], reach: int = 1
) -> Access:
    """An access that stays inside its tile; `reach`: tiles from the indexed one on that are
    read."""
    low = base + sum(
        (extent - 1) * min(stride, 0) for extent, stride in zip(extents, strides, strict=True)
    )
    high = (
        base
        + sum(
            (extent - 1) * max(stride, 0) for extent, stride in zip(extents, strides, strict=True)
        )
        + reach
    )
    if low < 0 or high > tile.size_tiles:
        raise LoweringError(
            f"emitter: tiles [{low}, {high}) leave {tile.name} of {tile.size_tiles} tiles"
        )
    return Access(tile, base, strides)


_SINGLE = _Axis(0, 1, 0, 0, 0, 0)


def _has_pads(y: _Axis, x: _Axis) -> bool:
    return bool(y.pad_0 or y.pad_1 or x.pad_0 or x.pad_1)


def _nest(
    loops: Sequence[ComputeLoop], bases: tuple[int, ...]
) -> tuple[tuple[int, ...], list[int], list[tuple[int, ...]]] | None:
    """Clips loops, drops those of one turn, joins those that are contiguous for every operand.
    None: nothing is executed."""
    starts = list(bases)
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
    return (
        extents,
        starts,
        [tuple(loop[1 + operand] for loop in joined) for operand in range(len(bases))],
    )


def _blocks(
    loops: Sequence[CopyLoop], sram: int, dram: int
) -> Iterator[tuple[int, int, _Axis, _Axis]]:
    """A copy as 2-D blocks: (first tile in the scratchpad, first data tile in DRAM, rows,
    columns)."""
    axes: list[_Axis] = []
    outside = False
    for extent, first, last, inside_first, inside_last, sram_stride, dram_stride in loops:
        if last <= first:
            return
        start, end = max(first, inside_first), min(last, inside_last)
        if end < start:  # all of it is padding
            start = end = first
        axis = _Axis(
            start - first, end - start, last - end, extent - last + first, sram_stride, dram_stride
        )
        sram += first * sram_stride
        dram += start * dram_stride
        if sram_stride == 0:  # a condition of the outer loops
            outside |= axis.size == 0
        elif not (axis.is_plain and axis.size == 1):
            axes.append(axis)
    axes.sort(key=lambda axis: -axis.sram_stride)
    joined: list[_Axis] = []
    for axis in axes:
        outer = joined[-1] if joined else None
        if (
            outer
            and outer.is_plain
            and axis.is_plain
            and (outer.sram_stride, outer.dram_stride)
            == (axis.size * axis.sram_stride, axis.size * axis.dram_stride)
        ):
            joined[-1] = _Axis(0, outer.size * axis.size, 0, 0, axis.sram_stride, axis.dram_stride)
        else:
            joined.append(axis)
    if not joined or joined[-1].sram_stride != 1 or joined[-1].dram_stride != 1:
        joined.append(_Axis(0, 1, 0, 0, 1, 1))
    x = joined.pop()
    if outside:
        x = _Axis(x.length, 0, 0, x.gap, x.sram_stride, x.dram_stride)
    packed = x.length + x.gap
    y = (
        joined.pop()
        if joined and joined[-1].sram_stride == packed
        else _Axis(0, 1, 0, 0, packed, packed)
    )
    for sram_offset, dram_offset in _turns(joined):
        yield sram + sram_offset, dram + dram_offset, y, x


def _turns(axes: list[_Axis]) -> Iterator[tuple[int, int]]:
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
