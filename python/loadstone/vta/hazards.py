# SPDX-License-Identifier: Apache-2.0
"""What orders instructions against each other, and the proof that a stream's tokens do.

In:   instructions in program order: the stage of each, the scratchpad tiles and DRAM bytes it
      reads and writes.
Out:  `conflicts_between`: the last instruction of each stage that one must not overtake; `prove`:
      that the tokens of a stream keep every hazard in order, cannot deadlock and overflow no queue.
Next: synchronize.py asks the first to set tokens, and the second whether they are right.

isa/hazards.py finds the first in columns of touches, isa/token_proof.py has the proof, for these
instructions and any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from loadstone.isa import hazards
from loadstone.isa.token_proof import TokenStream, prove_order
from loadstone.vta.isa.spec import (
    MAX_TOKENS,
    TOKEN_FLAGS,
    TOKEN_QUEUES,
    Memory,
    Stage,
)
from loadstone.vta.program import DramRows, PendingInstruction, ScratchRange

__all__ = ["STAGES", "conflicts_between", "prove"]

#: Names of the stages, in messages.
STAGES = tuple(stage.name for stage in Stage)
_STAGE_OF = attrgetter("stage")
#: The token flags of an instruction, and which of them are set.
_flags_of = attrgetter(*TOKEN_FLAGS)
_FLAGS_SET = {
    values: [flag for flag, value in zip(TOKEN_FLAGS, values, strict=True) if value]
    for values in product((0, 1), repeat=len(TOKEN_FLAGS))
}


def conflicts_between(instructions: Sequence[PendingInstruction]) -> NDArray[np.int32]:
    """(instructions, stages): the last instruction of a stage that one must not overtake."""
    unit = np.fromiter(map(_STAGE_OF, instructions), np.int32, len(instructions))
    tiles, (rows, loops) = _tiles_touched(instructions), _rows_touched(instructions)
    return hazards.conflicts_between(
        hazards.TouchColumns(unit, np.concatenate([tiles, rows]), loops), len(STAGES)
    )


def _tiles_touched(instructions: Sequence[PendingInstruction]) -> NDArray[np.int64]:
    """Of each range of a scratchpad, the fields of a touch."""
    count = [len(pending.scratch) for pending in instructions]
    ranges = chain.from_iterable([pending.scratch for pending in instructions])
    memory, first, end, written = _columns(ranges, sum(count), ScratchRange)
    step = np.repeat(np.arange(len(count)), count)
    return np.stack([step, memory, written, first, end - first, np.zeros_like(step)], axis=1)


def _rows_touched(
    instructions: Sequence[PendingInstruction],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of some rows of DRAM, the fields of a touch, and its loop. Regions get the numbers behind
    those of scratchpads."""
    step = [number for number, pending in enumerate(instructions) if pending.dram is not None]
    held = (pending.dram for pending in instructions if pending.dram is not None)
    region, first, rows, row_bytes, stride, written = _columns(held, len(step), DramRows)
    space, one_loop = region + len(Memory), np.ones_like(region)
    touches = [np.array(step, np.int64), space, written, first, row_bytes, one_loop]
    return np.stack(touches, axis=1), np.stack([rows, stride], axis=1)


def _columns(
    rows: Iterable[ScratchRange | DramRows], count: int, kind: type[ScratchRange | DramRows]
) -> NDArray[np.int64]:
    """By field of the kind, its values: int64 (fields, count)."""
    fields = len(kind._fields)
    return np.fromiter(chain.from_iterable(rows), np.int64, count * fields).reshape(-1, fields).T


def prove(
    instructions: Sequence[PendingInstruction], conflicts: NDArray[np.int32] | None = None
) -> Mapping[str, int]:
    """Checks, from the flags alone, that every hazard is ordered, nothing deadlocks, and no queue
    passes MAX_TOKENS.

    conflicts: (instructions, stages), those of conflicts_between, where they are known. Returns
    the largest number of tokens each queue can hold in any execution. Raises LoweringError naming
    two instructions.
    """
    stream = TokenStream(
        "synchronize",
        STAGES,
        [instruction.stage for instruction in instructions],
        lambda number: instructions[number].name,
        [_FLAGS_SET[_flags_of(instruction.insn)] for instruction in instructions],
    )
    if conflicts is None:
        conflicts = conflicts_between(instructions)
    limits = [MAX_TOKENS] * len(TOKEN_QUEUES)
    most = prove_order(stream, conflicts, TOKEN_QUEUES, limits)
    return {str(queue): most[k] for k, queue in enumerate(TOKEN_QUEUES)}
