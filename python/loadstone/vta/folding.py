# SPDX-License-Identifier: Apache-2.0
"""Folded loop nests by shape: each shape is folded once.

In:   an operation's nest: extents, and its accesses.
Out:  `Step`s: one for each instruction that the nest becomes, relative to where its operands begin.
Next: encode.py adds where they begin, and makes GEMM and ALU instructions.

The tiles of a layer differ in where their operands stand, seldom in their loops: of some ten
thousand operations of a network a few hundred have a shape of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.loop_nest import (
    FoldedNest,
    FoldingLimits,
    Loop,
    LoopNest,
    fold_nest,
    merged_loops,
    offsets,
)
from loadstone.vta.stream import Access, FillNest, GemmNest, VirtualTile

__all__ = ["Folder", "Step"]

#: What the merged loops of a nest depend on: extents, and strides of each operand.
_Shape: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


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


class Folder:
    """Remembers what it folded for as long as it lives. keep_sums: as of loop_nest.fold_nest."""

    def __init__(self, address: Mapping[VirtualTile, int], *, keep_sums: bool = False) -> None:
        self._address = address
        self._keep_sums = keep_sums
        self._loops: dict[_Shape, tuple[Loop, ...]] = {}
        self._steps: dict[tuple[object, ...], tuple[Step, ...]] = {}
        self._overwrites: dict[tuple[object, ...], bool] = {}

    def nest(self, extents: tuple[int, ...], accesses: Sequence[Access]) -> LoopNest:
        """Absolute bases; loops of one turn left out, loops that are contiguous in every operand
        merged."""
        bases = np.array([self._address[a.tile] + a.base for a in accesses], np.int64)
        return LoopNest(self._merged(extents, tuple(a.strides for a in accesses)), bases)

    def _merged(
        self, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
    ) -> tuple[Loop, ...]:
        shape = (extents, strides)
        if shape not in self._loops:
            self._loops[shape] = merged_loops(extents, strides)
        return self._loops[shape]

    def steps(
        self, nest: LoopNest, limits: FoldingLimits, *, in_order: bool = False
    ) -> tuple[Step, ...]:
        """The nest's instructions; in_order: as of loop_nest.fold_nest."""
        key = (nest.loops, limits, in_order)
        if key not in self._steps:
            origin = _at_origin(nest)
            self._steps[key] = tuple(
                _step(folded) for folded in fold_nest(origin, limits, in_order=in_order)
            )
        return self._steps[key]

    def products(self, nest: LoopNest, limits: FoldingLimits, *, fresh: bool) -> tuple[Step, ...]:
        """Those of a GEMM. fresh: the first micro-op of every accumulator tile overwrites; they
        come first, and keep their order. Raises LoweringError where that needs too long a list."""
        key = (nest.loops, limits, "fresh" if fresh else "sum")
        if key not in self._steps:
            folded = fold_nest(
                _at_origin(nest), limits, reductions_in_uops=fresh, keep_sums=self._keep_sums
            )
            steps = [step for entry in folded for step in (_fresh(entry) if fresh else [entry])]
            self._steps[key] = tuple(
                _step(entry, int(fresh and number == 0)) for number, entry in enumerate(steps)
            )
        return self._steps[key]

    def can_overwrite(self, fill: FillNest, gemm: GemmNest, limits: FoldingLimits) -> bool:
        """Whether a GEMM writes every tile that a Fill of the same tile would, and can be folded
        with its reductions in micro-ops."""
        accesses = (gemm.dst, gemm.src, gemm.wgt)
        key = (
            fill.extents,
            fill.dst.strides,
            fill.dst.base - gemm.dst.base,
            gemm.extents,
            tuple(access.strides for access in accesses),
            limits,
        )
        if key not in self._overwrites:
            self._overwrites[key] = _writes_all(fill, gemm) and _is_one(
                self.nest(gemm.extents, accesses), limits
            )
        return self._overwrites[key]


def _at_origin(nest: LoopNest) -> LoopNest:
    return LoopNest(nest.loops, np.zeros(len(nest.bases), np.int64))


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
