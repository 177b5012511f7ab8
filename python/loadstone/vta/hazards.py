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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
#: As ndarray.max, without its Python: asked of a few tiles, some ten thousand times a network.
_largest = np.maximum.reduce


#: What a range of tiles or bytes is touched by: a stage, and whether it writes.
_Touch: TypeAlias = tuple[int, bool]


class Hazards:
    """Who touched each scratchpad tile and each piece of DRAM last: per stage, the last writer and
    the last reader.

    Only what some other stage may conflict with is written down: micro-ops are loaded and read by
    compute alone, input tiles are never written by compute.
    """

    def __init__(self, config: HwConfig, instructions: Sequence[PendingInstruction]) -> None:
        self.grain = min(config.tile_bytes(Memory.INP), 4)
        self.scratch: dict[Memory, _Table] = {}
        self.dram: dict[int, _Table] = {}
        scratch, dram, ends = _touched(instructions, self.grain)
        for memory in dict.fromkeys(SCRATCHPAD_OF.values()):
            self.scratch[memory] = _Table(scratch.get(memory, set()), config.depth(memory))
        for region, touches in dram.items():
            self.dram[region] = _Table(touches, ends[region])

    def conflicts(self, instruction: PendingInstruction) -> list[int]:
        """Per stage, the last instruction that this one must not overtake."""
        stage = instruction.stage
        last = [NONE, NONE, NONE]
        for touched in instruction.scratch:
            for other, row in self.scratch[touched.memory].asked[stage, touched.written]:
                found = int(_largest(row[touched.first : touched.end]))
                if found > last[other]:
                    last[other] = found
        rows = instruction.dram
        if rows is not None:
            for other, row in self.dram[rows.region].asked[stage, rows.written]:
                found = int(_largest(_rows_view(row, rows, self.grain), None))
                if found > last[other]:
                    last[other] = found
        return last

    def record(self, instruction: PendingInstruction, number: int) -> None:
        """Instruction `number` of the stream is this one."""
        stage = instruction.stage
        for touched in instruction.scratch:
            row = self.scratch[touched.memory].told.get((stage, touched.written))
            if row is not None:
                row[touched.first : touched.end] = number
        rows = instruction.dram
        if rows is not None:
            row = self.dram[rows.region].told.get((stage, rows.written))
            if row is not None:
                _rows_view(row, rows, self.grain)[...] = number


class _Table:
    """One scratchpad, or one region of DRAM: of each kind of touch that conflicts with one of
    another stage, the last instruction by place.

    asked: of a touch, the stages and rows to look at: a writer conflicts with everyone, a reader
        with writers. told: the row that a touch is written into.
    """

    def __init__(self, touches: set[_Touch], size: int) -> None:
        pairs = {
            one: [other for other in touches if other[0] != one[0] and (one[1] or other[1])]
            for one in touches
        }
        self.told: dict[_Touch, NDArray[np.int32]] = {
            touch: np.full(size, NONE, np.int32)
            for touch in dict.fromkeys(other for others in pairs.values() for other in others)
        }
        self.asked = {
            one: [(other[0], self.told[other]) for other in others] for one, others in pairs.items()
        }


def _touched(
    instructions: Sequence[PendingInstruction], grain: int
) -> tuple[dict[Memory, set[_Touch]], dict[int, set[_Touch]], dict[int, int]]:
    """By scratchpad, and by region of DRAM, which stages write and read it; and where the last
    touch of a region ends, in grains."""
    scratch: dict[Memory, set[_Touch]] = {}
    dram: dict[int, set[_Touch]] = {}
    ends: dict[int, int] = {}
    for instruction in instructions:
        stage = instruction.stage
        for touched in instruction.scratch:
            scratch.setdefault(touched.memory, set()).add((stage, touched.written))
        rows = instruction.dram
        if rows is not None:
            dram.setdefault(rows.region, set()).add((stage, rows.written))
            end = rows.start_bytes + (rows.rows - 1) * rows.stride_bytes + rows.row_bytes
            ends[rows.region] = max(ends.get(rows.region, 0), -(-end // grain))
    return scratch, dram, ends


def _rows_view(table: NDArray[np.int32], rows: DramRows, grain: int) -> NDArray[np.int32]:
    """The places of some rows: shape (places,) where they follow each other, else (rows, places of
    a row)."""
    start, width, stride = (
        rows.start_bytes // grain,
        rows.row_bytes // grain,
        rows.stride_bytes // grain,
    )
    if rows.rows == 1 or stride == width:
        return table[start : start + rows.rows * width]
    step = table.strides[0]
    return np.ndarray((rows.rows, width), table.dtype, table, start * step, (stride * step, step))


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
    popped = {stage: [q for q in TOKEN_QUEUES if q.popper is stage] for stage in Stage}
    pushed = {stage: [q for q in TOKEN_QUEUES if q.pusher is stage] for stage in Stage}
    for number, instruction in enumerate(instructions):
        stage = instruction.stage
        known = knows[stage]
        for queue in popped[stage]:
            if getattr(instruction.insn, queue.pop):
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
        for queue in pushed[stage]:
            if getattr(instruction.insn, queue.push):
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
