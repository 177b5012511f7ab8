# SPDX-License-Identifier: Apache-2.0
"""From an operator's computation, or its schedule in TensorIR, to nests with copies: the pass that
inserts these, and those of the back end around it.

In:   a `Function` without copies, or an IRModule whose "main" TVM's primitives scheduled; the
      device's MemoryTable; a back end's passes.
Out:  the `Function` in which every operand stands where its instruction reads it; what each pass
      made, in its log.
Next: unroll.py, for a back end that turns calls into instructions of its own; for VTA
      vta/kernels/from_nests.py.

    Phase.TENSOR_IR    the operator as TensorIR: blocks where it was scheduled, else loops
    Phase.LOOPS        the same as loop nests, no blocks
    Phase.COPIES       the same with allocations and copies

A pass of each phase takes an IRModule and gives one. What comes of the first two is read as nests;
if it has no copies, they are inserted. Where a back end has no such pass, a computation is never
written as TensorIR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from loadstone.ir_pass.from_tir import has_copies, nests_of
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.to_tir import tensor_ir
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from loadstone.passes.log import PassLog, checked
from loadstone.relax.compat import SBlockRealize, s_tir_transform, structural_walk, tirx_transform

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, PrimFunc, Stmt

__all__ = ["NO_PASSES", "TO_LOOPS", "Passes", "text_of_function", "with_copies"]

#: TVM's own passes from a scheduled module to loops over compact buffers; nothing is flattened.
TO_LOOPS = (
    s_tir_transform.CanonicalizeLoop,
    s_tir_transform.LowerInitBlock,
    s_tir_transform.PlanAndUpdateBufferAllocationLocation,
    s_tir_transform.ConvertBlocksToOpaque,
    s_tir_transform.CompactBufferAllocation,
    s_tir_transform.LowerMatchBuffer,
    tirx_transform.StmtSimplify,
    s_tir_transform.LowerOpaqueBlock,
    tirx_transform.StmtSimplify,
)
#: A pass of one of the three phases: IRModule -> IRModule, such as one of tvm.tirx.transform.
Pass: TypeAlias = "Callable[[IRModule], IRModule]"


@dataclass(frozen=True)
class Passes:
    """The TensorIR passes of one back end, by phase; equal ones give equal results, so that lowered
    operators can be kept."""

    tensor_ir: tuple[Pass, ...] = ()
    loops: tuple[Pass, ...] = ()
    copies: tuple[Pass, ...] = ()


NO_PASSES = Passes()


def with_copies(
    source: Function | IRModule,
    table: MemoryTable,
    passes: Passes = NO_PASSES,
    log: PassLog | None = None,
    *,
    always_verified: bool = False,
) -> Function:
    """always_verified: the inserted copies are, in every compile; else where --verify asks for it.
    Raises LoweringError for TensorIR that is no perfect nests, and where a copy cannot be.

    function = with_copies(schedule.mod, self.memories, passes_of(self.passes))
    """
    log = log or PassLog()
    function = source if isinstance(source, Function) else None
    if function is None or passes.tensor_ir or passes.loops:
        module = source if function is None else tensor_ir(function, table)
        module = log.run("schedule", partial(_applied, passes.tensor_ir), module, show=_main_text)
        module = log.run("loops", partial(_in_loops, passes), module, show=_main_text)
        function = log.run("nests", partial(_read, table), module, show=printed)
    if not has_copies(function):
        function = _inserted(function, table, log, always_verified)
    if passes.copies:
        function = log.run("copies", partial(_passed, passes, table), function, show=printed)
    return function


def _inserted(
    function: Function, table: MemoryTable, log: PassLog, always_verified: bool
) -> Function:
    found = log.run(
        "insert_dma_copy",
        partial(insert_dma_copy, table=table),
        function,
        verify=partial(verify_dma_copy, table=table),
        show=printed,
    )
    if always_verified and not log.runs[-1].verified:
        checked("insert_dma_copy", lambda: verify_dma_copy(function, found, table), log.subject)
    return found


def _read(table: MemoryTable, module: IRModule) -> Function:
    return nests_of(module["main"], table)


def _passed(passes: Passes, table: MemoryTable, function: Function) -> Function:
    return _read(table, _applied(passes.copies, tensor_ir(function, table)))


def _in_loops(passes: Passes, module: IRModule) -> IRModule:
    if _has_blocks(module):
        module = _applied([make() for make in TO_LOOPS], module)
    return _applied(passes.loops, module)


def _main_text(module: IRModule) -> str:
    return text_of_function(module["main"])


def text_of_function(function: PrimFunc) -> str:
    """TVMScript without the annotations that every allocation carries and nothing reads."""
    return re.sub(r", annotations=\{\}", "", str(function.script())) + "\n"


def _has_blocks(module: IRModule) -> bool:
    found: list[Stmt] = []
    structural_walk(module["main"].body, (SBlockRealize, found.append))
    return bool(found)


def _applied(passes: Sequence[Pass], module: IRModule) -> IRModule:
    for transform in passes:
        module = transform(module)
    return module
