# SPDX-License-Identifier: Apache-2.0
"""Lower one operator of a back end, a computation or a schedule in TensorIR, with its copies.

In:   a back end that has the operator's kind in `computations`, or in `schedules`.
Out:  `with_copies`: nests whose operands stand in the device's memories.
Next: ir_pass/unroll.py gives the back end each call with plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadstone.backend.interface import Backend, Phase
from loadstone.errors import LoweringError
from loadstone.graph import Operator
from loadstone.ir_pass import pipeline
from loadstone.ir_pass.nest_text import printed
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import Pass, Passes
from loadstone.passes.log import PassLog

__all__ = ["passes_of", "with_copies"]


def with_copies(backend: Backend, operator: Operator, log: PassLog | None = None) -> Function:
    """An operator by its back end's own computation or schedule, behind the back end's passes, with
    the allocations and copies that its memories ask for; verify_dma_copy has led each operand back
    through them.

    Raises LoweringError where the back end has neither for it or has no memories, for TensorIR that
    is no perfect nests, and where a copy cannot be. log: keeps what the passes make, for --dump;
    None: nobody asks.

        for call in unroll_nests(with_copies(self, operator, region.log(operator))):
            ...
    """
    computations, schedules = backend.computations(), backend.schedules()
    if operator.kind not in computations and operator.kind not in schedules:
        kinds = ", ".join([*computations, *schedules]) or "nothing"
        raise LoweringError(
            f"back end {backend.name}: no computation and no schedule for {operator.kind}; it has "
            f"them for {kinds}"
        )
    if backend.memories is None:
        raise LoweringError(
            f"back end {backend.name}: it has a computation or schedule for {operator.kind} and no "
            "memories: set them by MemoryTable.of"
        )
    log = log or PassLog()
    if operator.kind in computations:
        source = log.run("computation", computations[operator.kind], operator, show=printed)
    else:
        source = schedules[operator.kind](operator)
    return pipeline.with_copies(
        source, backend.memories, passes_of(backend.passes), log, always_verified=True
    )


def passes_of(passes: Callable[[Phase], Sequence[Pass]]) -> Passes:
    """Those over the TensorIR of one operator. passes: Backend.passes."""
    return Passes(*(tuple(passes(phase)) for phase in (Phase.TENSOR_IR, Phase.LOOPS, Phase.COPIES)))
