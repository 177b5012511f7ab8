"""Convolutions of every kind as TensorIR: a sum over weights on the blocked layout, then a tail.

In:   `ConvSpec`: extents, strides and padding in blocks and pixels; the tail.
Out:  a scheduled IRModule: tiled, with cache reads into the scratchpads.
Next: lower.py.

One sum serves many operators: dense layers (one pixel), depthwise (each group one block, weight
tiles diagonal), grouped (`groups` convolutions side by side), average pooling and copies (one
identity tile for all: `shared_weights`).

    x[n, s, c, y, x][batch, k]                              input, int8
    w[s, o, c, part, ky, kx][lane, k]                       weights, int8; parts are added up
    (weights of more than 8 bits)
    p[s, o, row][batch, lane]                               what the tail reads, int32 (or p[i, j,
    row], or p[row]: `operands`)
    one[0][batch, k], c[s, o, row][lane, k]                 constants that the tail adds as products
    acc[n, s, o, i, j][b, l] = sum x_padded[n, s, c, i*stride + ky*dilation, j*stride +
    kx*dilation][b, k] * w[...][l, k] out = int8(tail(acc, p))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from loadstone.vta.hw_config import HwConfig
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule import tile
from loadstone.vta.schedule.conv_writer import ConvWriter
from loadstone.vta.schedule.epilogue import Step, TieCorrection

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["PIXEL", "ConvSpec", "Operands", "nest", "schedule", "tiling"]

Operands: TypeAlias = Literal["channel", "pixel", "all"]


@dataclass(frozen=True)
class ConvSpec:
    """A convolution in tiles. samples: N / batch. in_blocks, out_blocks: of one group. padding:
    (top, left), read as pad_value.

    The bottom and right padding follow from the sizes; a negative padding leaves pixels out.
    operands: what the requantization depends on.
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

    @property
    def operand_rows(self) -> int:
        """Operand tiles per channel block (or pixel) that the tail reads."""
        return epilogues.operand_rows(self.tail)

    @property
    def product_rows(self) -> int:
        """Weight tiles of constants per channel block that the tail reads."""
        return epilogues.product_rows(self.tail)

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


def tiling(spec: ConvSpec, config: HwConfig) -> tile.Tiling:
    """Tile sizes and loop order for a spec: those that were chosen, or the cheapest."""
    if spec.chosen is not None:
        return tile.given(nest(spec), *spec.chosen, config)
    return tile.choose(nest(spec), config)


def nest(spec: ConvSpec) -> tile.WeightedNest:
    """The loops of a spec."""
    return tile.WeightedNest(
        samples=spec.samples,
        groups=spec.groups,
        out=spec.out_blocks,
        in_=spec.in_blocks,
        height=spec.output[0],
        width=spec.output[1],
        taps=spec.parts * spec.kernel[0] * spec.kernel[1],
        step=(spec.row_step, spec.strides[1]),
        window=spec.window,
        padded_rows=spec.padding[1] > 0
        or spec.padded_size[1] != spec.input[1]
        or spec.row_step != spec.strides[0],
        shared_weights=spec.shared_weights,
        operands=spec.operands,
        operand_rows=spec.operand_rows,
        product_rows=spec.product_rows,
        tail_steps=epilogues.tensor_steps(spec.tail),
        requantizes=any(isinstance(step, epilogues.Rq) for step in spec.tail),
        acc_copies=2 if any(isinstance(step, TieCorrection) for step in spec.tail) else 1,
    )


def schedule(spec: ConvSpec, config: HwConfig) -> IRModule:
    """The IRModule of one convolution. Parameters: x, w, [p,] [one, c,] out."""
    return ConvWriter(spec, tiling(spec, config), config).module()
