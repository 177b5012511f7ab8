# SPDX-License-Identifier: Apache-2.0
"""prove/keys.py: a dict of Python's says the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.prove import keys as keys_
from loadstone.prove.keys import ABSENT, KeyTable, RowNumbers, distinct
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


def test_rows_that_are_the_first_of_their_kind() -> None:
    rows = np.random.default_rng(0).integers(-2, 3, (500, 3))
    first, inverse = distinct(rows)
    assert (rows[first][inverse] == rows).all()
    assert len(first) == len(np.unique(rows, axis=0))
    nothing = distinct(np.zeros((0, 3), np.int64))
    assert [len(one) for one in nothing] == [0, 0]
    same = distinct(np.zeros((4, 0), np.int64))
    assert [one.tolist() for one in same] == [[0], [0, 0, 0, 0]]


@pytest.mark.parametrize("bits", [64, 3, 0])
def test_numbers_of_rows_are_those_of_a_dict(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Also where many rows share a key, or all of them do, in the first turns."""
    mixed = keys_._mixed

    def few(rows: keys_.Integers, turn: int) -> NDArray[np.uint64]:
        made = mixed(rows, turn)
        return made & np.uint64((1 << bits) - 1 << 2) if bits < 64 and turn < 3 else made

    monkeypatch.setattr(keys_, "_mixed", few)
    rng = np.random.default_rng(bits)
    table, held = RowNumbers(3, np.int16), dict[tuple[int, ...], int]()
    for _ in range(6):
        rows = rng.integers(-3, 4, (200, 3))
        numbers = table.enter(rows)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            assert held.setdefault(tuple(row), number) == number
        assert (rows == table.data[:, numbers].T).all()
    assert len(set(held.values())) == len(held)
    assert table.enter(np.zeros((0, 3), np.int64)).shape == (0,)
    with pytest.raises(OverflowError, match="int16"):
        table.enter(np.array([[0, 0, 1 << 15]]))
