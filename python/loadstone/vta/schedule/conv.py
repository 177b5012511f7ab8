# SPDX-License-Identifier: Apache-2.0
"""Convolutions of every kind: a sum over weights on the blocked layout, then a tail, in tiles.

In:   `ConvSpec`: extents, strides and padding in blocks and pixels; the tail.
Out:  its tiles; a Function of loops over them, without copies. Parameters: x, w, [p,] [one, c,]
      [e, b,] out.
Next: ir_pass/insert_dma_copy.py.

One sum serves many operators: dense layers (one pixel), depthwise (each group one block, weight
tiles diagonal), grouped (`groups` convolutions side by side), average pooling and copies (one
identity tile for all: `shared_weights`).

    x[n, s, c, y, x][batch, k]                              input, int8
    w[s, o, c, part, ky, kx][lane, k]                       weights, int8; parts are added up
    (weights of more than 8 bits)
    p[s, o, row][batch, lane]                               what the tail reads, int32 (or p[i, j,
    row], or p[row]: `operands`)
    one[0][batch, k], c[s, o, row][lane, k]                 constants that the tail adds as products
    e[input][batch, k], b[s, o, tile][lane, k]              those that edges add (Edge)
    acc[n, s, o, i, j][b, l] = sum x_padded[n, s, c, i*stride + ky*dilation, j*stride +
    kx*dilation][b, k] * w[...][l, k] out = int8(tail(acc, p))
"""

from __future__ import annotations

from collections.abc import Sequence

from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.tile_loops import tiled
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule import tile
from loadstone.vta.schedule.conv_computation import ConvComputation
from loadstone.vta.schedule.conv_spec import PIXEL, ConvSpec, Operands
from loadstone.vta.schedule.edges import edge_work
from loadstone.vta.schedule.epilogue import TieCorrection

__all__ = ["PIXEL", "ConvSpec", "Operands", "nest", "schedule", "tiling"]


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
        taps=1 if spec.by_lane else spec.parts * spec.kernel[0] * spec.kernel[1],
        lane_rows=spec.kernel[0] if spec.by_lane else 0,
        step=(spec.row_step, spec.strides[1]),
        window=spec.window,
        padded_rows=spec.padding[1] > 0
        or spec.padded_size[1] != spec.input[1]
        or spec.row_step != spec.strides[0],
        shared_weights=spec.shared_weights,
        operands=spec.operands,
        operand_rows=spec.operand_rows,
        product_rows=spec.product_rows,
        tail_steps=(*epilogues.tensor_steps(spec.tail), *[False] * (spec.planes - 1)),
        requantizes=any(isinstance(step, epilogues.Rq) for step in spec.tail),
        acc_copies=2 if any(isinstance(step, TieCorrection) for step in spec.tail) else 1,
        edges=edge_work(spec),
        planes=spec.planes,
        whole=spec.whole,
    )


def schedule(spec: ConvSpec, config: HwConfig) -> Function:
    """The function of one spec: pixels outside and channels inside, or the other way round. Input
    blocks are a loop around the sum alone."""
    computation = ConvComputation(spec, config.batch, config.block)
    chosen = tiling(spec, config)
    tile = (chosen.samples, chosen.groups, chosen.out, chosen.height, chosen.width, chosen.in_)
    sizes = dict(zip(computation.axes, tile, strict=True))
    n, s, o, i, j, _ = computation.axes
    order: Sequence[Variable] = (n, i, j, s, o) if chosen.spatial_outer else (s, o, n, i, j)
    if spec.operands == "pixel":  # they stand beside their reader, behind a sum that can begin
        order = [axis for axis in order if axis.extent > sizes[axis]]
    return tiled(computation.function(), sizes, order)
