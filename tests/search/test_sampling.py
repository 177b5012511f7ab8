# SPDX-License-Identifier: Apache-2.0
"""Which points are looked at: all, random ones, those of a search; the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loadstone.errors import ConfigError
from loadstone.search.sampling import GENERATION, SEARCHES, batches
from loadstone.search.space import Point, Space, SpaceAxis

WIDE = Space(tuple(SpaceAxis("device", name, tuple(range(16))) for name in "abcd"))


def asked(space: Space, search: str, points: int, seed: int) -> list[list[Point]]:
    """Batches; a point costs how far it is from (3, 3, ...), in each of three measures."""
    found: list[list[Point]] = []

    def scores(batch: Sequence[Point]) -> list[tuple[float, ...] | None]:
        found.append(list(batch))
        return [
            None if sum(p) % 7 == 0 else (abs(p[0] - 3.0), abs(p[-1] - 3.0), sum(p[2:]) * 1.0)
            for p in batch
        ]

    batches(space, search, points, seed, scores)
    return found


def test_a_grid_is_everything() -> None:
    small = Space((SpaceAxis("base", "base", ("x", "y")), SpaceAxis("device", "n", (1, 2, 3))))
    assert asked(small, "grid", 1, 0) == [[(a, b) for a in range(2) for b in range(3)]]


def test_random_points_differ_and_follow_the_seed() -> None:
    (first,) = asked(WIDE, "random", 100, 1)
    assert len(set(first)) == 100
    assert asked(WIDE, "random", 100, 1) == [first]
    assert asked(WIDE, "random", 100, 2) != [first]
    small = Space((SpaceAxis("device", "n", (1, 2, 3)),))
    assert sorted(asked(small, "random", 100, 1)[0]) == [(0,), (1,), (2,)]


def test_a_search_comes_nearer_than_chance() -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed (the extra `search`)")
    points = 6 * GENERATION + 5
    generations = asked(WIDE, "pareto", points, 4)
    assert [len(generation) for generation in generations] == [GENERATION] * 6 + [5]
    assert generations == asked(WIDE, "pareto", points, 4)

    def far(batch: Sequence[Point]) -> float:
        return sum(abs(p[0] - 3) + abs(p[-1] - 3) + sum(p[2:]) for p in batch) / len(batch)

    assert far(generations[5]) < 0.7 * far(generations[0])


def test_a_grid_that_nobody_waits_for_is_refused() -> None:
    huge = Space(tuple(SpaceAxis("device", name, tuple(range(100))) for name in "abcd"))
    with pytest.raises(ConfigError, match="100000000 points, more than 1000000: use --search"):
        asked(huge, "grid", 1, 0)
    assert set(SEARCHES) == {"grid", "random", "pareto"}
