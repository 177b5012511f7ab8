# SPDX-License-Identifier: Apache-2.0
"""A convolution in tiles: what its schedule is made from.

In:   integers that operators/ work out.
Out:  ConvSpec, frozen: equal ones are lowered once.
Next: conv.py chooses its tiles, conv_computation.py says what it computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Step

__all__ = ["PIXEL", "ConvSpec", "Edge", "Operands"]

Operands: TypeAlias = Literal["channel", "pixel", "all"]


@dataclass(frozen=True)
class Edge:
    """Output pixels that lack the same taps where padding is not multiplied, and the products that
    add the contribution of the padding instead.

    rows, columns: [first, end).
    products: (constant input tile, weight tile of the channel block).
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    products: tuple[tuple[int, int], ...]

    @property
    def size(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]


@dataclass(frozen=True)
class ConvSpec:
    """A convolution in tiles. samples: N / batch. in_blocks, out_blocks: of one group. padding:
    (top, left), read as pad_value.

    The bottom and right padding follow from the sizes; a negative padding leaves pixels out.
    operands: what the requantization depends on. edges: where padding is read as 0, though it is
    not: what is added instead. planes: how many bytes of each accumulator are stored, lowest first;
    behind the tail, whose result they are. by_lane: of a depthwise convolution, each block of
    channels has a single weight tile, for all taps, which DEPTHWISE takes in one step. whole: each
    accumulator is stored with all its bits.
    """

    samples: int
    groups: int
    in_blocks: int
    out_blocks: int
    input: tuple[int, int]
    output: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    pad_value: int
    parts: int
    shared_weights: bool
    tail: tuple[Step, ...]
    operands: Operands = "channel"
    chosen: tuple[tuple[int, ...], str] | None = None  # sizes and order, as tile.given takes them
    edges: tuple[Edge, ...] = ()
    planes: int = 1
    by_lane: bool = False
    whole: bool = False

    @property
    def operand_rows(self) -> int:
        """Operand tiles per channel block (or pixel) that the tail reads."""
        return epilogues.operand_rows(self.tail)

    @property
    def product_rows(self) -> int:
        """The number of constant weight tiles per channel block that the epilogue reads."""
        return epilogues.product_rows(self.tail)

    @property
    def edge_inputs(self) -> int:
        """Constant input tiles that the edges read."""
        return max((one + 1 for edge in self.edges for one, _ in edge.products), default=0)

    @property
    def edge_tiles(self) -> int:
        """The number of constant weight tiles per channel block that the edges read."""
        return max((tile + 1 for edge in self.edges for _, tile in edge.products), default=0)

    @property
    def row_step(self) -> int:
        """Input rows between output rows as they lie in the scratchpad: a kernel of one row loads
        only the rows that it reads."""
        return 1 if self.kernel[0] == 1 else self.strides[0]

    @property
    def window(self) -> tuple[int, int]:
        """Pixels that one output pixel needs, with dilation."""
        return self.dilation[0] * (self.kernel[0] - 1) + 1, self.dilation[1] * (
            self.kernel[1] - 1
        ) + 1

    @property
    def padded_size(self) -> tuple[int, int]:
        """Rows and columns that the whole output needs in the scratchpad."""
        rows, columns = self.output
        return (rows - 1) * self.row_step + self.window[0], (columns - 1) * self.strides[
            1
        ] + self.window[1]


#: A product of one block of channels, at one pixel.
PIXEL = ConvSpec(
    samples=1,
    groups=1,
    in_blocks=1,
    out_blocks=1,
    input=(1, 1),
    output=(1, 1),
    kernel=(1, 1),
    strides=(1, 1),
    dilation=(1, 1),
    padding=(0, 0),
    pad_value=0,
    parts=1,
    shared_weights=False,
    tail=(),
)
