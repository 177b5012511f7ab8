# SPDX-License-Identifier: Apache-2.0
"""Rule V17 once more, written from runtime/VALIDATION.md, not runtime/isolated.c.

In:   instructions, and micro-ops as they are loaded.
Out:  the instructions that may read what their program has not written.
Next: test_isolated_rule.py compares.

Tiles are sets of numbers, step by step: slow, and easy to believe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from loadstone.vta.isa.codec import Alu, Config, Depthwise, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import LOAD_STAGE, AluOp, Memory, Stage
from tests.vta.isa.planes_by_hand import rows_by_hand

__all__ = ["Uop", "residues"]

Uop = tuple[int, int, int]
_DST, _SRC, _WGT = range(3)


def _stage(insn: Insn) -> Stage:
    if isinstance(insn, Load):
        return LOAD_STAGE[Memory(insn.memory_id)]
    if isinstance(insn, Store):
        return Stage.STORE
    return Stage(insn.stage) if isinstance(insn, Config) else Stage.COMPUTE


def _tiles(uops: Sequence[Uop], insn: Gemm | Alu | Depthwise, which: int, name: str) -> set[int]:
    """Of an operand, one for each step."""
    step_out = getattr(insn, f"{name}_out")
    step_in = getattr(insn, f"{name}_in", 0)
    loops = product(range(insn.iter_out), range(insn.iter_in), range(insn.uop_bgn, insn.uop_end))
    return {uops[u][which] + i * step_out + j * step_in for i, j, u in loops}


def _written(
    insn: Insn, uops: Sequence[Uop], code: Callable[[Load], bytes]
) -> Iterator[tuple[Memory, set[int]]]:
    if isinstance(insn, Load) and insn.x_size and insn.memory_id == Memory.WGT_PLANES:
        if len(rows_by_hand(code(insn), 16 * insn.y_size)) == 16 * insn.y_size:
            yield Memory.WGT, set(range(insn.sram_base, insn.sram_base + insn.y_size))
    elif isinstance(insn, Load) and insn.x_size:
        rows = insn.y_pad_0 + insn.y_size + insn.y_pad_1
        count = rows * (insn.x_pad_0 + insn.x_size + insn.x_pad_1)
        memory = Memory(insn.memory_id)
        if memory is Memory.WGT_4BIT:  # groups of two tiles with blocks of 16
            count *= 2
        memory = {Memory.ACC_8BIT: Memory.ACC, Memory.WGT_4BIT: Memory.WGT}.get(memory, memory)
        yield memory, set(range(insn.sram_base, insn.sram_base + count))
    if isinstance(insn, Store) and insn.memory_id == Memory.INP:
        rows = (insn.dram_base + y * insn.x_stride for y in range(insn.y_size))
        yield Memory.INP, {first + x for first in rows for x in range(insn.x_size)}
    if isinstance(insn, Gemm | Alu | Depthwise):
        yield Memory.ACC, _tiles(uops, insn, _DST, "dst")
        if not getattr(insn, "reset", 0):
            yield Memory.OUT, _tiles(uops, insn, _DST, "dst")


def _read(insn: Insn, uops: Sequence[Uop]) -> Iterator[tuple[Memory, set[int]]]:
    if isinstance(insn, Gemm) and not insn.reset:
        yield Memory.INP, _tiles(uops, insn, _SRC, "src")
        yield Memory.WGT, _tiles(uops, insn, _WGT, "wgt")
    if isinstance(insn, Depthwise):
        first = _tiles(uops, insn, _SRC, "src")
        window = [r * insn.row_stride + c for r in range(insn.rows) for c in range(insn.columns)]
        yield Memory.INP, {tile + more for tile in first for more in window}
        yield Memory.WGT, _tiles(uops, insn, _WGT, "wgt")
    adds = isinstance(insn, Depthwise) or (isinstance(insn, Gemm) and not insn.reset)
    if adds and not insn.overwrite:
        yield Memory.ACC, _tiles(uops, insn, _DST, "dst")
    if isinstance(insn, Alu):
        yield Memory.ACC, _tiles(uops, insn, _DST, "dst")
        if not insn.use_imm:
            more = 3 if insn.alu_op == AluOp.RQ else 1
            source = _tiles(uops, insn, _SRC, "src")
            yield Memory.ACC, {tile + k for tile in source for k in range(more)}
    if isinstance(insn, Store) and insn.x_size:
        count = insn.y_size * insn.x_size
        whole = insn.requantize or insn.memory_id == Memory.ACC
        memory = Memory.ACC if whole else Memory.OUT
        yield memory, set(range(insn.sram_base, insn.sram_base + count))
        if insn.requantize:
            rows = insn.y_size if insn.operand_step else 1
            yield Memory.ACC, set(range(insn.operands, insn.operands + 3 * rows))


def residues(
    program: Sequence[Insn],
    loaded: Callable[[Load], Sequence[Uop]],
    code: Callable[[Load], bytes] = lambda _: b"",
) -> list[int]:
    """Numbers of instructions that break the rule, with blocks of 16. loaded: the micro-ops of a
    LOAD; code: of one of WGT_PLANES the constants that it reads, none where it reads others."""
    uops: list[Uop] = [(0, 0, 0)] * (1 << 13)
    done: list[tuple[Stage, list[tuple[Memory, set[int]]]]] = []
    wanted: list[list[tuple[Memory, set[int]]]] = []
    for insn in program:
        if isinstance(insn, Load) and insn.memory_id == Memory.UOP and insn.x_size:
            uops[insn.sram_base : insn.sram_base + insn.x_size] = loaded(insn)
        done.append((_stage(insn), list(_written(insn, uops, code))))
        wanted.append(list(_read(insn, uops)))
    found = []
    for number, insn in enumerate(program):
        stage = _stage(insn)
        certain = _certain(program, number, stage)
        for memory, tiles in wanted[number]:
            there = {
                tile
                for place in certain
                for of, written in done[place][1]
                if of is memory
                for tile in written
            }
            if not tiles <= there:
                found.append(number)
                break
    return found


def _certain(program: Sequence[Insn], number: int, stage: Stage) -> list[int]:
    """The instructions that have certainly ended when this one begins."""
    certain = own = [n for n in range(number) if _stage(program[n]) is stage]
    told = {Stage.COMPUTE: [Stage.LOAD, Stage.STORE], Stage.STORE: [Stage.COMPUTE]}
    for other in told.get(stage, []):
        pop, push = ("pop_prev", "push_next") if other < stage else ("pop_next", "push_prev")
        popped = sum(getattr(program[n], pop) for n in (*own, number))
        pushes = [n for n, i in enumerate(program) if _stage(i) is other and getattr(i, push)]
        if popped:
            last = pushes[popped - 1]
            certain = certain + [n for n in range(last + 1) if _stage(program[n]) is other]
    return certain
