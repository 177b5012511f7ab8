# SPDX-License-Identifier: Apache-2.0
"""Fold a loop nest of any depth into the two hardware loops and a list of micro-ops.

In:   the extents of a nest and its accesses, the tiles' addresses, what the instruction's factor
      fields can hold.
Out:  `FoldedNest`s: one for each instruction that the nest becomes.
Next: passes/encode/encode.py makes GEMM and ALU instructions of them.

A GEMM or ALU instruction is two hardware loops around a list of micro-ops. A nest of more loops is
folded:

    for oc<4 i<8 j<16 ic<2 kh<3 kw<3:            iter_out = i, iter_in = j        the two longest
        stay loops,
      acc[..] += inp[..] * wgt[..]        ->     uops = (oc, ic, kh, kw): 72      the others are
      written out

Loops that are contiguous in every operand are merged first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError

__all__ = [
    "FoldedNest",
    "FoldingLimits",
    "Loop",
    "LoopNest",
    "fold_nest",
    "merged_loops",
    "offsets",
]

#: One loop: its extent, and how far it moves each operand.
Loop: TypeAlias = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops, outermost first, and the tile that each operand begins with."""

    loops: tuple[Loop, ...]
    bases: NDArray[np.int64]

    def reductions_outermost(self) -> LoopNest:
        """The same steps with those that write one accumulator tile again as far apart as can be:
        VTA's ALU does not see results of the last two steps."""
        return LoopNest(tuple(sorted(self.loops, key=lambda loop: loop[1][0] != 0)), self.bases)

    def parts(self, distance: int) -> Iterator[LoopNest]:
        """The nest; or one for each turn of its reductions, where fewer than `distance` steps lie
        between those that write one accumulator tile."""
        moving = tuple(loop for loop in self.loops if loop[1][0])
        reductions = [loop for loop in self.loops if not loop[1][0]]
        if not reductions or prod(n for n, _ in moving) >= distance:
            yield self
            return
        for shift in offsets(reductions, len(self.bases)):
            yield LoopNest(moving, self.bases + shift)


@dataclass(frozen=True, slots=True, eq=False)
class FoldingLimits:
    """What an instruction can hold: turns of a hardware loop; of each operand, the largest factor;
    micro-ops. Known by identity: passes/encode/folding.py asks with them for every operation."""

    turns: int
    factors: tuple[int, ...]
    uops: int


@dataclass(frozen=True, slots=True)
class FoldedNest:
    """One instruction. uops (n, operands): absolute tile indices."""

    outer: Loop
    inner: Loop
    uops: NDArray[np.int64]

    @property
    def reach(self) -> list[int]:
        """How far the hardware loops move each operand."""
        (n0, s0), (n1, s1) = self.outer, self.inner
        return [(n0 - 1) * a + (n1 - 1) * b for a, b in zip(s0, s1, strict=True)]


def merged_loops(extents: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> tuple[Loop, ...]:
    """Loops of one turn left out, loops that are contiguous in every operand merged. strides: of
    each operand, one for each loop."""
    merged: list[Loop] = []
    for k, n in enumerate(extents):
        if n == 1:
            continue
        steps = tuple(of_operand[k] for of_operand in strides)
        if merged and all(
            outer == n * inner for outer, inner in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * n, steps)
        else:
            merged.append((n, steps))
    return tuple(merged)


def offsets(loops: Sequence[Loop], operands: int) -> NDArray[np.int64]:
    """(product of extents, operands): every combination of the loops, outermost first."""
    table = np.zeros((1, operands), np.int64)
    for n, strides in loops:
        table = (
            table[:, None, :] + np.arange(n)[None, :, None] * np.array(strides, np.int64)
        ).reshape(-1, operands)
    return table


def fold_nest(
    nest: LoopNest,
    limits: FoldingLimits,
    *,
    reductions_in_uops: bool = False,
    in_order: bool = False,
    keep_sums: bool = False,
) -> Iterator[FoldedNest]:
    """An instruction for each turn of the loops that fit nowhere.

    reductions_in_uops: no hardware loop may leave the accumulator where it is, so that the first
        step of every accumulator tile comes first in the list. Raises LoweringError where the list
        gets too long.
    in_order: the hardware loops must be the outermost ones, so that steps keep the order of the
        nest.
    keep_sums: as reductions_in_uops, but a list that is too long becomes several: each accumulator
        tile takes its products in the order of the nest, which decides what a sum of floats is.
    """
    operands = len(nest.bases)
    chosen = _hardware_loops(nest, limits, reductions_in_uops or keep_sums, in_order)
    hardware = [nest.loops[k] for k in chosen]
    while len(hardware) < 2:
        hardware.insert(0, (1, (0,) * operands))
    inside = [loop for k, loop in enumerate(nest.loops) if k not in chosen]
    if reductions_in_uops or keep_sums:
        inside.sort(key=lambda loop: loop[1][0] != 0)
    outside: list[Loop] = []
    while prod(n for n, _ in inside) > limits.uops:
        outside.append(inside.pop(0))
    if reductions_in_uops and outside:
        raise LoweringError("encode: the reductions of a GEMM do not fit the micro-op scratchpad")
    uops = offsets(inside, operands)
    for shift in offsets(outside, operands):
        yield FoldedNest(hardware[0], hardware[1], uops + (nest.bases + shift))


def _hardware_loops(
    nest: LoopNest, limits: FoldingLimits, reductions_in_uops: bool, in_order: bool
) -> tuple[int, ...]:
    """Numbers of the at most two loops whose turns are most, of those that the fields can hold."""
    usable = [
        k
        for k, (n, strides) in enumerate(nest.loops)
        if n <= limits.turns
        and all(0 <= s <= most for s, most in zip(strides, limits.factors, strict=True))
        and (strides[0] != 0 or not reductions_in_uops)
    ]
    if in_order:
        usable = [k for k in (0, 1) if k in usable] if 0 in usable else []
    choices = [*combinations(usable, 2), *((k,) for k in usable), ()]
    return max(choices, key=lambda choice: prod(nest.loops[k][0] for k in choice))
