# SPDX-License-Identifier: Apache-2.0
"""Synchronize: dependency tokens from hazards.

In:   a VtaProgram with instructions in program order.
Out:  the same with pop and push flags, and a few compute no-ops where load must wait for store; the
      most tokens that each queue can hold.
Next: offload.py puts its bytes into an artifact.

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

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import ClassVar

from loadstone.errors import LoweringError
from loadstone.isa.tokens import Ordered, TokenRules, ordered
from loadstone.vta.cost import cost_model
from loadstone.vta.hazards import STAGES, conflicts_between, prove
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.insn import Finish, Insn, Load
from loadstone.vta.isa.spec import MAX_TOKENS, TOKEN_FLAGS, TOKEN_QUEUES, Memory, Stage
from loadstone.vta.program import PendingInstruction, ProgramPass, VtaProgram

__all__ = ["Synchronize"]

(_STORES,) = (
    queue for queue in TOKEN_QUEUES if (queue.pusher, queue.popper) == (Stage.STORE, Stage.COMPUTE)
)


class Synchronize(ProgramPass):
    """Sets tokens so that every hazard between stages is ordered."""

    name: ClassVar[str] = "synchronize"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Sets the flags, inserts no-ops, and proves that they suffice."""
        found = _ordered(program.instructions, program.config)
        instructions = found.steps
        for number, flags in found.flags.items():
            instructions[number] = _with_tokens(instructions[number], flags)
        tokens = prove(instructions, found.conflicts)
        return replace(program, instructions=tuple(instructions), tokens=tokens)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Nothing but tokens and no-ops was added, and FINISH is the end."""
        prove(after.instructions)
        found = [_without_tokens(p.insn) for p in after.instructions if not _is_noop(p.insn)]
        if found != [pending.insn for pending in before.instructions]:
            raise LoweringError(
                "synchronize: instructions were lost, changed or put in other order"
            )
        if not isinstance(after.instructions[-1].insn, Finish):
            raise LoweringError("synchronize: the last instruction is not FINISH")


def _is_noop(insn: Insn) -> bool:
    return isinstance(insn, Load) and insn.is_noop


def _without_tokens(insn: Insn) -> Insn:
    return insn.changed(**dict.fromkeys(TOKEN_FLAGS, 0))


def _with_tokens(pending: PendingInstruction, flags: set[str]) -> PendingInstruction:
    return pending.with_insn(pending.insn.changed(**dict.fromkeys(flags, 1)))


def _ordered(
    instructions: Sequence[PendingInstruction], config: HwConfig
) -> Ordered[PendingInstruction]:
    """The instructions and their flags, and the no-ops between them."""
    cost = cost_model(config)
    rules: TokenRules[PendingInstruction] = TokenRules(
        units=STAGES,
        queues=TOKEN_QUEUES,
        most=[MAX_TOKENS] * len(TOKEN_QUEUES),
        unit_of=attrgetter("stage"),
        cycles_of=lambda pending: cost.instruction(pending, config),
        noop=lambda _, after: PendingInstruction(Load(memory_id=Memory.UOP), after.layer),
        noop_cycles={Stage.COMPUTE: cost.noop},
        joins=lambda pending: type(pending.insn) is Finish,
        late=_STORES,
    )
    return ordered(instructions, conflicts_between(instructions), rules)
