# SPDX-License-Identifier: Apache-2.0
"""vta/stream/join_products.py: fewer GEMMs, the same steps."""

from __future__ import annotations

from collections import Counter

import numpy as np

from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream.join_products import joined
from loadstone.vta.stream.loop_nest import offsets
from loadstone.vta.stream.operations import Access, GemmNest, VirtualTile

ACC, INP, WGT = (
    VirtualTile(memory, 1 << 10, memory.name) for memory in (Memory.ACC, Memory.INP, Memory.WGT)
)


def gemm(extents: tuple[int, int], acc: int, inp: int, wgt: int) -> GemmNest:
    """A tap of some rows and columns of 8x8 pixels."""
    return GemmNest(
        extents,
        Access(ACC, acc, (8, 1)),
        Access(INP, inp, (10, 1)),
        Access(WGT, wgt, (0, 0)),
    )


def steps(gemms: list[GemmNest]) -> Counter[tuple[int, ...]]:
    """How often each step is made."""
    found: Counter[tuple[int, ...]] = Counter()
    for each in gemms:
        accesses = (each.dst, each.src, each.wgt)
        strides = zip(*(access.strides for access in accesses), strict=True)
        table = offsets(list(zip(each.extents, strides, strict=True)), 3)
        found.update(map(tuple, (table + [access.base for access in accesses]).tolist()))
    return found


def taps() -> list[GemmNest]:
    """A 3x3 kernel on 8x8 pixels, without what lies outside."""
    made = []
    for y, x in np.ndindex(3, 3):
        first = (max(0, 1 - y), max(0, 1 - x))
        size = (8 - (y != 1), 8 - (x != 1))
        made.append(
            gemm(size, first[0] * 8 + first[1], (first[0] + y) * 10 + first[1] + x, y * 3 + x)
        )
    return made


def test_taps_of_one_size_become_one_gemm() -> None:
    made = joined(taps())
    assert steps(made) == steps(taps())
    assert [each.extents for each in made] == [(2, 2, 7, 7), (2, 7, 8), (2, 8, 7), (8, 8)]


def test_three_that_begin_equally_far_apart_are_one_loop() -> None:
    gemms = [gemm((4, 4), 0, inp, 5) for inp in (0, 20, 40)]
    assert [each.extents for each in joined(gemms)] == [(3, 4, 4)]
    assert steps(joined(gemms)) == steps(gemms)


def test_those_that_begin_anywhere_are_joined_two_by_two() -> None:
    gemms = [gemm((4, 4), 0, inp, 5) for inp in (0, 20, 21, 60, 100)]
    assert steps(joined(gemms)) == steps(gemms)
    assert [each.extents for each in joined(gemms)] == [(2, 4, 4), (2, 4, 4), (4, 4)]


def test_others_stay_as_they_are() -> None:
    other = VirtualTile(Memory.INP, 1 << 10, "other")
    one, two = gemm((4, 4), 0, 0, 0), gemm((4, 5), 0, 0, 0)
    three = GemmNest(one.extents, one.dst, Access(other, 0, one.src.strides), one.wgt)
    assert joined([one, two, three]) == [one, two, three]
    assert joined([]) == []
