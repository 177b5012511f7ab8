# SPDX-License-Identifier: Apache-2.0
"""Replace the loop nests of TensorIR that copy between DRAM and a scratchpad by DMA calls.

In:   a lowered PrimFunc: loop nests of stores, buffers with memory scopes.
Out:  the same PrimFunc; every nest that copies between DRAM ("global") and a scratchpad is one
      lds.dma_copy call.
Next: compute.py does the same for the nests that stay on the chip.

    for ax0, ax1, ax2 in T.grid(7, 18, 16):
        if i0 * 5 + ax0 < 18:
            x_local[ax0, ax1, ax2] = if_then_else(1 <= i0 * 5 + ax0 and 1 <= ax1 and ax1 < 17, x[i0
            * 5 + ax0 - 1, ax1 - 1, ax2], -5)

becomes a dma_copy of three axes with a guard (ax0), and pads (ax0, ax1) of value -5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.ir_pass.intrinsics import Intrinsic
from loadstone.ir_pass.nest import PerfectNest, access, axes, map_nests
from loadstone.relax.compat import TensorLoad, is_tir_call, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, PrimFunc, Stmt

__all__ = ["dma_copy", "recognise_dma_copy"]

DRAM = "global"


def recognise_dma_copy(func: PrimFunc) -> PrimFunc:
    """Replaces every copy between DRAM and a scratchpad in `func` (a PrimFunc) by one intrinsic
    call."""

    def copied(nest: PerfectNest) -> Stmt | None:
        call = dma_copy(nest)
        return None if call is None else call.to_stmt()

    return func.with_body(map_nests(func.body, copied))


def dma_copy(nest: PerfectNest) -> Intrinsic | None:
    """The call that a nest is; None where it does not copy between DRAM and a scratchpad."""
    target, value = nest.store.buffer, nest.store.value
    if isinstance(value, tirx.Cast) and target.scope() == DRAM:  # the store keeps the low 8 bits
        value = value.value
    inside: tuple[Expr, ...] = ()
    pad_value = 0
    if is_tir_call(value, "if_then_else") and isinstance(value.args[2], tirx.IntImm):
        inside, pad_value, value = (value.args[0],), int(value.args[2].value), value.args[1]
    if not isinstance(value, TensorLoad) or (value.source.scope() == DRAM) == (
        target.scope() == DRAM
    ):
        return None
    destination, destination_strides = access(nest.store, nest)
    source, source_strides = access(value, nest)
    loops = axes(nest, (destination_strides, source_strides), inside)
    return Intrinsic("dma_copy", (destination, source), (pad_value,), loops)
