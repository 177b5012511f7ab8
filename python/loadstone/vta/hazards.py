# SPDX-License-Identifier: Apache-2.0
"""What orders instructions against each other, and the proof that a stream's tokens do.

In:   instructions in program order: the stage of each, the scratchpad tiles and DRAM bytes it
      reads and writes.
Out:  `Hazards`: the last instruction of each stage that one must not overtake; `prove`: that the
      tokens of a stream keep every hazard in order, cannot deadlock and overflow no queue.
Next: synchronize.py asks the first to set tokens, and the second whether they are right.

isa/hazards.py has the tables, isa/token_proof.py the proof, for these instructions and any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from loadstone.isa.hazards import NONE, Toucher, TouchRows, TouchTable, conflicts_of
from loadstone.isa.token_proof import TokenStream, prove_order
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import (
    MAX_TOKENS,
    TOKEN_FLAGS,
    TOKEN_QUEUES,
    Memory,
    Stage,
)
from loadstone.vta.program import DramRows, PendingInstruction

__all__ = ["STAGES", "Hazards", "conflicts_between", "prove"]

#: Names of the stages, in messages.
STAGES = tuple(stage.name for stage in Stage)
#: As ndarray.max, without its Python: asked of a few tiles, some ten thousand times a network.
_largest = np.maximum.reduce
#: The token flags of an instruction, and which of them are set.
_flags_of = attrgetter(*TOKEN_FLAGS)
_FLAGS_SET = {
    values: [flag for flag, value in zip(TOKEN_FLAGS, values, strict=True) if value]
    for values in product((0, 1), repeat=len(TOKEN_FLAGS))
}


class Hazards:
    """Who touched each scratchpad tile and each piece of DRAM last: per stage, the last writer and
    the last reader.

    Only what some other stage may conflict with is written down: micro-ops are loaded and read by
    compute alone, input tiles are never written by compute.
    """

    def __init__(self, config: HwConfig, instructions: Sequence[PendingInstruction]) -> None:
        self.grain = min(config.tile_bytes(Memory.INP), 4)
        self.scratch: dict[tuple[Memory, int, bool], TouchRows] = {}
        self.dram: dict[tuple[int, int, bool], TouchRows] = {}
        scratch, dram, ends = _touched(instructions, self.grain)
        for memory, touches in scratch.items():
            for (stage, written), rows in TouchTable(touches, config.depth(memory)).of.items():
                self.scratch[memory, stage, written] = rows
        for region, touches in dram.items():
            for (stage, written), rows in TouchTable(touches, ends[region]).of.items():
                self.dram[region, stage, written] = rows

    def conflicts(self, instruction: PendingInstruction, number: int) -> list[int]:
        """Per stage, the last instruction that instruction `number`, this one, must not
        overtake."""
        stage = instruction.stage
        last = [NONE, NONE, NONE]
        for memory, first, end, written in instruction.scratch:
            asked, told = self.scratch[memory, stage, written]
            for other, row in asked:
                found = int(_largest(row[first:end]))
                if found > last[other]:
                    last[other] = found
            if told is not None:
                told[first:end] = number
        rows = instruction.dram
        if rows is not None:
            asked, told = self.dram[rows.region, stage, rows.written]
            for other, row in asked:
                found = int(_largest(_rows_view(row, rows, self.grain), None))
                if found > last[other]:
                    last[other] = found
            if told is not None:
                _rows_view(told, rows, self.grain)[...] = number
        return last


def _touched(
    instructions: Sequence[PendingInstruction], grain: int
) -> tuple[dict[Memory, set[Toucher]], dict[int, set[Toucher]], dict[int, int]]:
    """By scratchpad, and by region of DRAM, which stages write and read it; and where the last
    touch of a region ends, in grains."""
    scratch: dict[Memory, set[Toucher]] = {}
    dram: dict[int, set[Toucher]] = {}
    ends: dict[int, int] = {}
    kinds = {
        (touched.memory, (instruction.stage, touched.written))
        for instruction in instructions
        for touched in instruction.scratch
    }
    for memory, toucher in kinds:
        scratch.setdefault(memory, set()).add(toucher)
    for instruction in instructions:
        stage, rows = instruction.stage, instruction.dram
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


def conflicts_between(
    instructions: Sequence[PendingInstruction], config: HwConfig
) -> list[list[int]]:
    """Of each instruction: per stage, the last one before it that it must not overtake."""
    return conflicts_of(instructions, Hazards(config, instructions))


def prove(
    instructions: Sequence[PendingInstruction],
    config: HwConfig,
    conflicts: NDArray[np.int64] | None = None,
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
        conflicts = np.array(conflicts_between(instructions, config), np.int64)
    limits = [MAX_TOKENS] * len(TOKEN_QUEUES)
    most = prove_order(stream, conflicts, TOKEN_QUEUES, limits)
    return {str(queue): most[k] for k, queue in enumerate(TOKEN_QUEUES)}
