# SPDX-License-Identifier: Apache-2.0
"""Runs of steps: all of them in order, cut exactly where one reads what its run wrote."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.meaning.step_runs import independent_runs


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.integers(0, 3))
def test_runs_are_as_long_as_they_can_be(steps: list[tuple[int, int]], operands: int) -> None:
    dst, src = np.array(steps, np.int64).reshape(-1, 2).T
    runs = list(independent_runs(dst, src, operands))
    assert [k for run in runs for k in range(run.start, run.stop)] == list(range(len(steps)))
    reads = [{d, *range(s, s + operands)} for d, s in steps]
    for run in runs:
        for k in range(run.start, run.stop):
            assert not reads[k] & {steps[n][0] for n in range(run.start, k)}
    for run, following in pairwise(runs):
        assert reads[following.start] & {steps[n][0] for n in range(run.start, run.stop)}
