# SPDX-License-Identifier: Apache-2.0
"""One block of channels gathered from several: sums of tiles times weight tiles that select lanes,
as a computation in tiles.

In:   `SelectSpec`: how many source blocks, how many pixels.
Out:  a Function without copies. Parameters: selection, x0, x1, ..., out.
Next: ir_pass/insert_dma_copy.py.

    out[p][b, l] = sum over sources r and lanes k of x_r[p][b, k] * selection[r][l, k]
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestGroup,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.tile_loops import tiled
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.epilogue import Immediate

__all__ = ["SelectSpec", "schedule"]

#: Pixels of one tile, at most.
_LARGEST = 512


@dataclass(frozen=True)
class SelectSpec:
    """sources: blocks that are read. tail: what happens to the sum."""

    sources: int
    pixels: int
    tail: tuple[Immediate, ...]


def schedule(spec: SelectSpec, config: HwConfig) -> Function:
    """The function of one spec."""
    pixel = Variable("p", spec.pixels)
    room = min(config.depth(Memory.INP) // spec.sources, config.depth(Memory.ACC)) // 2
    size = max(1, min(spec.pixels, room, _LARGEST))
    return tiled(_computation(spec, pixel, config), {pixel: size}, [pixel])


def _computation(spec: SelectSpec, pixel: Variable, config: HwConfig) -> Function:
    """On all pixels."""
    lanes, square, shape = (config.batch, config.block), (config.block,) * 2, (spec.pixels,)
    selection = NestTensor("selection", (spec.sources,), square, "int8", "table")
    acc = NestTensor("acc", shape, lanes, "int32", "local")
    sources = [NestTensor(f"x{r}", shape, lanes, "int8") for r in range(spec.sources)]
    out = NestTensor("out", shape, lanes, "int8")
    at = Index(0, {pixel: 1})
    value = acc[at]

    def every(*steps: NestStep) -> Nest:
        return Nest((pixel,), (), steps)

    cleared = every(NestStep("fill", (value,), (0,)))
    products = [
        every(NestStep("gemm", (value, x[at], selection[r]))) for r, x in enumerate(sources)
    ]
    body: list[Statement] = [NestGroup((cleared, *products))]
    if spec.tail:
        body.append(every(*(NestStep(each.op, (value,), (each.value,)) for each in spec.tail)))
    body.append(every(NestStep(COPY, (out[at], value))))
    return Function("select", (selection, acc, *sources, out), tuple(body))
