# SPDX-License-Identifier: Apache-2.0
"""Which instructions touch the same place, and which of them tokens order: worked out by hand, as
an oracle for races.

In:   instructions, and the memory that micro-ops are loaded from.
Out:  `conflicts_of`: pairs of which one writes; `unordered`: those that no chain of tokens puts in
      order, None for a deadlock.
Next: vta/simulator/test_sim.py holds the simulator's check against it.

Nothing here is clever: sets of places, a graph of "is over before", reachability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_uops
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, Insn, Load, Store, stage_of
from loadstone.vta.isa.spec import SCRATCHPAD_OF, AluOp, Memory, Stage

__all__ = ["Token", "conflicts_of", "tokens_of", "unordered", "without"]

Place = tuple[str, int]
#: (instruction, its flag) of the push, and of the pop that takes the token.
Token = tuple[tuple[int, str], tuple[int, str]]
_QUEUES = (
    (Stage.LOAD, "push_next", Stage.COMPUTE, "pop_prev"),
    (Stage.COMPUTE, "push_prev", Stage.LOAD, "pop_next"),
    (Stage.COMPUTE, "push_next", Stage.STORE, "pop_prev"),
    (Stage.STORE, "push_prev", Stage.COMPUTE, "pop_next"),
)


def tokens_of(insns: Sequence[Insn]) -> list[Token] | None:
    """The n-th push into a queue meets the n-th pop; None when a pop has no push."""
    tokens: list[Token] = []
    for source, push, target, pop in _QUEUES:
        pushes = [n for n, i in enumerate(insns) if stage_of(i) == source and getattr(i, push)]
        pops = [n for n, i in enumerate(insns) if stage_of(i) == target and getattr(i, pop)]
        if len(pops) > len(pushes):
            return None
        tokens += [((a, push), (b, pop)) for a, b in zip(pushes, pops, strict=False)]
    return tokens


def without(insns: Sequence[Insn], *flags: tuple[int, str]) -> list[Insn]:
    """The same instructions with these flags cleared."""
    changed = list(insns)
    for number, flag in flags:
        changed[number] = replace(changed[number], **{flag: 0})
    return changed


def conflicts_of(
    insns: Sequence[Insn], config: HwConfig, memory: NDArray[np.uint8], base: int
) -> set[tuple[int, int]]:
    """Pairs (earlier, later) of different stages that touch the same place, one of them writing:
    whatever the tokens."""
    touched = _touched(insns, config, memory, base)
    found = set()
    for b, (reads_b, writes_b) in enumerate(touched):
        for a, (reads_a, writes_a) in enumerate(touched[:b]):
            if stage_of(insns[a]) != stage_of(insns[b]) and (
                writes_a & (reads_b | writes_b) or writes_b & reads_a
            ):
                found.add((a, b))
    return found


def unordered(insns: Sequence[Insn], pairs: set[tuple[int, int]]) -> set[tuple[int, int]] | None:
    """Those of `pairs` that no chain of tokens orders; None for a deadlock."""
    tokens = tokens_of(insns)
    if tokens is None:
        return None
    before: list[set[int]] = [set() for _ in insns]  # direct predecessors
    for stage in Stage:
        own = [n for n, i in enumerate(insns) if stage_of(i) == stage]
        for a, b in pairwise(own):
            before[b].add(a)
    for (a, _), (b, _) in tokens:
        before[b].add(a)
    closure = _closure(before)
    return (
        None
        if closure is None
        else {(a, b) for a, b in pairs if a not in closure[b] and b not in closure[a]}
    )


def _closure(before: list[set[int]]) -> list[set[int]] | None:
    """Everything before each instruction; None when there is a circle."""
    done: dict[int, set[int]] = {}
    left = set(range(len(before)))
    while left:
        ready = [n for n in left if before[n] <= done.keys()]
        if not ready:
            return None
        for n in ready:
            done[n] = set(before[n]).union(*(done[p] for p in before[n]))
            left.discard(n)
    return [done[n] for n in range(len(before))]


def _touched(
    insns: Sequence[Insn], config: HwConfig, memory: NDArray[np.uint8], base: int
) -> list[tuple[set[Place], set[Place]]]:
    """(reads, writes) of each instruction."""
    uops = np.zeros((config.depth(Memory.UOP), 3), np.int64)
    result = []
    for insn in insns:
        reads: set[Place] = set()
        writes: set[Place] = set()
        match insn:
            case Load() | Store() if insn.x_size:
                memory_id = Memory(insn.memory_id)
                size, first = config.tile_bytes(memory_id), config.base_bytes(memory_id)
                first *= insn.dram_base
                rows = [first + y * insn.x_stride * size for y in range(insn.dram_rows)]
                dram = {
                    ("DRAM", byte) for row in rows for byte in range(row, row + insn.x_size * size)
                }
                width, height = insn.x_size, insn.y_size
                if isinstance(insn, Load):
                    width += insn.x_pad_0 + insn.x_pad_1
                    height += insn.y_pad_0 + insn.y_pad_1
                name = "ACC" if isinstance(insn, Store) else SCRATCHPAD_OF[memory_id].name
                if isinstance(insn, Store) and insn.memory_id == Memory.INP:
                    dram = {("INP", byte // size) for _, byte in dram}
                count = width * height * config.filled_tiles(memory_id)
                if memory_id is Memory.WGT_PLANES:
                    count = height
                tiles = {(name, t) for t in range(insn.sram_base, insn.sram_base + count)}
                reads, writes = (dram, tiles) if isinstance(insn, Load) else (tiles, dram)
                if isinstance(insn, Store) and insn.requantize:
                    count = 3 * (insn.y_size if insn.operand_step else 1)
                    operands = range(insn.operands, insn.operands + count)
                    reads |= {("ACC", tile) for tile in operands}
                if insn.memory_id == Memory.UOP:
                    start = rows[0] - base
                    uops[insn.sram_base : insn.sram_base + insn.x_size] = decode_uops(
                        memory[start : start + 4 * insn.x_size], config
                    )
            case Gemm() | Depthwise() | Alu():
                steps = [
                    uops[u]
                    + np.array(
                        [
                            i * insn.dst_out + j * insn.dst_in,
                            i * insn.src_out + j * insn.src_in,
                            _wgt(insn, i, j),
                        ]
                    )
                    for i in range(insn.iter_out)
                    for j in range(insn.iter_in)
                    for u in range(insn.uop_bgn, insn.uop_end)
                ]
                writes = {("ACC", int(d)) for d, _, _ in steps}
                reads = set(writes)
                if isinstance(insn, Depthwise) or (isinstance(insn, Gemm) and not insn.reset):
                    window = _window(insn) if isinstance(insn, Depthwise) else [0]
                    reads |= {("INP", int(s) + t) for _, s, _ in steps for t in window} | {
                        ("WGT", int(w)) for _, _, w in steps
                    }
                if isinstance(insn, Alu) and not insn.use_imm:
                    reads |= {
                        ("ACC", int(s) + k)
                        for _, s, _ in steps
                        for k in range(3 if insn.alu_op == AluOp.RQ else 1)
                    }
            case _:
                pass
        result.append((reads, writes))
    return result


def _wgt(insn: Gemm | Depthwise | Alu, i: int, j: int) -> int:
    if isinstance(insn, Alu):
        return 0
    return i * insn.wgt_out + (j * insn.wgt_in if isinstance(insn, Gemm) else 0)


def _window(insn: Depthwise) -> list[int]:
    return [r * insn.row_stride + c for r in range(insn.rows) for c in range(insn.columns)]
