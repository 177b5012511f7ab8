"""What orders instructions against each other, and the proof that a stream's tokens do.

In:   instructions in program order: the stage of each, the scratchpad tiles and DRAM bytes it
      reads and writes.
Out:  `Hazards`: the last instruction of each stage that one must not overtake; `prove`: that the
      tokens of a stream keep every hazard in order, cannot deadlock and overflow no queue.
Next: synchronize.py asks the first to set tokens, and the second whether they are right.

`prove` looks at the flags alone. Program order itself is one schedule that satisfies every token
(each push stands before its pop), so nothing can deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import (
    MAX_TOKENS,
    SCRATCHPAD_OF,
    TOKEN_QUEUES,
    Memory,
    Stage,
    TokenQueue,
)
from loadstone.vta.program import DramRows, PendingInstruction

__all__ = ["NONE", "Hazards", "prove"]

#: No instruction.
NONE = -1


class Hazards:
    """Who touched each scratchpad tile and each piece of DRAM last: per stage, the last writer and
    the last reader."""

    def __init__(self, config: HwConfig, instructions: Sequence[PendingInstruction]) -> None:
        self.grain = min(config.tile_bytes(Memory.INP), 4)
        self.scratch = {
            m: np.full((3, 2, config.depth(m)), NONE, np.int32)
            for m in dict.fromkeys(SCRATCHPAD_OF.values())
        }
        copies = [i.dram for i in instructions if i.dram is not None]
        ends = dict.fromkeys((rows.region for rows in copies if rows.written), 0)
        for rows in copies:
            if rows.region in ends:
                end = rows.start_bytes + (rows.rows - 1) * rows.stride_bytes + rows.row_bytes
                ends[rows.region] = max(ends[rows.region], -(-end // self.grain))
        self.dram = {region: np.full((3, 2, end), NONE, np.int32) for region, end in ends.items()}

    def _views(self, instruction: PendingInstruction) -> Iterable[tuple[NDArray[np.int32], bool]]:
        """(view of shape (3 stages, 2 kinds, ...), written?) for each range; what is never written
        has no table."""
        for touched in instruction.scratch:
            yield self.scratch[touched.memory][:, :, touched.first : touched.end], touched.written
        rows = instruction.dram
        if rows is not None and rows.region in self.dram:
            yield _rows_view(self.dram[rows.region], rows, self.grain), rows.written

    def conflicts(self, instruction: PendingInstruction) -> list[int]:
        """Per stage, the last instruction that this one must not overtake."""
        stage_of_it = instruction.stage
        last = [NONE, NONE, NONE]
        for view, write in self._views(instruction):
            for stage in Stage:
                if stage is not stage_of_it:
                    last[stage] = max(
                        last[stage], int(view[stage].max() if write else view[stage, 0].max())
                    )
        return last

    def record(self, instruction: PendingInstruction, number: int) -> None:
        """Instruction `number` of the stream is this one."""
        for view, write in self._views(instruction):
            view[instruction.stage, 0 if write else 1] = number


def _rows_view(table: NDArray[np.int32], rows: DramRows, grain: int) -> NDArray[np.int32]:
    start, width, stride = (
        rows.start_bytes // grain,
        rows.row_bytes // grain,
        rows.stride_bytes // grain,
    )
    if rows.rows == 1 or stride == width:
        return table[:, :, start : start + rows.rows * width]
    s = table.strides
    shape = (3, 2, rows.rows, width)
    return np.lib.stride_tricks.as_strided(
        table[:, :, start:], shape, (s[0], s[1], stride * s[2], s[2])
    )


def prove(instructions: Sequence[PendingInstruction], config: HwConfig) -> Mapping[str, int]:
    """Checks, from the flags alone, that every hazard is ordered, nothing deadlocks, and no queue
    passes MAX_TOKENS.

    Returns the largest number of tokens each queue can hold in any execution. Raises LoweringError
    naming two instructions.
    """
    clock = _vector_clocks(instructions)
    hazards = Hazards(config, instructions)
    for number, instruction in enumerate(instructions):
        for stage, last in enumerate(hazards.conflicts(instruction)):
            if last > clock.before[number][stage]:
                raise LoweringError(
                    f"synchronize: instruction {number} ({instruction.name}) is not ordered after "
                    f"{last} ({instructions[last].name}), which touches the same tiles"
                )
        hazards.record(instruction, number)
    return {str(queue): _most_tokens(clock, queue) for queue in TOKEN_QUEUES}


@dataclass(frozen=True)
class _Clocks:
    """before[n][g]: the last instruction of stage g that is complete when n begins. pushes, pops:
    numbers, per queue."""

    before: list[list[int]]
    pushes: Mapping[TokenQueue, list[int]]
    pops: Mapping[TokenQueue, list[int]]


def _vector_clocks(instructions: Sequence[PendingInstruction]) -> _Clocks:
    knows = [[NONE] * len(Stage) for _ in Stage]
    after: list[list[int]] = []
    before: list[list[int]] = []
    pushes: dict[TokenQueue, list[int]] = {queue: [] for queue in TOKEN_QUEUES}
    pops: dict[TokenQueue, list[int]] = {queue: [] for queue in TOKEN_QUEUES}
    for number, instruction in enumerate(instructions):
        stage = instruction.stage
        known = knows[stage]
        for queue in TOKEN_QUEUES:
            if queue.popper is stage and getattr(instruction.insn, queue.pop):
                turn = len(pops[queue])
                if turn >= len(pushes[queue]):
                    raise LoweringError(
                        f"synchronize: instruction {number} waits for token {turn} of "
                        f"{queue.pusher.name}, which nothing before it pushes"
                    )
                pops[queue].append(number)
                known = [max(a, b) for a, b in zip(known, after[pushes[queue][turn]], strict=True)]
        before.append(known)
        known = list(known)
        known[stage] = number
        knows[stage] = known
        after.append(known)
        for queue in TOKEN_QUEUES:
            if queue.pusher is stage and getattr(instruction.insn, queue.push):
                pushes[queue].append(number)
    for queue in TOKEN_QUEUES:
        if len(pushes[queue]) != len(pops[queue]):
            raise LoweringError(
                f"synchronize: {len(pushes[queue]) - len(pops[queue])} tokens from "
                f"{queue.pusher.name} to {queue.popper.name} are never taken"
            )
    return _Clocks(before, pushes, pops)


def _most_tokens(clock: _Clocks, queue: TokenQueue) -> int:
    """When the n-th push happens, the pops known to be complete have emptied the queue by at least
    their number."""
    most = 0
    taken = np.array(clock.pops[queue])
    for turn, number in enumerate(clock.pushes[queue]):
        done = int(np.searchsorted(taken, clock.before[number][queue.popper], side="right"))
        most = max(most, turn + 1 - done)
    if most > MAX_TOKENS:
        raise LoweringError(
            f"synchronize: the queue {queue.pusher.name} -> {queue.popper.name} may hold {most} "
            f"tokens; the limit is {MAX_TOKENS}"
        )
    return most
