# SPDX-License-Identifier: Apache-2.0
"""One block of channels gathered from several: sums of tiles times weight tiles that select lanes,
as TensorIR.

In:   `SelectSpec`: how many source blocks, how many pixels.
Out:  a scheduled IRModule. Parameters: x0, x1, ..., selection, out.
Next: kernels/from_tir.py.

    out[p][b, l] = sum over sources r and lanes k of x_r[p][b, k] * selection[r][l, k]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.relax.compat import s_tir, te, tvm
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Step

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule

__all__ = ["SelectSpec", "schedule"]

#: Pixels of one tile, at most.
_LARGEST = 512


@dataclass(frozen=True)
class SelectSpec:
    """sources: blocks that are read. tail: what happens to the sum."""

    sources: int
    pixels: int
    tail: tuple[Step, ...]


def schedule(spec: SelectSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule."""
    lanes = (config.batch, config.block)
    inputs = [
        te.placeholder((spec.pixels, *lanes), "int8", name=f"x{r}") for r in range(spec.sources)
    ]
    selection = te.placeholder((spec.sources, config.block, config.block), "int8", name="selection")
    k = te.reduce_axis((0, config.block), "k")

    def selected(p: Expr, b: Expr, lane: Expr) -> Expr:
        products = [
            x[p, b, k].astype("int32") * selection[r, lane, k].astype("int32")
            for r, x in enumerate(inputs)
        ]
        return te.sum(sum(products[1:], products[0]), [k])

    acc = te.compute((spec.pixels, *lanes), selected, name="acc")
    last, stages = epilogues.finish(acc, spec.tail, lambda _: [])
    out = te.compute(acc.shape, lambda *at: last[at].astype("int8"), name="out")

    s = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([*inputs, selection, out])}))
    pixel, batch, lane = s.get_loops(s.get_sblock("out"))
    room = min(config.depth(Memory.INP) // spec.sources, config.depth(Memory.ACC)) // 2
    outer, inner = s.split(pixel, [None, max(1, min(spec.pixels, room, _LARGEST))])
    s.reorder(outer, inner, batch, lane)
    for name in (*stages, "acc"):  # consumers first
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), outer, preserve_unit_loops=True)
    block = s.get_sblock("acc")
    for position, region in enumerate(s.get(block).reads):
        if str(region.source.name) == "selection":
            s.cache_read(block, position, "local.wgt")
        else:
            s.compute_at(
                s.cache_read(block, position, "local.inp"), outer, preserve_unit_loops=True
            )
    s.decompose_reduction(block, s.get_loops(block)[1])
    return s.mod
