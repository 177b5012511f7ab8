# SPDX-License-Identifier: Apache-2.0
"""insert_dma_copy as a pass of TVM, for whoever has TensorIR and wants copies in it.

In:   a device's MemoryTable.
Out:  `InsertDmaCopy`: a pass that reads each function of a module (from_tir.py), inserts the
      allocations and copies (insert_dma_copy.py), and writes it again (to_tir.py).
Next: TVM's own passes, or a back end's; to run one in a compile, name it in Backend.passes, for
      Phase.LOOPS.

    tvm.ir.transform.Sequential([tirx.transform.StmtSimplify(), InsertDmaCopy(table)])(module)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.ir_pass.from_tir import has_copies, nests_of
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.to_tir import prim_func
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from loadstone.passes.log import checked, verified
from loadstone.relax.compat import tirx_transform

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, Pass, PrimFunc

__all__ = ["InsertDmaCopy"]


def InsertDmaCopy(table: MemoryTable) -> Pass:  # noqa: N802  # as TVM calls its passes
    """The pass for a device. A function that has its copies stays as it is.

    Raises LoweringError where a function is no loops around perfect nests, and where a copy cannot
    be.
    """

    def inserted(function: PrimFunc, module: IRModule, context: object) -> PrimFunc:
        del module, context
        before = nests_of(function, table)
        if has_copies(before):
            return function
        after = insert_dma_copy(before, table)
        if verified():
            checked("insert_dma_copy", lambda: verify_dma_copy(before, after, table), before.name)
        made = prim_func(after, table)
        for name, value in function.attrs.items():
            made = made if name in made.attrs else made.with_attr(name, value)
        return made

    return tirx_transform.prim_func_pass(
        inserted, opt_level=0, name="loadstone.InsertDmaCopy", traceable=False
    )
