# SPDX-License-Identifier: Apache-2.0
"""Tokens for random programs: every stage waits for what it needs.

In:   steps: instructions with what they read and write.
Out:  instructions with push and pop flags, no token left at the end; which tiles a loop of
      micro-ops uses.
Next: programs.py makes programs of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.insn import Alu, Depthwise, Finish, Gemm, Insn, Load, MicroOp, stage_of
from loadstone.vta.isa.spec import (
    TOKEN_QUEUES,
    Memory,
    Stage,
)

_PUSH = {(queue.pusher, queue.popper): queue.push for queue in TOKEN_QUEUES}


_POP = {(queue.pusher, queue.popper): queue.pop for queue in TOKEN_QUEUES}


#: Numbers of tiles of scratchpads, and of pieces of DRAM that are as large as the smallest tile.
Places = NDArray[np.int64]


@dataclass
class Step:
    insn: Insn
    reads: Places
    writes: Places


class _Order:
    """Instructions so far, and what each stage knows to be over."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.insns: list[Insn] = []
        self.knows: dict[tuple[Stage, Stage], int] = {}  # (who, of whom) -> the last instruction
        self.knew: list[dict[Stage, int]] = []  # the same of each instruction's stage, when it ran

    def append(self, insn: Insn, needs: dict[Stage, int]) -> int:
        """Adds `insn`, after the instructions of other stages that it needs; returns its number."""
        who = stage_of(insn)
        needs = {
            source: number
            for source, number in needs.items()
            if number > self.knows.get((who, source), -1)
        }
        far = {Stage.LOAD: Stage.STORE, Stage.STORE: Stage.LOAD}.get(who)
        if far in needs:  # no neighbours: by way of a no-op in compute
            needs[Stage.COMPUTE] = self.append(Load(memory_id=Memory.UOP), {far: needs.pop(far)})
        for source, number in needs.items():
            self._push(number, source, who)
            insn = replace(insn, **{_POP[source, who]: 1})
        self.insns.append(insn)
        self.knew.append({of: last for (knower, of), last in self.knows.items() if knower == who})
        return len(self.insns) - 1

    def _push(self, number: int, source: Stage, who: Stage) -> None:
        """Instruction `number`, or a later one of its stage, pushes to `who`: tokens keep the order
        of their pops."""
        flag = _PUSH[source, who]
        later = [n for n in range(number, len(self.insns)) if stage_of(self.insns[n]) == source]
        chosen = later[0] if self.chance(0.7) else later[-1]
        self.insns[chosen] = replace(self.insns[chosen], **{flag: 1})
        self.knows[who, source] = chosen
        for of, last in self.knew[chosen].items():
            if of != who:
                self.knows[who, of] = max(self.knows.get((who, of), -1), last)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)


def with_tokens(steps: list[Step], rng: np.random.Generator) -> list[Insn]:
    """Sets flags for every hazard, and ends with a FINISH that waits for all stages."""
    order = _Order(rng)
    size = 1 + max(
        int(places.max(initial=0)) for step in steps for places in (step.reads, step.writes)
    )
    # By stage and place: the last instruction that wrote it, if no other stage did since; those
    # that read it since.
    writer, readers = np.full((len(Stage), size), -1), np.full((len(Stage), size), -1)
    last: dict[Stage, int] = {}
    for step in steps:
        who = stage_of(step.insn)
        written = writer[:, np.concatenate([step.reads, step.writes])].max(axis=1, initial=-1)
        latest = np.maximum(written, readers[:, step.writes].max(axis=1, initial=-1)).tolist()
        needs = {
            source: latest[source] for source in Stage if source != who and latest[source] >= 0
        }
        number = last[who] = order.append(step.insn, needs)
        readers[who, step.reads] = number
        writer[:, step.writes] = readers[:, step.writes] = -1
        writer[who, step.writes] = number
    order.append(
        Finish(), {stage: number for stage, number in last.items() if stage != Stage.COMPUTE}
    )
    return order.insns


def indices(insn: Gemm | Depthwise | Alu, uops: list[MicroOp], operand: str) -> list[int]:
    """Of all steps. The weights of DEPTHWISE move with the outer loop alone."""
    out, inner = getattr(insn, operand + "_out"), getattr(insn, operand + "_in", 0)
    return [
        getattr(u, operand) + i * out + j * inner
        for i in range(insn.iter_out)
        for j in range(insn.iter_in)
        for u in uops
    ]


def far_apart(dst: list[int], src: list[int]) -> bool:
    """Whether no tile is used within the two steps after the one that writes it."""
    return all(
        dst[k] not in (dst[n], src[n]) for n in range(len(dst)) for k in range(max(0, n - 2), n)
    )
