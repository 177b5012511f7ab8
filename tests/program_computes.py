# SPDX-License-Identifier: Apache-2.0
"""Random instructions of the compute stage: products, windows, ALU operations.

In:   a draft (program_draft.py).
Out:  one more GEMM, DEPTHWISE or ALU in it, and the LOAD of its micro-ops.
Next: programs.py chooses among them and those of program_moves.py.
"""

from __future__ import annotations

from dataclasses import replace

from loadstone.graph import bfloat16
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, MicroOp
from loadstone.vta.isa.spec import (
    VALUE_NEEDS,
    WINDOW_COLUMNS,
    AluOp,
    Capability,
    Memory,
    window_rows,
)
from tests.program_draft import Draft
from tests.program_moves import load
from tests.program_tokens import far_apart, indices

__all__ = ["alu", "depthwise", "gemm"]


def gemm(draft: Draft) -> None:
    turns = (draft.between(1, 4), draft.between(1, 4))
    w = draft.windows
    (dst_out, dst_in, dst), (src_out, src_in, src), (wgt_out, wgt_in, wgt) = (
        draft.factors(size, turns) for _, size in (w.acc, w.inp, w.wgt)
    )
    count = draft.between(1, 6)
    uops = [
        MicroOp(
            w.acc[0] + draft.below(dst), w.inp[0] + draft.below(src), w.wgt[0] + draft.below(wgt)
        )
        for _ in range(count)
    ]
    first = draft.micro_ops(uops)
    insn = Gemm(
        uop_bgn=first,
        uop_end=first + count,
        iter_out=turns[0],
        iter_in=turns[1],
        dst_out=dst_out,
        dst_in=dst_in,
        src_out=src_out,
        src_in=src_in,
        wgt_out=wgt_out,
        wgt_in=wgt_in,
        reset=int(draft.chance(0.15)),
        overwrite=int(draft.config.has(Capability.GEMM_OVERWRITE) and draft.chance(0.3)),
    )
    d, s, g = (set(indices(insn, uops, name)) for name in ("dst", "src", "wgt"))
    acc, uop = draft.places(Memory.ACC, d), draft.places(Memory.UOP, range(first, first + count))
    inputs = [] if insn.reset else [draft.places(Memory.INP, s), draft.places(Memory.WGT, g)]
    draft.emit(insn, [uop, *inputs, acc], [acc])
    draft.computed = draft.computed - d if insn.reset else draft.computed | d


def depthwise(draft: Draft) -> None:
    """Windows that move by rows, as those of a convolution do, and others."""
    turns = (draft.between(1, 3), draft.between(1, 4))
    w = draft.windows
    rows = draft.between(1, window_rows(draft.config.block))
    columns, stride = draft.between(1, WINDOW_COLUMNS), draft.between(0, 4)
    reach = (rows - 1) * stride + columns - 1
    (dst_out, dst_in, dst), (wgt_out, _, wgt) = (
        draft.factors(size, turns) for _, size in (w.acc, w.wgt)
    )
    src_out, src_in, src = draft.factors(w.inp[1] - reach, turns)
    below = draft.between(1, 2) * stride
    if draft.chance(0.7) and (left := w.inp[1] - reach - (turns[1] - 1) * below) > 0:
        src_out, src_in, src = 0, below, left
    count = draft.between(1, 4)
    first_src, apart = w.inp[0] + draft.below(src), draft.chance(0.5)
    uops = [
        MicroOp(
            w.acc[0] + draft.below(dst),
            w.inp[0] + draft.below(src) if apart else first_src,
            w.wgt[0] + draft.below(wgt),
        )
        for _ in range(count)
    ]
    if draft.chance(0.3) and first_src + (count - 1) * stride < w.inp[0] + src:
        uops = [replace(u, src=first_src + k * stride) for k, u in enumerate(uops)]
    first = draft.micro_ops(uops)
    insn = Depthwise(
        uop_bgn=first,
        uop_end=first + count,
        iter_out=turns[0],
        iter_in=turns[1],
        dst_out=dst_out,
        dst_in=dst_in,
        src_out=src_out,
        src_in=src_in,
        wgt_out=wgt_out,
        rows=rows,
        columns=columns,
        row_stride=stride,
        wide=int(draft.chance(0.4)),
        overwrite=int(draft.config.has(Capability.GEMM_OVERWRITE) and draft.chance(0.3)),
    )
    d, s, g = (set(indices(insn, uops, name)) for name in ("dst", "src", "wgt"))
    read = {t + r * stride + c for t in s for r in range(rows) for c in range(columns)}
    acc, uop = draft.places(Memory.ACC, d), draft.places(Memory.UOP, range(first, first + count))
    inputs = [draft.places(Memory.INP, read), draft.places(Memory.WGT, g)]
    draft.emit(insn, [uop, *inputs, acc], [acc])
    draft.computed |= d


def alu(draft: Draft) -> None:
    for _ in range(20):
        if _try_alu(draft):
            return


def _try_alu(draft: Draft) -> bool:
    op = draft.rng.choice(_operations(draft))
    requantizes = op == AluOp.RQ
    immediate = not requantizes and draft.chance(0.5)
    first, size = draft.windows.acc
    turns = (draft.between(1, 3), draft.between(1, 4))
    dst_out, dst_in, dst = draft.factors(size, turns)
    src_out, src_in, src = draft.factors(size - 2 * requantizes, turns)
    count = draft.between(1, 6)
    uops = [MicroOp(first + draft.below(dst), first + draft.below(src)) for _ in range(count)]
    if immediate and draft.safe:
        src_out, src_in, uops = dst_out, dst_in, [MicroOp(u.dst, u.dst) for u in uops]
    imm = draft.between(-16, 15) if op == AluOp.SHR else draft.between(-32768, 32767)
    if draft.config.is_float and draft.chance(0.7):
        imm = bfloat16.immediate(float(draft.rng.normal()))
    loops = {
        "iter_out": turns[0],
        "iter_in": turns[1],
        "dst_out": dst_out,
        "dst_in": dst_in,
        "src_out": src_out,
        "src_in": src_in,
    }
    insn = Alu(
        alu_op=int(op),
        use_imm=int(immediate),
        imm=imm if immediate else 0,
        uop_end=count,
        **loops,
    )
    d, s = indices(insn, uops, "dst"), indices(insn, uops, "src")
    if draft.safe and (
        (op == AluOp.SHR and not immediate) or not far_apart(d, d if immediate else s)
    ):
        return False
    if requantizes and draft.chance(0.3):
        load(draft, Memory.ACC, first, size, fill=True)  # data hold sensible operands, and others
    begin = draft.micro_ops(uops)
    insn = replace(insn, uop_bgn=begin, uop_end=begin + count)
    read = {t + k for t in s for k in range(3 if requantizes else 0 if immediate else 1)}
    written, uop = (
        draft.places(Memory.ACC, set(d)),
        draft.places(Memory.UOP, range(begin, begin + count)),
    )
    draft.emit(insn, [draft.places(Memory.ACC, read), written, uop], [written])
    draft.computed |= set(d)
    return True


def _operations(draft: Draft) -> list[AluOp]:
    has = draft.config.has
    needs = VALUE_NEEDS[AluOp]
    operations = [op for op in AluOp if op not in needs or has(needs[op])]
    if draft.config.is_float:
        operations.remove(AluOp.SHR)
    return operations + [AluOp.RQ] * 2 * has(Capability.REQUANTIZE)  # the richest: more often
