# SPDX-License-Identifier: Apache-2.0
"""vta/stream/loop_nest.py: instructions of two loops and a list visit the tiles of the nest, each
once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream.loop_nest import (
    FoldedNest,
    FoldingLimits,
    LoopNest,
    fold_nest,
    offsets,
)
from loadstone.vta.stream.operations import Access
from loadstone.vta.stream.operations import VirtualTile as Tile
from tests.vta.stream.nests import merged_nest

ACC, INP = Tile(Memory.ACC, 4096, "acc"), Tile(Memory.INP, 4096, "inp")
WIDE = FoldingLimits(turns=16383, factors=(2047, 2047), uops=4096)


def steps(folded: FoldedNest) -> list[tuple[int, ...]]:
    """What an instruction touches, in its order."""
    (n0, s0), (n1, s1) = folded.outer, folded.inner
    return [
        tuple(int(u[k]) + i * s0[k] + j * s1[k] for k in range(len(u)))
        for i in range(n0)
        for j in range(n1)
        for u in folded.uops
    ]


def nest(seed: int) -> tuple[tuple[int, ...], list[Access]]:
    rng = np.random.default_rng(seed)
    extents = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 6)))
    strides = [tuple(int(s) for s in rng.integers(0, 30, len(extents))) for _ in range(2)]
    return extents, [Access(ACC, 3, strides[0]), Access(INP, 7, strides[1])]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("limits", [WIDE, FoldingLimits(3, (40, 40), 24)], ids=["wide", "narrow"])
def test_folding_keeps_every_step(seed: int, limits: FoldingLimits) -> None:
    extents, accesses = nest(seed)
    merged = merged_nest(extents, accesses, {ACC: 100, INP: 200})
    folded = list(fold_nest(merged, limits))
    loops = [(n, tuple(a.strides[k] for a in accesses)) for k, n in enumerate(extents)]
    want = offsets(loops, 2) + np.array([103, 207])
    assert Counter(s for f in folded for s in steps(f)) == Counter(map(tuple, want.tolist()))
    for f in folded:
        assert len(f.uops) <= limits.uops
        for turns, factors in (f.outer, f.inner):
            assert turns <= limits.turns
            assert all(factor <= most for factor, most in zip(factors, limits.factors, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_in_order_keeps_the_order(seed: int) -> None:
    extents, accesses = nest(seed)
    merged = merged_nest(extents, accesses, {ACC: 0, INP: 0})
    folded = list(fold_nest(merged, WIDE, in_order=True))
    want = offsets(merged.loops, 2) + merged.bases
    assert [s for f in folded for s in steps(f)] == list(map(tuple, want.tolist()))


def test_contiguous_loops_are_one() -> None:
    access = Access(ACC, 0, (12, 0, 4, 1))
    merged = merged_nest((2, 1, 3, 4), [access, access], {ACC: 5})
    assert merged.loops == ((24, (1, 1)),)
    assert merged.bases.tolist() == [5, 5]


def test_a_reach_is_the_farthest_tile() -> None:
    folded = FoldedNest((3, (4, 1)), (2, (1, 0)), np.zeros((1, 2), np.int64))
    assert folded.reach == [9, 2] == np.max(steps(folded), axis=0).tolist()


def test_reductions_move_out_and_a_list_that_is_too_long_is_refused() -> None:
    loops = LoopNest(((4, (1, 1)), (3, (0, 1))), np.zeros(2, np.int64))
    assert loops.reductions_outermost().loops == ((3, (0, 1)), (4, (1, 1)))
    with pytest.raises(LoweringError):
        list(
            fold_nest(
                LoopNest(((9, (0, 1)),), loops.bases),
                FoldingLimits(99, (9, 9), 4),
                reductions_in_uops=True,
            )
        )
