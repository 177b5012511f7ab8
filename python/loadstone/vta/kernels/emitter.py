# SPDX-License-Identifier: Apache-2.0
"""What kernels append to: the stream of one operator, on virtual tiles.

In:   operations of from_nests.py; copies, cut into pieces with their pads (copy_pieces.py).
Out:  `operations`: the stream of stream/operations.py, and the pad constants that its loads read.
Next: operators/kernels.py hands them on; passes/allocate/allocate.py places the virtual tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.kernels.clipped_loops import TileOperand
from loadstone.vta.kernels.copy_pieces import Loading, Piece
from loadstone.vta.stream.operations import DramTile, Operation, TileLoad, TileStore, VirtualTile

__all__ = ["ALU", "PAD_TENSOR", "Emitter"]

#: The device's ALU operation of a step.
ALU = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX, "shr": AluOp.SHR}
#: The constant of one INP tile that holds a pad value in every lane, for pads that a LOAD cannot
#: make itself.
PAD_TENSOR = "pad.{}"


class Emitter:
    """Collects the operations of one operator."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """sizes: DRAM tensors and how many tiles they have."""
        self._sizes = sizes
        self.operations: list[Operation] = []
        self.pad_values: set[int] = set()

    def tile(self, memory: Memory, size_tiles: int, name: str) -> VirtualTile:
        """A new life of a scratchpad buffer."""
        return VirtualTile(memory, size_tiles, name)

    def load(
        self, to: Loading, dst: TileOperand, src: tuple[DramTile, int], pieces: Sequence[Piece]
    ) -> None:
        """DRAM -> scratchpad. src: where the emitted kernel's tile 0 is, and the tile from there.
        pieces: of copy_pieces.py."""
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
        self,
        src: TileOperand,
        dst: tuple[DramTile, int],
        pieces: Sequence[Piece],
        *,
        whole: bool = False,
    ) -> None:
        """Scratchpad -> DRAM, low 8 bits, or whole lanes."""
        (tile, offset), (tensor, dram_tile) = src, dst
        for piece in pieces:
            assert piece.dram is not None
            place = DramTile(tensor.tensor, tensor.tile + dram_tile + piece.dram, tensor.role)
            first = self._inside(tile, offset, piece, place)
            y_size, x_size, x_stride = piece.fields
            self.operations.append(
                TileStore(tile, first, place, y_size, x_size, x_stride, whole=whole)
            )

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
