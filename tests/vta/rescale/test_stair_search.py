# SPDX-License-Identifier: Apache-2.0
"""vta/rescale/stair_search.py: what it finds, and that looking at the tightest ends first changes
nothing."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.vta.rescale import stair_search
from loadstone.vta.rescale.stair_search import Division, StairSearch, divisions
from tests.repeat import times
from tests.vta.rescale.made import TIED_LANES, tied_layer

BLOCK = [np.arange(TIED_LANES)]


def test_divisions_begin_with_the_cheapest_and_end_at_small_outputs() -> None:
    one_sided = [d for d in divisions(tied_layer(0)) if not d.fine]
    assert [(d.edges, d.sign) for d in one_sided] == [
        ((), None),
        ((), 0),
        ((-64,), 0),
        ((-96, -64), 0),
        ((-112, -96, -64), 0),
    ]
    edges = [d for d in divisions(tied_layer(0, 0)) if d.sign is not None]
    assert edges[0].sign == 64
    assert edges[0].edges == (-64,)


def found(seed: int, zero_point: int, division: Division) -> dict[str, object]:
    """Every integer of one search."""
    search = StairSearch(tied_layer(seed, zero_point), BLOCK, division)
    search.run(patient=True)
    names = ("ok", "offset", "multipliers", "constants", "sign")
    return {name: getattr(search, name).tolist() for name in names}


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("seed", range(times(1, 20)))
def test_the_tightest_ends_refuse_no_candidate_that_is_right(
    seed: int, zero_point: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same integers where every end is looked at first, and where one is."""
    tried = list(divisions(tied_layer(seed, zero_point)))
    usual = [found(seed, zero_point, division) for division in tried]
    assert any(any(own["ok"]) for own in usual)
    for points in (1, 256):
        monkeypatch.setattr(stair_search, "_POINTS", points)
        assert [found(seed, zero_point, division) for division in tried] == usual


def test_candidates_of_many_sums_are_tried_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    division = Division((), None)
    usual = found(2, -128, division)
    monkeypatch.setattr(stair_search, "_AT_ONCE", 1)
    assert found(2, -128, division) == usual
