# SPDX-License-Identifier: Apache-2.0
"""Folded loop nests as steps: what each instruction of a nest does, wherever its operands begin.

In:   an operation's nest, whose operands begin at 0.
Out:  `Step`s: one for each instruction that the nest becomes.
Next: expand.py makes forms of GEMM and ALU instructions of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.stream.loop_nest import (
    FoldedNest,
    FoldingLimits,
    Loop,
    LoopNest,
    fold_nest,
    merged_loops,
    offsets,
)
from loadstone.vta.stream.operations import Access, FillNest, GemmNest

__all__ = ["Step", "can_overwrite", "nest_of", "products", "steps", "windows"]


#: The operand of a product that is its weights.
_WGT = 2


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One instruction. uops (n, operands) and reach [low, end) of each operand: tiles, counted from
    where the operand begins. overwrite: of a GEMM that writes what it would add to."""

    outer: Loop
    inner: Loop
    uops: NDArray[np.int64]
    low: tuple[int, ...]
    end: tuple[int, ...]
    overwrite: int = 0


def nest_of(extents: tuple[int, ...], accesses: Sequence[Access]) -> LoopNest:
    """Every operand begins at 0; loops of one turn left out, loops that are contiguous in every
    operand merged."""
    loops = merged_loops(extents, [access.strides for access in accesses])
    return LoopNest(loops, np.zeros(len(accesses), np.int64))


def steps(nest: LoopNest, limits: FoldingLimits, *, in_order: bool = False) -> Iterator[Step]:
    """The nest's instructions; in_order: as of loop_nest.fold_nest."""
    return map(_step, fold_nest(nest, limits, in_order=in_order))


def products(
    nest: LoopNest, limits: FoldingLimits, *, fresh: bool, keep_sums: bool = False
) -> Iterator[Step]:
    """Those of a GEMM. fresh: the first micro-op of every accumulator tile overwrites; they come
    first, and keep their order. keep_sums: as of loop_nest.fold_nest. Raises LoweringError where
    that needs too long a list."""
    folded = fold_nest(nest, limits, reductions_in_uops=fresh, keep_sums=keep_sums)
    parts = (part for entry in folded for part in (_fresh(entry) if fresh else [entry]))
    for number, part in enumerate(parts):
        yield _step(part, int(fresh and number == 0))


def windows(nest: LoopNest, limits: FoldingLimits, rows: int) -> Iterator[Step]:
    """Those of a DEPTHWISE. rows: the number of the loop whose turns are innermost, since windows
    below each other share rows: the inner hardware loop, or the micro-ops where two other loops
    are hardware's. limits: of both loops, and of the factors of dst and src."""
    operands = len(nest.bases)
    inside = nest.loops[rows] if nest.loops else (1, (0,) * operands)
    rest = sorted((loop for loop in nest.loops if loop is not inside), key=lambda loop: loop[0])
    outer, inner, uops = _window_loops(inside, rest, limits)
    outside = [loop for loop in rest if loop is not inner and loop is not outer]
    if uops[0] > limits.uops:
        outside, uops = [*outside, uops], (1, (0,) * operands)
    for shift in offsets(outside, operands):
        listed = offsets([uops], operands) + (nest.bases + shift)
        yield _step(FoldedNest(outer, inner, listed))


def _window_loops(
    inside: Loop, rest: Sequence[Loop], limits: FoldingLimits
) -> tuple[Loop, Loop, Loop]:
    """The outer and the inner hardware loop, of which the inner one moves no weights, and that of
    the micro-ops. rest: the loops around `inside`, the one with most turns last."""
    once = (1, (0,) * len(inside[1]))
    usable = [once, *(loop for loop in rest if _fits(loop, limits))]
    still = [loop for loop in usable if not loop[1][_WGT]]
    if not _fits(inside, limits):
        return once, still[-1], inside
    if inside[1][_WGT]:
        return inside, still[-1], once
    if len(usable) > 2 and len(still) > 1 and inside[0] <= limits.uops:
        return [loop for loop in usable if loop is not still[-1]][-1], still[-1], inside
    return usable[-1], inside, once


def _fits(loop: Loop, limits: FoldingLimits) -> bool:
    """Whether it can be a hardware loop. limits: of the factors of the first operands."""
    count, strides = loop
    factors = zip(strides, limits.factors, strict=False)
    return count <= limits.turns and all(0 <= stride <= most for stride, most in factors)


def can_overwrite(fill: FillNest, gemm: GemmNest, limits: FoldingLimits) -> bool:
    """Whether a GEMM writes every tile that a Fill of the same tile would, and can be folded with
    its reductions in micro-ops; one of windows has none."""
    if gemm.window is not None:
        return _writes_all(fill, gemm)
    return _writes_all(fill, gemm) and _is_one(
        nest_of(gemm.extents, (gemm.dst, gemm.src, gemm.wgt)), limits
    )


def _step(folded: FoldedNest, overwrite: int = 0) -> Step:
    low, high = folded.uops.min(axis=0).tolist(), folded.uops.max(axis=0).tolist()
    end = tuple(last + reach + 1 for last, reach in zip(high, folded.reach, strict=True))
    return Step(folded.outer, folded.inner, folded.uops, tuple(low), end, overwrite)


def _fresh(folded: FoldedNest) -> list[FoldedNest]:
    """The first micro-op of every accumulator tile, and the others."""
    _, first = np.unique(folded.uops[:, 0], return_index=True)
    begins = np.zeros(len(folded.uops), bool)
    begins[first] = True
    parts = [folded.uops[begins], *([] if begins.all() else [folded.uops[~begins]])]
    return [FoldedNest(folded.outer, folded.inner, uops) for uops in parts]


def _writes_all(fill: FillNest, gemm: GemmNest) -> bool:
    """Whether a GEMM writes exactly the tiles that a Fill of the same tile writes."""
    kept = [(n, s) for n, s in zip(gemm.extents, gemm.dst.strides, strict=True) if s and n > 1]
    filled = list(zip(fill.extents, fill.dst.strides, strict=True))
    return np.array_equal(_written(kept, gemm.dst.base), _written(filled, fill.dst.base))


def _written(loops: Sequence[tuple[int, int]], base: int) -> NDArray[np.int64]:
    """The tiles of some loops, ascending, each once."""
    return np.unique(base + offsets([(n, (stride,)) for n, stride in loops], 1)[:, 0])


def _is_one(nest: LoopNest, limits: FoldingLimits) -> bool:
    """Whether it is one instruction with its reductions in micro-ops."""
    try:
        return len(list(fold_nest(nest, limits, reductions_in_uops=True))) == 1
    except LoweringError:
        return False
