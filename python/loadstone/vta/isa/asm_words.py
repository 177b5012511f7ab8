# SPDX-License-Identifier: Apache-2.0
"""Words that the text of instructions is made of, in both directions.

In:   the instruction set (spec.py).
Out:  tables: neighbours of stages, sides of pads, signs of ALU operations, no-ops.
Next: asm.py writes text with them, asm_parser.py reads it.
"""

from __future__ import annotations

from loadstone.vta.isa.insn import Insn, Load, Store
from loadstone.vta.isa.spec import TOKEN_QUEUES, AluOp, Memory, Stage

__all__ = ["ALU_SIGNS", "NEIGHBOURS", "NOOPS", "PADS"]

#: Neighbour of a stage -> the flags that pop its token and push it one.
NEIGHBOURS = {
    stage: {
        back.pusher.name.lower(): (back.pop, queue.push)
        for queue in TOKEN_QUEUES
        for back in TOKEN_QUEUES
        if queue.pusher is stage and (back.pusher, back.popper) == (queue.popper, stage)
    }
    for stage in Stage
}
PADS = {"top": "y_pad_0", "bottom": "y_pad_1", "left": "x_pad_0", "right": "x_pad_1"}
ALU_SIGNS = {
    AluOp.MIN: "min=",
    AluOp.MAX: "max=",
    AluOp.ADD: "+=",
    AluOp.SHR: ">>=",
    AluOp.MUL: "*=",
    AluOp.RQ: "rq=",
}
NOOPS: dict[str, Insn] = {
    "load": Load(memory_id=Memory.INP),
    "compute": Load(memory_id=Memory.UOP),
    "store": Store(),
}
