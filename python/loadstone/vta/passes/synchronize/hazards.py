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

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.isa import hazards
from loadstone.isa.token_proof import TokenStream, prove_order
from loadstone.vta.isa.instruction_columns import InstructionColumns, PendingInstruction
from loadstone.vta.isa.spec import (
    MAX_TOKENS,
    TOKEN_FLAGS,
    TOKEN_QUEUES,
    Memory,
    Stage,
)

__all__ = ["STAGES", "conflicts_between", "prove"]

#: Names of the stages, in messages.
STAGES = tuple(stage.name for stage in Stage)


def conflicts_between(instructions: InstructionColumns) -> NDArray[np.int32]:
    """(instructions, stages): the last instruction of a stage that one must not overtake."""
    tiles, tile_loops = _tiles_touched(instructions)
    rows, row_loops = _rows_touched(instructions)
    touches, loops = np.concatenate([tiles, rows]), np.concatenate([tile_loops, row_loops])
    return hazards.conflicts_between(
        hazards.TouchColumns(instructions.stages, touches, loops), len(STAGES)
    )


def _tiles_touched(
    instructions: InstructionColumns,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each range of a scratchpad, the fields of a touch, and the loops of all."""
    step, (memory, first, end, written, rows, stride) = instructions.tiles_touched()
    many = rows > 1
    touches = [step, memory, written, first, end - first, many]
    return np.stack(touches, axis=1), np.stack([rows[many], stride[many]], axis=1)


def _rows_touched(
    instructions: InstructionColumns,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of some rows of DRAM, the fields of a touch, and its loop. Regions get the numbers behind
    those of scratchpads."""
    step, (region, first, rows, row_bytes, stride, written) = instructions.rows_touched()
    space, one_loop = region + len(Memory), np.ones_like(step)
    touches = [step, space, written, first, row_bytes, one_loop]
    return np.stack(touches, axis=1), np.stack([rows, stride], axis=1)


def prove(
    instructions: Sequence[PendingInstruction], conflicts: NDArray[np.int32] | None = None
) -> Mapping[str, int]:
    """Checks, from the flags alone, that every hazard is ordered, nothing deadlocks, and no queue
    passes MAX_TOKENS.

    conflicts: (instructions, stages), those of conflicts_between, where they are known. Returns
    the largest number of tokens each queue can hold in any execution. Raises LoweringError naming
    two instructions.
    """
    columns = InstructionColumns.of(instructions)
    stream = TokenStream(
        "synchronize",
        STAGES,
        columns.stages,
        lambda number: columns[number].name,
        _flagged(columns, [(queue.popper, queue.pop) for queue in TOKEN_QUEUES]),
        _flagged(columns, [(queue.pusher, queue.push) for queue in TOKEN_QUEUES]),
    )
    if conflicts is None:
        conflicts = conflicts_between(columns)
    limits = [MAX_TOKENS] * len(TOKEN_QUEUES)
    most = prove_order(stream, conflicts, TOKEN_QUEUES, limits)
    return {str(queue): most[k] for k, queue in enumerate(TOKEN_QUEUES)}


def _flagged(columns: InstructionColumns, ends: Sequence[tuple[Stage, str]]) -> NDArray[np.bool_]:
    """(instructions, queues): whether one is of the stage at this end, and has its flag."""
    return np.stack(
        [
            (columns.stages == stage) & (columns.flags[:, TOKEN_FLAGS.index(flag)] == 1)
            for stage, flag in ends
        ],
        axis=1,
    )
