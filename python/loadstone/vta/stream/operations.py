# SPDX-License-Identifier: Apache-2.0
"""The static stream before it has addresses: operations on virtual tiles.

In:   kernels/from_nests.py appends these records, tile after tile, operator after operator.
Out:  a list of operations whose scratchpad operands are VirtualTiles and whose DRAM operands are
      (tensor name, tile).
Next: passes/allocate/allocate.py gives the virtual tiles scratchpad addresses and drops loads of
      what is still there; passes/encode/encode.py turns operations into instructions and micro-ops;
      passes/synchronize/synchronize.py adds the tokens.

An operation is a loop nest around one intrinsic; every operand is affine in the loops:

    for l in 0 .. extents:   acc[dst.base + sum l*dst.strides]  op=  operand[src.base + sum
                             l*src.strides]

Indices count tiles (of the operand's memory), relative to the virtual tile. Loops are outermost
first and all of extent >= 1;
a nest with no loops has extents (). Field widths are not a concern here: passes/encode/encode.py
splits what does not fit.

Records are never changed. They are not frozen because a network has some hundred thousand of them,
and creating a frozen dataclass takes three to seven times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias, final

from loadstone.numerics import Rounding
from loadstone.vta.isa.spec import AluOp, Memory

__all__ = [
    "Access",
    "AluNest",
    "DramTile",
    "FillNest",
    "GemmNest",
    "InpTiles",
    "LaneWindow",
    "Nest",
    "Operation",
    "RequantizeNest",
    "StoreRequantization",
    "TileLoad",
    "TileRole",
    "TileStore",
    "VirtualTile",
    "tiles_of",
]


@dataclass(eq=False, slots=True)
class VirtualTile:
    """One life of a scratchpad buffer: a new object for every turn of the loop that allocates it.
    memory: INP, WGT or ACC."""

    memory: Memory
    size_tiles: int
    name: str


class TileRole(Enum):
    """What tiles are to the operator that loads or stores them, where somebody behind its kernel
    has to tell them from others."""

    PLAIN = auto()
    #: Of a convolution: its int8 weights.
    WEIGHTS = auto()
    #: Of a convolution: the weight tiles of what its padding comes to (operators/edges.py).
    EDGES = auto()
    #: Where the GEMM core requantizes: parts of a sum, which go through DRAM to come back as input.
    DIGITS = auto()
    #: There, too: the input tile from whose products with weight tiles constants are made.
    CONSTANT = auto()


@dataclass(slots=True)
class DramTile:
    """A place in DRAM: tile number `tile` of the tensor or constant `tensor`, counted in tiles of
    the loading memory."""

    tensor: str
    tile: int
    role: TileRole = TileRole.PLAIN


@dataclass(slots=True)
class Access:
    """Tile index `base + sum(loop * stride)` inside a virtual tile."""

    tile: VirtualTile
    base: int
    strides: tuple[int, ...]


@final
@dataclass(slots=True)
class TileLoad:
    """DRAM -> scratchpad: y_size rows of x_size tiles, x_stride apart in DRAM, packed from `offset`
    on, with pads around.

    memory: INP, WGT, ACC, or ACC_8BIT (into an ACC tile, sign-extended). pad_value fills the pads
        (INP, ACC_8BIT).
    """

    memory: Memory
    tile: VirtualTile
    offset: int
    dram: DramTile
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    pad_value: int = 0

    @property
    def rows_columns(self) -> tuple[int, int]:
        """Of the tiles that it writes, pads included."""
        rows = self.y_pad_0 + self.y_size + self.y_pad_1
        return rows, self.x_pad_0 + self.x_size + self.x_pad_1

    @property
    def has_pads(self) -> bool:
        """Whether it writes anything that does not stand in DRAM."""
        return any((self.y_pad_0, self.y_pad_1, self.x_pad_0, self.x_pad_1))


@dataclass(slots=True)
class StoreRequantization:
    """How a store requantizes what it takes from ACC: as a RequantizeNest does.

    tile, offset: where the three operand tiles of the first row stand; step: tiles from those of
        one row to those of the next, 0 or 3.
    """

    tile: VirtualTile
    offset: int
    step: int
    zero_point: int
    low: int
    high: int
    rounding: Rounding


@dataclass(slots=True)
class InpTiles:
    """A place in INP where a store leaves what the GEMM core reads: from `offset` on in a tile."""

    tile: VirtualTile
    offset: int


@final
@dataclass(slots=True)
class TileStore:
    """Packed ACC tiles -> DRAM: y_size rows of x_size tiles, x_stride apart in DRAM; the low 8 bits
    of what they are, or of what requantization makes of them (passes/store_requantize/); with
    `whole` all 32 bits, in tiles of ACC.

    inp: where they go in the place of DRAM (passes/store_inp/); x_stride then counts there, and
        dram says what they are: where the first of them would stand.
    """

    tile: VirtualTile
    offset: int
    dram: DramTile
    y_size: int
    x_size: int
    x_stride: int
    requantization: StoreRequantization | None = None
    inp: InpTiles | None = None
    whole: bool = False

    @property
    def memory(self) -> Memory:
        """Whose tiles go, and where: OUT or ACC to DRAM, or those of INP."""
        if self.whole:
            return Memory.ACC
        return Memory.OUT if self.inp is None else Memory.INP


@final
@dataclass(frozen=True, slots=True)
class LaneWindow:
    """Rows of so many tiles of INP, so far apart, that a step of DEPTHWISE multiplies lane by
    lane. wide: the first tile of the last row is multiplied once more, by 128 times a weight."""

    rows: int
    columns: int
    row_stride: int
    wide: bool = False

    @property
    def reach(self) -> int:
        """From the first tile to the last."""
        return (self.rows - 1) * self.row_stride + self.columns - 1

    def move_of(self, stride: int) -> int:
        """New rows of the window where its first tile moves so far: all of them, or fewer where
        others of the window before are its own (isa/spec.py)."""
        moves = range(1, self.rows)
        return next((k for k in moves if stride == k * self.row_stride), self.rows)


@final
@dataclass(slots=True)
class GemmNest:
    """acc[dst] += inp[src] * wgt[wgt]; a loop with dst stride 0 is a reduction. With a window,
    acc[dst] += the window of inp from src on, lane by lane, times the weights in the lanes of
    wgt[wgt]; then every loop moves dst."""

    extents: tuple[int, ...]
    dst: Access
    src: Access
    wgt: Access
    window: LaneWindow | None = None


@final
@dataclass(slots=True)
class FillNest:
    """acc[dst] = value in every lane."""

    extents: tuple[int, ...]
    dst: Access
    value: int


@final
@dataclass(slots=True)
class AluNest:
    """acc[dst] = op(acc[dst], src or imm). op: MIN MAX ADD SHR MUL. src None: the immediate (16
    bits signed)."""

    op: AluOp
    extents: tuple[int, ...]
    dst: Access
    src: Access | None
    imm: int = 0


@final
@dataclass(slots=True)
class RequantizeNest:
    """acc[dst] = clamp(requantize(acc[dst] + bias, multiplier, shift) + zero_point, low, high).

    operands: bias, multiplier and shift stand in three consecutive ACC tiles from the access's tile
        on.
    """

    extents: tuple[int, ...]
    dst: Access
    operands: Access
    zero_point: int
    low: int
    high: int
    rounding: Rounding


#: What GEMM and ALU instructions do.
Nest: TypeAlias = GemmNest | FillNest | AluNest | RequantizeNest
Operation: TypeAlias = TileLoad | TileStore | Nest


def tiles_of(operation: Operation) -> tuple[VirtualTile, ...]:
    """The virtual tiles an operation touches."""
    # Asked of every operation by every pass: comparing classes takes a fifth of isinstance.
    if type(operation) is TileLoad:
        return (operation.tile,)
    if type(operation) is TileStore:
        by, to = operation.requantization, operation.inp
        others = (() if by is None else (by.tile,)) + (() if to is None else (to.tile,))
        return (operation.tile, *others)
    if type(operation) is GemmNest:
        return (operation.dst.tile, operation.src.tile, operation.wgt.tile)
    if type(operation) is FillNest:
        return (operation.dst.tile,)
    other = operation.operands if type(operation) is RequantizeNest else operation.src
    return (operation.dst.tile,) if other is None else (operation.dst.tile, other.tile)
