# SPDX-License-Identifier: Apache-2.0
"""prove/windows.py: one source for each set, and sets of any size back from sources."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from loadstone.prove.fingerprints import Integers
from loadstone.prove.windows import NONE, SymbolWindows, sets
from tests.repeat import times


def random_windows(rng: np.random.Generator, n: int) -> Integers:
    windows = rng.integers(300, 310, (n, 5))
    return np.where(rng.random((n, 5)) < 0.3, NONE, windows)


@pytest.mark.parametrize("seed", range(times(5, 100)))
def test_sets_have_each_symbol_once_in_order(seed: int) -> None:
    windows = random_windows(np.random.default_rng(seed), 200)
    made = sets(windows)
    for window, row in zip(windows.tolist(), made.tolist(), strict=True):
        held = sorted(set(window) - {NONE})
        assert row == held + [NONE] * (made.shape[1] - len(held))
    assert (made[:, -1] != NONE).any()


@pytest.mark.parametrize(
    ("windows", "made"),
    [
        ([[5, 4, 3, 4]], [[3, 4, 5]]),  # one window, wider than there are windows
        ([[7, 7], [NONE, 7]], [[7], [7]]),
        ([[NONE, NONE]], [[NONE]]),
        ([[NONE, 2], [9, 1], [NONE, NONE]], [[2, NONE], [1, 9], [NONE, NONE]]),
    ],
)
def test_sets_are_as_wide_as_the_largest(windows: list[list[int]], made: list[list[int]]) -> None:
    assert sets(np.array(windows)).tolist() == made


@pytest.mark.parametrize("width", [1, 4])
def test_no_window_has_no_set(width: int) -> None:
    assert sets(np.zeros((0, width), np.int64)).shape == (0, 1)


@pytest.mark.parametrize("seed", range(times(5, 100)))
def test_equal_sets_have_one_source(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows, next_source = SymbolWindows(), count(7, 3)
    held: dict[tuple[int, ...], int] = {}
    made: list[tuple[int, ...]] = []

    def make(new: Integers) -> Integers:
        assert NONE not in new
        made.extend(tuple(row) for row in new.tolist())
        return np.array([next(next_source) for _ in new])

    for _ in range(4):
        rows = sets(random_windows(rng, 60))
        sources = windows.sources(rows, make)
        for row, source in zip(rows.tolist(), sources.tolist(), strict=True):
            assert held.setdefault(tuple(sorted(set(row) - {NONE})), source) == source
        again = windows.of(np.array([*sources.tolist(), 5, 8, 1 << 30]))
        back = [tuple(sorted(set(row) - {NONE})) for row in again.tolist()]
        assert [held.get(row) for row in back[:-3]] == sources.tolist()
        assert back[-3:] == [()] * 3
    assert len(made) == len(set(made)) == len(set(held.values())) == len(held)


def test_no_source_is_of_a_set_where_none_was_made() -> None:
    assert SymbolWindows().of(np.array([0, 3])).tolist() == [[NONE], [NONE]]


def test_one_set_is_found_and_no_other() -> None:
    windows = SymbolWindows()
    assert windows.sources(np.array([[300, 301]]), lambda new: np.array([7])).tolist() == [7]
    nothing = [NONE, NONE]
    assert windows.of(np.array([7, 6, 8, 7])).tolist() == [[300, 301], nothing, nothing, [300, 301]]
