# SPDX-License-Identifier: Apache-2.0
"""How long a program takes, by the cost model: what store_inp.py compares its choices by.

In:   a VtaProgram whose operations are in order.
Out:  cycles; None where it has no room, or no instructions express it.
Next: store_inp.py.

The passes that follow are run, and one walk over the instructions lets each begin when its stage is
free and its tokens are there. Only the bus, which the stages share, is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from loadstone.errors import LoweringError
from loadstone.vta.isa.instruction_columns import InstructionColumns
from loadstone.vta.isa.spec import TOKEN_FLAGS, TOKEN_QUEUES
from loadstone.vta.passes.program import ProgramPass, VtaProgram
from loadstone.vta.stream.cost import cost_model

__all__ = ["estimate"]


def estimate(program: VtaProgram, following: Sequence[ProgramPass]) -> int | None:
    """following: the passes that are still to come."""
    try:
        for step in following:
            program = step.run(program)
    except LoweringError:
        return None
    return _cycles(program)


def _cycles(program: VtaProgram) -> int:
    instructions, cost = InstructionColumns.of(program.instructions), cost_model(program.config)
    spent = [cost.instruction(form, program.config) for form in instructions.forms]
    queues = [deque[int]() for _ in TOKEN_QUEUES]
    # by stage: the flag, and its queue
    pops = [(TOKEN_FLAGS.index(q.pop), q.popper, queues[k]) for k, q in enumerate(TOKEN_QUEUES)]
    pushes = [(TOKEN_FLAGS.index(q.push), q.pusher, queues[k]) for k, q in enumerate(TOKEN_QUEUES)]
    stages = len({stage for _, stage, _ in pops + pushes})
    taken = [[(flag, q) for flag, stage, q in pops if stage == s] for s in range(stages)]
    given = [[(flag, q) for flag, stage, q in pushes if stage == s] for s in range(stages)]
    free = [0] * stages
    each = zip(
        instructions.stages.tolist(),
        instructions.form.tolist(),
        instructions.flags.tolist(),
        strict=True,
    )
    for stage, form, flags in each:
        time = free[stage]
        for flag, queue in taken[stage]:
            if flags[flag]:
                time = max(time, queue.popleft())
        time += spent[form]
        free[stage] = time
        for flag, queue in given[stage]:
            if flags[flag]:
                queue.append(time)
    return max(free)
