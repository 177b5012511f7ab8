# SPDX-License-Identifier: Apache-2.0
"""folding.py: a nest's steps are what fold_nest says, and those that overwrite come first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.encode.folding import can_overwrite, nest_of, products, steps, windows
from loadstone.vta.stream.loop_nest import FoldingLimits, fold_nest, offsets
from loadstone.vta.stream.operations import Access, FillNest, GemmNest
from loadstone.vta.stream.operations import VirtualTile as Tile
from tests.vta.stream.nests import merged_nest

ACC, INP, WGT = (Tile(memory, 4096, memory.name) for memory in (Memory.ACC, Memory.INP, Memory.WGT))
ADDRESS = {ACC: 3, INP: 50, WGT: 7}
LIMITS = FoldingLimits(16, (63, 63, 63), 200)


def gemm(rng: np.random.Generator, base: int) -> GemmNest:
    """Three loops that move an accumulator, and a reduction."""
    extents = (int(rng.integers(1, 4)), 2, 3, int(rng.integers(1, 5)))
    return GemmNest(
        extents,
        Access(ACC, base, (6, 3, 1, 0)),
        Access(INP, base + 1, (12, 4, 1, 2)),
        Access(WGT, base + 2, (0, 0, 0, 1)),
    )


def test_steps_are_those_of_the_nest_wherever_its_operands_begin() -> None:
    rng = np.random.default_rng(0)
    for turn in range(40):
        o = gemm(rng, base=turn)
        accesses = (o.dst, o.src, o.wgt)
        nest, want = nest_of(o.extents, accesses), merged_nest(o.extents, accesses, ADDRESS)
        assert nest.loops == want.loops
        assert not nest.bases.any()
        for found, folded in (
            (steps(nest, LIMITS), fold_nest(want, LIMITS)),
            (steps(nest, LIMITS, in_order=True), fold_nest(want, LIMITS, in_order=True)),
            (products(nest, LIMITS, fresh=False), fold_nest(want, LIMITS)),
        ):
            for step, entry in zip(found, folded, strict=True):
                assert (step.outer, step.inner) == (entry.outer, entry.inner)
                assert np.array_equal(step.uops + want.bases, entry.uops)
                low, high = entry.uops.min(axis=0), entry.uops.max(axis=0)
                assert (want.bases + step.low).tolist() == low.tolist()
                assert (want.bases + step.end).tolist() == (high + entry.reach + 1).tolist()


@pytest.mark.parametrize(
    "limits", [LIMITS, FoldingLimits(3, (63, 63), 4), FoldingLimits(9, (9, 9), 2)]
)
def test_windows_are_all_steps_with_rows_innermost(limits: FoldingLimits) -> None:
    """limits: wide ones; those that hold no loop of four turns; those that hold small factors."""
    rng = np.random.default_rng(0)
    for turn in range(40):
        extents = tuple(int(n) for n in rng.integers(1, 5, 3))  # blocks, rows, columns
        _, rows, columns = extents
        pitch = columns + 2
        accesses = (
            Access(ACC, 0, (rows * columns, columns, 1)),
            Access(INP, 0, ((rows + 2) * pitch, pitch, 1)),
            Access(WGT, 0, (1, 0, 0)),
        )
        nest = nest_of(extents, accesses)
        moves = [loop[1][1] == pitch for loop in nest.loops]
        number = moves.index(True) if True in moves else 0
        found = list[tuple[int, ...]]()
        for step in windows(nest, limits, number):
            assert not step.inner[1][2]  # the inner loop moves no weights
            loops = [step.outer, step.inner]
            each = (step.uops[None] + offsets(loops, 3)[:, None]).reshape(-1, 3)
            assert (each.min(axis=0) >= step.low).all()
            assert (each.max(axis=0) < step.end).all()
            found += map(tuple, each.tolist())
        assert sorted(found) == sorted(map(tuple, offsets(nest.loops, 3).tolist())), turn
        if limits is LIMITS and rows > 1:  # steps one row below another follow it
            below = sum(b[1] - a[1] == pitch for a, b in pairwise(found))
            assert below >= (rows - 1) * extents[0] * columns


def test_fresh_products_write_each_tile_once_before_they_add() -> None:
    rng = np.random.default_rng(0)
    for turn in range(20):
        o = gemm(rng, base=turn)
        accesses = (o.dst, o.src, o.wgt)
        want = merged_nest(o.extents, accesses, ADDRESS)
        first, *rest = products(nest_of(o.extents, accesses), LIMITS, fresh=True)
        written = first.uops[:, 0].tolist()
        assert first.overwrite == 1
        assert len(set(written)) == len(written)
        assert [step.overwrite for step in rest] == [0] * (o.extents[3] > 1)
        together = np.concatenate([step.uops for step in (first, *rest)])
        (whole,) = fold_nest(want, LIMITS, reductions_in_uops=True)
        assert sorted((together + want.bases).tolist()) == sorted(whole.uops.tolist())


def test_a_gemm_overwrites_only_what_it_writes_all_of() -> None:
    o = GemmNest((4, 3), Access(ACC, 2, (1, 0)), Access(INP, 0, (1, 4)), Access(WGT, 0, (0, 1)))
    assert can_overwrite(FillNest((4,), Access(ACC, 2, (1,)), 0), o, LIMITS)
    assert can_overwrite(FillNest((2, 2), Access(ACC, 2, (2, 1)), 0), o, LIMITS)
    assert not can_overwrite(FillNest((5,), Access(ACC, 2, (1,)), 0), o, LIMITS)
    assert not can_overwrite(FillNest((4,), Access(ACC, 1, (1,)), 0), o, LIMITS)
    short = FoldingLimits(2, (63, 63, 63), 2)  # its reductions fit no list
    assert not can_overwrite(FillNest((4,), Access(ACC, 2, (1,)), 0), o, short)


def test_reductions_that_fit_no_list_are_refused() -> None:
    nest = nest_of((9,), (Access(ACC, 0, (0,)), Access(INP, 0, (1,)), Access(WGT, 0, (1,))))
    with pytest.raises(LoweringError, match="do not fit the micro-op scratchpad"):
        list(products(nest, FoldingLimits(99, (9, 9, 9), 4), fresh=True))


def test_offsets_of_no_loop_are_one_tile() -> None:
    assert offsets([], 2).tolist() == [[0, 0]]
