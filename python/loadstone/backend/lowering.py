# SPDX-License-Identifier: Apache-2.0
"""One operator as its back end says it: a computation, which gets its copies, or a schedule in
TensorIR, which has them.

In:   a back end that has the operator's kind in `computations`, or in `schedules`.
Out:  `with_copies`: nests whose operands stand in the device's memories. `lowered`: the PrimFunc of
      loops around intrinsic calls.
Next: ir_pass/unroll_nests.py and ir_pass/unroll.py give the back end each call with plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from loadstone.backend.interface import Backend, Phase
from loadstone.errors import LoweringError
from loadstone.graph import Operator
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import NO_PASSES, Pass, Passes, lower_to_calls
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from loadstone.passes.log import PassLog, checked

if TYPE_CHECKING:
    from loadstone.relax.types import PrimFunc

__all__ = ["lowered", "passes_of", "with_copies"]


def with_copies(backend: Backend, operator: Operator, log: PassLog | None = None) -> Function:
    """An operator by its back end's own computation, with the allocations and copies that the back
    end's memories ask for; verify_dma_copy has led each operand back through them.

    Raises LoweringError where the back end has no computation for it or no memories, where it has
    passes over TensorIR, which would not see it, and where a copy cannot be. log: keeps what the
    passes make, for --dump; None: nobody asks.

        for call in unroll_nests(with_copies(self, operator, region.log(operator))):
            ...
    """
    computations, table = backend.computations(), backend.memories
    if operator.kind not in computations:
        raise _absent(backend, "computation", operator, computations)
    if table is None:
        raise LoweringError(
            f"back end {backend.name}: it has a computation for {operator.kind} and no memories: "
            "set them by MemoryTable.of"
        )
    if passes_of(backend.passes) != NO_PASSES:
        raise LoweringError(
            f"back end {backend.name}: {operator.kind} is a computation, which its passes over "
            "TensorIR do not see: give it a schedule, or leave these passes out"
        )
    log = log or PassLog()
    function = log.run("computation", computations[operator.kind], operator, show=printed)
    found = log.run(
        "insert_dma_copy",
        partial(insert_dma_copy, table=table),
        function,
        verify=partial(verify_dma_copy, table=table),
        show=printed,
    )
    if not log.runs[-1].verified:  # somebody else's computation: in every compile
        checked("insert_dma_copy", lambda: verify_dma_copy(function, found, table), operator.name)
    return found


def lowered(backend: Backend, operator: Operator, log: PassLog | None = None) -> PrimFunc:
    """An operator by its back end's own schedule and passes: the PrimFunc of loops around calls.
    Raises LoweringError where it has none. log: as of with_copies.

        for call in unroll(lowered(self, operator, region.log(operator))):
            ...
    """
    schedules = backend.schedules()
    if operator.kind not in schedules:
        raise _absent(backend, "schedule", operator, schedules)
    module = schedules[operator.kind](operator)
    return lower_to_calls(module, passes_of(backend.passes), log)


def passes_of(passes: Callable[[Phase], Sequence[Pass]]) -> Passes:
    """Those over the TensorIR of one operator. passes: Backend.passes."""
    return Passes(*(tuple(passes(phase)) for phase in (Phase.TENSOR_IR, Phase.LOOPS, Phase.CALLS)))


def _absent(backend: Backend, what: str, operator: Operator, kinds: Iterable[str]) -> LoweringError:
    return LoweringError(
        f"back end {backend.name}: no {what} for {operator.kind}; it has them for "
        f"{', '.join(kinds) or 'nothing'}"
    )
