# SPDX-License-Identifier: Apache-2.0
"""Parts of products: together they are all steps, each once; a window's taps are what the
definition of DEPTHWISE says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.prove.steps import Taps, sums, windows
from loadstone.vta.isa.insn import Depthwise, Gemm
from loadstone.vta.meaning.window_taps import window_taps

STEPS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40)


@given(STEPS)
def test_sums_are_all_steps(steps: list[tuple[int, int, int]]) -> None:
    found = Counter[tuple[int, int, int]]()
    for dst, src, wgt in sums(*np.array(steps).T, (1, 4)):
        for to, row in zip(dst.tolist(), src.tolist(), strict=True):
            found.update((to, of, by) for of, by in zip(row, wgt.tolist(), strict=True))
    assert found == Counter(steps)


@given(STEPS)
def test_windows_are_all_steps_and_write_no_tile_twice(steps: list[tuple[int, int, int]]) -> None:
    found = Counter[tuple[int, int, int]]()
    for dst, src, wgt in windows(*np.array(steps).T, 16):
        assert len(np.unique(dst)) == len(dst)
        found.update((to, of, wgt) for to, of in zip(dst.tolist(), src.tolist(), strict=True))
    assert found == Counter(steps)


@pytest.mark.parametrize(("block", "most"), [(4, 1), (8, 2), (16, 3), (32, 3)])
def test_taps_are_those_of_the_definition(block: int, most: int) -> None:
    for rows in range(1, most + 1):
        for columns in (1, 2, 3):
            for wide in (0, 1):
                insn = Depthwise(rows=rows, columns=columns, row_stride=7, wide=wide)
                taps = Taps.of(insn, block)
                assert list(zip(*map(np.ndarray.tolist, taps), strict=True)) == window_taps(
                    insn, block
                )
    assert Taps.of(Gemm(), block).tiles.tolist() == [0]


def test_each_lane_meets_its_own_weights() -> None:
    rng = np.random.default_rng(0)
    weights, x = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    taps = Taps.of(Depthwise(rows=2, columns=3, row_stride=5, wide=1), 16)
    wanted = [
        sum(int(x[n, o]) * int(weights[o, k]) for n, k in enumerate(taps.weights[:-1]))
        + 128 * int(x[6, o]) * int(weights[o, 11])
        for o in range(16)
    ]
    found = taps.matrix(weights) @ x[: len(taps.tiles)].reshape(-1).astype(np.float64)
    assert found.tolist() == wanted
