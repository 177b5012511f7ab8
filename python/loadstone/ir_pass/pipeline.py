# SPDX-License-Identifier: Apache-2.0
"""From a scheduled operator to loops around intrinsic calls: TVM's passes, ours, and those of the
back end between them.

In:   an IRModule whose "main" is scheduled (s_tir: blocks, cache reads into memory scopes), a back
      end's passes.
Out:  the PrimFunc of loops around intrinsic calls; what each pass made, in its log.
Next: unroll.py, for a back end that turns calls into instructions of its own.

    Phase.TENSOR_IR    the scheduled module: blocks, or loops where a schedule writes them itself
    Phase.LOOPS        loop nests over buffers that hold a tile, no blocks
    Phase.CALLS        loops around lds.dma_copy, lds.gemm ... (intrinsics.py); verified again

A pass of each phase takes an IRModule and gives one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from loadstone.ir_pass.compute import insert_compute
from loadstone.ir_pass.dma_copy import recognise_dma_copy
from loadstone.ir_pass.verify import verify
from loadstone.passes.log import PassLog
from loadstone.relax.compat import (
    s_tir,
    s_tir_transform,
    structural_walk,
    tirx_transform,
    tvm,
)

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, PrimFunc, Stmt

__all__ = [
    "NO_PASSES",
    "SIMPLE_LOOPS",
    "TO_LOOPS",
    "Passes",
    "lower_to_calls",
    "main_text",
    "text_of_function",
]

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
#: The same of a function that has no blocks, because it was written as loops: only its expressions
#: are made simple.
TO_SIMPLE_LOOPS = (tirx_transform.StmtSimplify,)
#: An attribute of a function whose expressions are simple already: TVM's simplifier takes as long
#: as either of our passes to find that.
SIMPLE_LOOPS = "loadstone.simple_loops"
#: A pass of one of the three phases: IRModule -> IRModule, such as one of tvm.tirx.transform.
Pass: TypeAlias = "Callable[[IRModule], IRModule]"


@dataclass(frozen=True)
class Passes:
    """The TensorIR passes of one back end, by phase; equal ones give equal results, so that lowered
    operators can be kept."""

    tensor_ir: tuple[Pass, ...] = ()
    loops: tuple[Pass, ...] = ()
    calls: tuple[Pass, ...] = ()


NO_PASSES = Passes()


def lower_to_calls(
    module: IRModule, passes: Passes = NO_PASSES, log: PassLog | None = None
) -> PrimFunc:
    """Of "main", loops around calls. log: of the passes that made them. Raises LoweringError on a
    nest that is no intrinsic call.

        function = lower_to_calls(schedule.mod, passes_of(self.passes))
    """
    log = log or PassLog()
    module = log.run("schedule", partial(_applied, passes.tensor_ir), module, show=main_text)
    module = log.run("loops", partial(_in_loops, passes), module, show=main_text)
    function = log.run(
        "dma_copy",
        lambda loops: recognise_dma_copy(loops["main"]),
        module,
        verify=lambda _, made: verify(made, "dma_copy"),
        show=text_of_function,
    )
    return log.run(
        "compute",
        lambda copies: _in_calls(passes, copies),
        function,
        verify=lambda _, made: verify(made, "compute"),
        show=text_of_function,
    )


def _in_calls(passes: Passes, copies: PrimFunc) -> PrimFunc:
    function = insert_compute(copies)
    if not passes.calls:
        return function
    return _applied(passes.calls, tvm.IRModule({"main": function}))["main"]


def _in_loops(passes: Passes, module: IRModule) -> IRModule:
    if SIMPLE_LOOPS in (module["main"].attrs or ()) and not passes.tensor_ir:
        module = tvm.IRModule({"main": module["main"].without_attr(SIMPLE_LOOPS)})
    else:
        to_loops = TO_LOOPS if _has_blocks(module) else TO_SIMPLE_LOOPS
        module = _applied([make() for make in to_loops], module)
    return _applied(passes.loops, module)


def main_text(module: IRModule) -> str:
    """As text_of_function."""
    return text_of_function(module["main"])


def text_of_function(function: PrimFunc) -> str:
    """TVMScript without the annotations that every allocation carries and nothing reads."""
    return re.sub(r", annotations=\{[^}]*\}", "", str(function.script())) + "\n"


def _has_blocks(module: IRModule) -> bool:
    found: list[Stmt] = []
    structural_walk(module["main"].body, (s_tir.SBlockRealize, found.append))
    return bool(found)


def _applied(passes: Sequence[Pass], module: IRModule) -> IRModule:
    for transform in passes:
        module = transform(module)
    return module
