# SPDX-License-Identifier: Apache-2.0
"""What kernels call: one method per intrinsic, appending operations on virtual tiles.

In:   calls of from_tir.py and from_nests.py, with concrete tile indices, strides in tiles, and
      clipped loops.
Out:  `operations`: the stream of stream/operations.py, and the pad constants that its loads read.
Next: operators/kernels.py hands them on; passes/allocate/allocate.py places the virtual tiles.

Every number is known here, so loops are clipped (clipped_loops.py), and copies cut into pieces with
their pads (copy_pieces.py). Here both get their tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.kernels.clipped_loops import ComputeLoop, TileOperand, clipped_nest
from loadstone.vta.kernels.copy_pieces import (
    CopyLoop,
    Loading,
    Piece,
    load_pieces,
    store_pieces,
)
from loadstone.vta.stream.operations import (
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

__all__ = ["ALU", "PAD_TENSOR", "Emitter"]

#: The device's ALU operation of an intrinsic.
ALU = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX, "shr": AluOp.SHR}
#: The constant of one INP tile that holds a pad value in every lane, for pads that a LOAD cannot
#: make itself.
PAD_TENSOR = "pad.{}"


class Emitter:
    """Collects the operations of one operator."""

    def __init__(self, config: HwConfig, sizes: Mapping[str, int]) -> None:
        """sizes: DRAM tensors and how many tiles they have."""
        self._sizes = sizes
        self._pads_any_value = config.has(Capability.CONFIG)
        self.operations: list[Operation] = []
        self.pad_values: set[int] = set()

    def tile(self, memory: Memory, size_tiles: int, name: str) -> VirtualTile:
        """A new life of a scratchpad buffer."""
        return VirtualTile(memory, size_tiles, name)

    # --- compute ----------------------------------------------------------------------------------
    def gemm(
        self, dst: TileOperand, src: TileOperand, wgt: TileOperand, loops: tuple[ComputeLoop, ...]
    ) -> None:
        """acc[dst] += inp[src] * wgt[wgt]."""
        nest = clipped_nest(loops, 3)
        if nest is not None:
            to, of, by = nest.paths
            self.operations.append(
                GemmNest(nest.extents, to.access(dst), of.access(src), by.access(wgt))
            )

    def fill(self, dst: TileOperand, value: int, loops: tuple[ComputeLoop, ...]) -> None:
        """acc[dst] = value."""
        nest = clipped_nest(loops, 1)
        if nest is not None:
            (to,) = nest.paths
            self.operations.append(FillNest(nest.extents, to.access(dst), value))

    def alu_immediate(
        self, op: AluOp, dst: TileOperand, value: int, loops: tuple[ComputeLoop, ...]
    ) -> None:
        """acc[dst] = op(acc[dst], value)."""
        nest = clipped_nest(loops, 1)
        if nest is not None:
            (to,) = nest.paths
            self.operations.append(AluNest(op, nest.extents, to.access(dst), None, value))

    def alu(
        self, op: AluOp, dst: TileOperand, src: TileOperand, loops: tuple[ComputeLoop, ...]
    ) -> None:
        """acc[dst] = op(acc[dst], acc[src])."""
        nest = clipped_nest(loops, 2)
        if nest is not None:
            to, of = nest.paths
            self.operations.append(AluNest(op, nest.extents, to.access(dst), of.access(src)))

    def requantize(
        self,
        dst: TileOperand,
        operands: TileOperand,
        target: tuple[int, int, int, int],
        loops: tuple[ComputeLoop, ...],
    ) -> None:
        """acc[dst] = clamp(requantize(acc[dst] + bias, multiplier, shift) + zero_point, low, high).
        target: (zero_point, low, high, rounding)."""
        nest = clipped_nest(loops, 2)
        if nest is not None:
            to, of = nest.paths
            zero_point, low, high, rounding = target
            self.operations.append(
                RequantizeNest(
                    nest.extents,
                    to.access(dst),
                    of.access(operands, REQUANTIZE_TILES),
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
        loops: tuple[CopyLoop, ...],
    ) -> None:
        """DRAM -> scratchpad. src: where the emitted code's tile 0 is, and the tile from there."""
        to = Loading(memory, pad_value, self._pads_any_value)
        self.load_pieces(to, dst, src, load_pieces(to, loops))

    def load_pieces(
        self, to: Loading, dst: TileOperand, src: tuple[DramTile, int], pieces: Sequence[Piece]
    ) -> None:
        """As `load`, of loops that were cut into pieces."""
        (tile, offset), (tensor, dram_tile), memory = dst, src, to.memory
        for piece in pieces:
            if piece.dram is None:
                self.pad_values.add(to.pad_value)
                place = DramTile(PAD_TENSOR.format(to.pad_value), 0)
            else:
                place = DramTile(tensor.tensor, tensor.tile + dram_tile + piece.dram, tensor.role)
            first = self._inside(tile, offset, piece, place)
            self.operations.append(TileLoad(memory, tile, first, place, *piece.fields))

    def store(
        self, src: TileOperand, dst: tuple[DramTile, int], loops: tuple[CopyLoop, ...]
    ) -> None:
        """Scratchpad -> DRAM, low 8 bits."""
        self.store_pieces(src, dst, store_pieces(loops))

    def store_pieces(
        self, src: TileOperand, dst: tuple[DramTile, int], pieces: Sequence[Piece]
    ) -> None:
        """As `store`, of loops that were cut into pieces."""
        (tile, offset), (tensor, dram_tile) = src, dst
        for piece in pieces:
            assert piece.dram is not None
            place = DramTile(tensor.tensor, tensor.tile + dram_tile + piece.dram, tensor.role)
            first = self._inside(tile, offset, piece, place)
            self.operations.append(TileStore(tile, first, place, *piece.fields))

    def _inside(self, tile: VirtualTile, offset: int, piece: Piece, place: DramTile) -> int:
        """The first tile of a piece that stays inside its tile and its tensor. offset: of the whole
        copy in the tile."""
        first, end = offset + piece.first, offset + piece.end
        if first < 0 or end > tile.size_tiles:
            raise LoweringError(
                f"emitter: tiles [{first}, {end}) leave {tile.name} of {tile.size_tiles} tiles"
            )
        end = place.tile + piece.reach
        if place.tile < 0 or end > self._sizes.get(place.tensor, end):
            raise LoweringError(
                f"emitter: tiles [{place.tile}, {end}) leave DRAM tensor {place.tensor}"
            )
        return first
