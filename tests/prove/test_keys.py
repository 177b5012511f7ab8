# SPDX-License-Identifier: Apache-2.0
"""prove/keys.py: a dict of Python's says the same."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.keys import ABSENT, KeyTable
from tests.repeat import times


@pytest.mark.parametrize("seed", range(times(10, 1000)))
def test_entries_are_those_of_a_dict(seed: int) -> None:
    """Keys that occur again, in one call and in several; many that begin in one place."""
    rng = np.random.default_rng(seed)
    table, held = KeyTable(), dict[int, int]()
    for _ in range(8):
        keys = rng.integers(0, 3000, 700) << int(rng.choice([0, 20, 50]))
        values = rng.integers(0, 1 << 31, 700)
        found = table.enter(keys, values)
        for key, entered in zip(keys.tolist(), found.tolist(), strict=True):
            assert held.setdefault(key, entered) == entered
        assert set(found.tolist()) <= set(held.values())
        asked = rng.integers(0, 4000, 700)
        assert table.get(asked).tolist() == [held.get(key, ABSENT) for key in asked.tolist()]
    assert (table.get(np.array(list(held))) == list(held.values())).all()
    table.clear()
    assert (table.get(np.array(list(held))) == ABSENT).all()


def test_of_equal_keys_in_one_call_one_is_entered() -> None:
    table = KeyTable()
    found = table.enter(np.array([5, 6, 5, 5]), np.array([1, 2, 3, 4]))
    assert found[0] == found[2] == found[3]
    assert found[0] in (1, 3, 4)
    assert found[1] == 2
    assert table.enter(np.array([5]), np.array([9])) == found[:1]
    assert table.get(np.zeros(0, np.int64)).shape == (0,)
