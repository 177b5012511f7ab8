# SPDX-License-Identifier: Apache-2.0
"""That every run of the three queues computes what the order of the stream computes.

In:   for each instruction its queue, its token flags, and what it reads and writes.
Out:  Tokens: raises NotProved where two runs could differ, or one could stall.
Next: proof.py hands it each instruction behind the machine.

The k-th pop of a token queue takes the k-th push, so the pairs are the same in every run. Shown is
that each push stands before its pop in the stream, so that the order of the stream is one of the
runs and none stalls; that of two instructions of different queues that touch one cell, one of
them writing, the earlier has ended when the later begins (vector clocks); that FINISH is behind
all queues; and that no token is left. A cell is a tile of a scratchpad, or of OUT in DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.verdict import NotProved
from loadstone.vta.isa.insn import Finish, Insn, stage_of
from loadstone.vta.isa.spec import MAX_TOKENS, TOKEN_QUEUES, Stage, TokenQueue

__all__ = ["CellAccess", "Tokens"]

_STAGES = len(Stage)
Cells = list[tuple[str, Integers]]


@dataclass
class CellAccess:
    """What an instruction touches: names of memories, and numbers of their cells. stored: symbols
    that a STORE wrote."""

    reads: Cells = field(default_factory=list)
    writes: Cells = field(default_factory=list)
    stored: Integers | None = None


class _Space:
    """Of each cell: which queue wrote it last, and when; when each queue read it last."""

    def __init__(self, cells: int) -> None:
        self.by = np.full(cells, -1)
        self.at = np.zeros(cells, np.int64)
        self.read = np.full((_STAGES, cells), -1)


class Tokens:
    """The clocks of one program."""

    def __init__(self, sizes: dict[str, int]) -> None:
        """sizes: cells of each memory."""
        self._spaces = {name: _Space(cells) for name, cells in sizes.items()}
        self._waiting: dict[TokenQueue, list[Integers]] = {queue: [] for queue in TOKEN_QUEUES}
        self._latest = np.zeros((_STAGES, _STAGES), np.int64)
        self._count = np.zeros(_STAGES, np.int64)
        self._finished = False

    def step(self, instruction: Insn, access: CellAccess) -> None:
        """The next instruction of the stream. Raises NotProved."""
        if self._finished:
            raise NotProved("it stands behind FINISH")
        stage = stage_of(instruction)
        now = self._latest[stage].copy()
        now[stage] = self._count[stage]
        for name in ("pop_prev", "pop_next"):
            if getattr(instruction, name):
                now = np.maximum(now, self._popped(stage, name))
        for space, cells in access.reads:
            self._ordered(space, cells, stage, now, "reads")
        for space, cells in access.writes:
            self._ordered(space, cells, stage, now, "overwrites")
            for other in range(_STAGES):
                if (self._spaces[space].read[other, cells] >= now[other]).any():
                    raise NotProved(f"it overwrites {space} that may not be read yet")
        for space, cells in access.reads:
            self._spaces[space].read[stage, cells] = self._count[stage]
        for space, cells in access.writes:
            self._spaces[space].by[cells] = stage
            self._spaces[space].at[cells] = self._count[stage]
        if isinstance(instruction, Finish):
            self._finished = True
            if (now < self._count).any():
                raise NotProved("FINISH may come before another queue has ended")
        self._count[stage] += 1
        now[stage] = self._count[stage]
        self._latest[stage] = now
        for name in ("push_prev", "push_next"):
            if getattr(instruction, name):
                self._push(stage, name, now)

    def end(self) -> None:
        """Behind the last instruction. Raises NotProved."""
        if not self._finished:
            raise NotProved("the program has no FINISH")
        left = [str(queue) for queue, tokens in self._waiting.items() if tokens]
        if left:
            raise NotProved(f"tokens are left over: {', '.join(left)}")

    def _popped(self, stage: Stage, name: str) -> Integers:
        for queue, tokens in self._waiting.items():
            if queue.popper == stage and queue.pop == name:
                if not tokens:
                    raise NotProved(f"it waits for a token {queue} that nobody pushed before it")
                return tokens.pop(0)
        raise NotProved(f"{name} of a queue that stage {stage.name} has not")

    def _push(self, stage: Stage, name: str, now: Integers) -> None:
        for queue, tokens in self._waiting.items():
            if queue.pusher == stage and queue.push == name:
                tokens.append(now)
                if len(tokens) > MAX_TOKENS:
                    raise NotProved(f"more than {MAX_TOKENS} tokens {queue}")
                return
        raise NotProved(f"{name} of a queue that stage {stage.name} has not")

    def _ordered(self, name: str, cells: Integers, stage: Stage, now: Integers, what: str) -> None:
        space = self._spaces[name]
        by, at = space.by[cells], space.at[cells]
        if ((by >= 0) & (by != stage) & (at >= now[by])).any():
            raise NotProved(f"it {what} {name} that may not be written yet")
