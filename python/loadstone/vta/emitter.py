# SPDX-License-Identifier: Apache-2.0
"""What the emitted Python calls: one method per intrinsic, appending operations on virtual tiles.

In:   calls from the source that lower.py makes, with concrete tile indices, strides in tiles, and
      clipped loops.
Out:  `operations`: the stream of stream.py, and the pad constants that its loads read.
Next: operators/kernels.py hands them on; allocate.py places the virtual tiles.

Every number is known here, so loops are clipped (clipped_loops.py) and pads made: by the LOAD where
its fields can, else from a constant in DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.clipped_loops import (
    SINGLE,
    ComputeLoop,
    CopyAxis,
    CopyLoop,
    TileOperand,
    clipped_nest,
    copy_blocks,
)
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.insn import KINDS
from loadstone.vta.isa.spec import AluOp, Capability, Memory, Opcode
from loadstone.vta.stream import (
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["PAD_TENSOR", "Emitter"]

#: The constant of one INP tile that holds a pad value in every lane, for pads that a LOAD cannot
#: make itself.
PAD_TENSOR = "pad.{}"
#: Tiles that a pad field of LOAD can hold on each side; its width is the same on every device.
MAX_PAD = min(
    (1 << int(field.width)) - 1 for field in KINDS[Opcode.LOAD].fields if "_pad_" in field.name
)
#: Bias, multiplier, shift.
OPERAND_TILES = 3
#: What is loaded without pads: real hardware has none for WGT, and operand tiles have no border.
_UNPADDED = (Memory.WGT, Memory.ACC)


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
        self, dst: TileOperand, src: TileOperand, wgt: TileOperand, loops: Sequence[ComputeLoop]
    ) -> None:
        """acc[dst] += inp[src] * wgt[wgt]."""
        nest = clipped_nest(loops, (dst, src, wgt))
        if nest is not None:
            self.operations.append(
                GemmNest(nest.extents, nest.access(0), nest.access(1), nest.access(2))
            )

    def fill(self, dst: TileOperand, value: int, loops: Sequence[ComputeLoop]) -> None:
        """acc[dst] = value."""
        nest = clipped_nest(loops, (dst,))
        if nest is not None:
            self.operations.append(FillNest(nest.extents, nest.access(0), value))

    def alu_immediate(
        self, op: AluOp, dst: TileOperand, value: int, loops: Sequence[ComputeLoop]
    ) -> None:
        """acc[dst] = op(acc[dst], value)."""
        nest = clipped_nest(loops, (dst,))
        if nest is not None:
            self.operations.append(AluNest(op, nest.extents, nest.access(0), None, value))

    def alu(
        self, op: AluOp, dst: TileOperand, src: TileOperand, loops: Sequence[ComputeLoop]
    ) -> None:
        """acc[dst] = op(acc[dst], acc[src])."""
        nest = clipped_nest(loops, (dst, src))
        if nest is not None:
            self.operations.append(AluNest(op, nest.extents, nest.access(0), nest.access(1)))

    def requantize(
        self,
        dst: TileOperand,
        operands: TileOperand,
        target: tuple[int, int, int, int],
        loops: Sequence[ComputeLoop],
    ) -> None:
        """acc[dst] = clamp(requantize(acc[dst] + bias, multiplier, shift) + zero_point, low, high).
        target: (zero_point, low, high, rounding)."""
        nest = clipped_nest(loops, (dst, operands))
        if nest is not None:
            zero_point, low, high, rounding = target
            self.operations.append(
                RequantizeNest(
                    nest.extents,
                    nest.access(0),
                    nest.access(1, OPERAND_TILES),
                    zero_point,
                    low,
                    high,
                    Rounding(rounding),
                )
            )

    # --- copies -----------------------------------------------------------------------------------
    def load(
        self,
        memory: Memory,
        dst: TileOperand,
        src: tuple[DramTile, int],
        pad_value: int,
        loops: Sequence[CopyLoop],
    ) -> None:
        """DRAM -> scratchpad. src: where the emitted code's tile 0 is, and the tile from there."""
        (tile, offset), (tensor, dram_tile) = dst, src
        target = _LoadTarget(memory, tile, pad_value)
        for sram, dram, y, x in copy_blocks(loops, offset, tensor.tile + dram_tile):
            if memory in _UNPADDED and _has_pads(y, x):
                raise LoweringError(f"emitter: a load of {memory.name} tile {tile.name} has pads")
            self._load_block(target, sram, DramTile(tensor.tensor, dram), y, x)

    def store(self, src: TileOperand, dst: tuple[DramTile, int], loops: Sequence[CopyLoop]) -> None:
        """Scratchpad -> DRAM, low 8 bits. Rows that are clipped are not packed in the scratchpad:
        one STORE each."""
        (tile, offset), (tensor, dram_tile) = src, dst
        for sram, dram, y, x in copy_blocks(loops, offset, tensor.tile + dram_tile):
            if y.length != y.size or x.length != x.size:
                raise LoweringError(f"emitter: a store of tile {tile.name} has pads")
            if y.size == 1 or x.gap == 0:
                self._copy(
                    TileStore(
                        tile, sram, DramTile(tensor.tensor, dram), y.size, x.size, y.dram_stride
                    )
                )
                continue
            for row in range(y.size):
                place = DramTile(tensor.tensor, dram + row * y.dram_stride)
                self._copy(TileStore(tile, sram + row * y.sram_stride, place, 1, x.size, x.size))

    def _copy(self, operation: TileLoad | TileStore) -> None:
        """Appends a copy that stays inside its tile and its tensor."""
        o = operation
        pads = (o.y_pad_0 + o.y_pad_1, o.x_pad_0 + o.x_pad_1) if isinstance(o, TileLoad) else (0, 0)
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
        self, to: _LoadTarget, sram: int, dram: DramTile, y: CopyAxis, x: CopyAxis
    ) -> None:
        """One 2-D block; where LOAD cannot make the pads, they come from a constant in DRAM."""
        if y.size <= 0 or x.size <= 0:
            for row in range(y.length):
                self._load_pads(to, sram + row * y.sram_stride, x.length)
        elif (
            y.length > 1 and x.gap and (x.pad_1 + x.gap > MAX_PAD or to.memory in _UNPADDED)
        ):  # a clipped row is not packed: one LOAD each
            for row in range(y.length):
                place = DramTile(dram.tensor, dram.tile + (row - y.pad_0) * y.dram_stride)
                if y.pad_0 <= row < y.pad_0 + y.size:
                    self._load_block(to, sram + row * y.sram_stride, place, SINGLE, x)
                else:
                    self._load_pads(to, sram + row * y.sram_stride, x.length)
        elif self._can_pad(y, x, to.pad_value):
            x_pad_1 = (
                x.pad_1 + x.gap if y.length > 1 else x.pad_1
            )  # what the gap holds is never read: let the pad fill it
            pads = (y.pad_0, y.pad_1, x.pad_0, x_pad_1)
            value = to.pad_value if _has_pads(y, x) else 0
            self._copy(to.load(sram, dram, y.size, x.size, y.dram_stride, *pads, value))
        else:
            self._load_around(to, sram, dram, y, x)

    def _can_pad(self, y: CopyAxis, x: CopyAxis, pad_value: int) -> bool:
        if max(y.pad_0, y.pad_1, x.pad_0, x.pad_1) > MAX_PAD:
            return False
        return pad_value == 0 or not _has_pads(y, x) or self.config.has(Capability.CONFIG)

    def _load_around(
        self, to: _LoadTarget, sram: int, dram: DramTile, y: CopyAxis, x: CopyAxis
    ) -> None:
        """The block without pads, then its pads from the constant."""
        row_tiles = y.sram_stride if y.length > 1 else x.length
        if y.pad_0:
            self._load_pads(to, sram, y.pad_0 * row_tiles)
        if x.length == x.size and x.gap == 0:
            first = sram + y.pad_0 * row_tiles
            self._copy(to.load(first, dram, y.size, x.size, y.dram_stride))
        elif to.memory is Memory.INP and x.gap == 0 and max(x.pad_0, x.pad_1) <= MAX_PAD:
            self._load_patched(to, sram + y.pad_0 * row_tiles, dram, y, x)
        else:
            for row in range(y.size):
                start = sram + (y.pad_0 + row) * row_tiles
                self._load_pads(to, start, x.pad_0)
                place = DramTile(dram.tensor, dram.tile + row * y.dram_stride)
                self._copy(to.load(start + x.pad_0, place, 1, x.size, x.size))
                self._load_pads(to, start + x.pad_0 + x.size, x.pad_1)
        if y.pad_1:
            start = sram + (y.pad_0 + y.size) * row_tiles
            self._load_pads(to, start, (y.pad_1 - 1) * row_tiles + x.length)

    def _load_patched(
        self, to: _LoadTarget, sram: int, dram: DramTile, y: CopyAxis, x: CopyAxis
    ) -> None:
        """Rows with zeros as their pads, in one LOAD; then the pads, those between two rows at
        once."""
        load = to.load(sram, dram, y.size, x.size, y.dram_stride)
        self._copy(replace(load, x_pad_0=x.pad_0, x_pad_1=x.pad_1))
        self._load_pads(to, sram, x.pad_0)
        for row in range(1, y.size + 1):
            between = x.pad_1 + (x.pad_0 if row < y.size else 0)
            self._load_pads(to, sram + row * x.length - x.pad_1, between)

    def _load_pads(self, to: _LoadTarget, sram: int, tiles: int) -> None:
        """`tiles` times the same tile of DRAM: a stride of 0."""
        if tiles:
            self.pad_values.add(to.pad_value)
            self._copy(to.load(sram, DramTile(PAD_TENSOR.format(to.pad_value), 0), tiles, 1, 0))


@dataclass(frozen=True, slots=True)
class _LoadTarget:
    """What the loads of one copy have in common."""

    memory: Memory
    tile: VirtualTile
    pad_value: int

    def load(self, sram: int, dram: DramTile, *fields: int) -> TileLoad:
        """A block; fields: y_size, x_size and x_stride, then pads and their value where it has
        any."""
        return TileLoad(self.memory, self.tile, sram, dram, *fields)


def _has_pads(y: CopyAxis, x: CopyAxis) -> bool:
    return bool(y.pad_0 or y.pad_1 or x.pad_0 or x.pad_1)
