# SPDX-License-Identifier: Apache-2.0
"""Synchronize: dependency tokens from hazards.

In:   a VtaProgram with instructions in program order.
Out:  the same with pop and push flags, and a few compute no-ops where load must wait for store; the
      most tokens that each queue can hold.
Next: region/offload.py puts its bytes into an artifact.

The stages run in order, each at its own pace; only tokens order them against each other. Queues
exist between neighbours:

      load  --l2g-->  compute  --g2s-->  store
            <--g2l--           <--s2g--

isa/tokens.py says how tokens follow from hazards. Load and store are no neighbours: what load must
know of store comes by way of a compute instruction between the two, one that waits for the store
and pushes to load; it is chosen late enough after the store that compute does not stall, and a
no-op stands in where there is none.

    store     ...[s7]-----.      [s8]           Compute waits for the latest store that should be
              done by then, not for the
    compute   [c1][c2][c3]'->[c4][c5][c6]       oldest that would do: c4 knows s7, and any load that
              needs s7 can follow c4.
    load                       '-->[x needs s7]

hazards.py proves that what comes out is right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.hazards import NONE
from loadstone.isa.tokens import Ordered, StepColumns, TokenRules, ordered
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.insn import Finish, Insn, Load
from loadstone.vta.isa.instruction_columns import (
    InsnForm,
    InstructionColumns,
    PendingInstruction,
)
from loadstone.vta.isa.spec import MAX_TOKENS, TOKEN_FLAGS, TOKEN_QUEUES, Memory, Stage
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.passes.synchronize.hazards import STAGES, conflicts_between, prove
from loadstone.vta.stream.cost import cost_model

__all__ = ["Synchronize"]

(_STORES,) = (
    queue for queue in TOKEN_QUEUES if (queue.pusher, queue.popper) == (Stage.STORE, Stage.COMPUTE)
)
#: An instruction of the compute stage that moves nothing.
_NOOP = InsnForm(Load(memory_id=Memory.UOP))


class Synchronize(ProgramPass):
    """Sets tokens so that every hazard between stages is ordered."""

    name: ClassVar[str] = "synchronize"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Sets the flags, inserts no-ops, and proves that they suffice."""
        before = InstructionColumns.of(program.instructions)
        found = _ordered(before, program.config)
        new = np.flatnonzero(found.noop != NONE)
        nowhere = np.zeros_like(new)
        moved = before.rearranged(found.source, new, [_NOOP] * len(new), nowhere, nowhere)
        instructions = replace(moved, flags=_flags(found.tokens, len(moved)))
        tokens = prove(instructions, found.conflicts)
        return replace(program, instructions=instructions, tokens=tokens)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Nothing but tokens and no-ops was added, which touch nothing, and FINISH is the end. What
        instructions claim to touch, by which their tokens are proven, is what it was."""
        prove(after.instructions)
        added = [pending for pending in after.instructions if _is_noop(pending.insn)]
        if any(pending.scratch or pending.dram for pending in added):
            raise LoweringError("synchronize: an instruction that does nothing claims tiles")
        found = [_without_tokens(p) for p in after.instructions if not _is_noop(p.insn)]
        if found != list(before.instructions):
            raise LoweringError(
                "synchronize: instructions were lost, changed or put in other order"
            )
        if not isinstance(after.instructions[-1].insn, Finish):
            raise LoweringError("synchronize: the last instruction is not FINISH")


def _is_noop(insn: Insn) -> bool:
    return isinstance(insn, Load) and insn.is_noop


def _without_tokens(pending: PendingInstruction) -> PendingInstruction:
    return replace(pending, insn=pending.insn.changed(**dict.fromkeys(TOKEN_FLAGS, 0)))


def _flags(tokens: NDArray[np.int32], count: int) -> NDArray[np.uint8]:
    """(count, flags): those of instructions that give and take some tokens: (queue, who gives it,
    who takes it) of each."""
    flags = np.zeros((count, len(TOKEN_FLAGS)), np.uint8)
    for number, queue in enumerate(TOKEN_QUEUES):
        push, pop = tokens[tokens[:, 0] == number, 1:].T
        flags[push, TOKEN_FLAGS.index(queue.push)] = 1
        flags[pop, TOKEN_FLAGS.index(queue.pop)] = 1
    return flags


def _ordered(instructions: InstructionColumns, config: HwConfig) -> Ordered:
    """The instructions, the no-ops between them, and their tokens."""
    cost, form = cost_model(config), instructions.form
    cycles = np.array([cost.instruction(form, config) for form in instructions.forms], np.int64)
    joins = np.array([type(form.insn) is Finish for form in instructions.forms], np.bool_)
    rules = TokenRules(
        units=STAGES,
        queues=TOKEN_QUEUES,
        most=[MAX_TOKENS] * len(TOKEN_QUEUES),
        noop_cycles={Stage.COMPUTE: cost.noop},
        late=_STORES,
    )
    steps = StepColumns(instructions.stages, cycles[form], joins[form])
    return ordered(steps, conflicts_between(instructions), rules)
