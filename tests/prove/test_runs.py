# SPDX-License-Identifier: Apache-2.0
"""prove/runs.py: a stretch of steps reads nothing that it wrote, and all steps come in order."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.runs import runs


@pytest.mark.parametrize(
    ("dst", "src", "operands", "ends"),
    [
        ([0, 1, 2], [5, 6, 7], 1, [3]),
        ([0, 1, 2], [0, 1, 2], 1, [3]),  # a step may read what it writes itself
        ([0, 1, 2], [0, 0, 1], 1, [1, 2, 3]),
        ([0, 0, 0], [5, 6, 7], 1, [1, 2, 3]),
        ([3, 0], [1, 1], 3, [1, 2]),  # RQ reads three tiles, of which the last was written
        ([0, 0], [0, 0], 0, [1, 2]),
        ([9, 8], [0, 1], 1, [2]),
    ],
)
def test_where_runs_end(dst: list[int], src: list[int], operands: int, ends: list[int]) -> None:
    found = list(runs(np.array(dst), np.array(src), operands))
    assert [one.stop for one in found] == ends
    assert [one.start for one in found] == [0, *ends[:-1]]


@pytest.mark.parametrize("seed", range(20))
def test_random_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dst, src = rng.integers(0, 6, (2, 12))
    found = list(runs(dst, src, 2))
    assert np.concatenate([np.arange(12)[one] for one in found]).tolist() == list(range(12))
    for one in found:
        for step in range(one.start + 1, one.stop):
            before = set(dst[one.start : step].tolist())
            assert not before & {int(dst[step]), int(src[step]), int(src[step]) + 1}
