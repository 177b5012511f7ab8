# SPDX-License-Identifier: Apache-2.0
"""Tables from large numbers, and from rows of numbers, to small ones, for millions of them at once.

In:   keys of 62 bits, values of 31; rows.
Out:  KeyTable: what was first entered under a key; RowNumbers: a number for each row; distinct.
Next: values.py finds sums and stored bytes with it, functions.py what it made before.

Open addressing in two arrays: some 20 bytes an entry, a tenth of what a dict of Python's takes, and
no loop over entries in Python.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.tables import Growing

__all__ = ["ABSENT", "KeyTable", "RowNumbers", "distinct", "pair_keys"]

#: What stands under a key that was not entered.
ABSENT = -1
_BEGIN_BITS, _AT_ONCE = 10, 1 << 16
_ODD = np.uint64(0x9E3779B97F4A7C15)


class KeyTable:
    """Keys and values are at least 0."""

    def __init__(self) -> None:
        self._clear(_BEGIN_BITS)

    def clear(self) -> None:
        """Forgets all entries."""
        self._clear(_BEGIN_BITS)

    def _clear(self, bits: int) -> None:
        self._bits, self._used = bits, 0
        self._keys = np.full(1 << bits, ABSENT, np.int64)
        self._values = np.full(1 << bits, ABSENT, np.int32)

    def get(self, keys: Integers) -> Integers:
        """Values (n,) under keys (n,), ABSENT where there is none."""
        found = np.full(len(keys), ABSENT)
        left, slot = np.arange(len(keys)), self._home(keys)
        while len(left):
            held = self._keys[slot]
            hit = held == keys[left]
            found[left[hit]] = self._values[slot[hit]]
            on = ~hit & (held != ABSENT)
            left, slot = left[on], self._next(slot[on])
        return found

    def enter(self, keys: Integers, values: Integers) -> Integers:
        """Enters values (n,) under those of keys (n,) that have none yet; what is held under each
        key then. Of equal keys in one call one is entered."""
        if self._used + len(keys) > len(self._keys) // 2:
            self._grow(len(keys))
        held = np.full(len(keys), ABSENT)
        left, slot = np.arange(len(keys)), self._home(keys)
        while len(left):
            free = self._keys[slot] == ABSENT
            self._keys[slot[free]] = keys[left[free]]
            hit = self._keys[slot] == keys[left]
            new = free & hit
            self._values[slot[new]] = values[left[new]]
            self._used += int(new.sum())  # equal keys count twice: more than there are
            held[left[hit]] = self._values[slot[hit]]
            left, slot = left[~hit], self._next(slot[~hit])
        return held

    def _grow(self, more: int) -> None:
        """Room for so many more, half of it unused."""
        used = self._keys != ABSENT
        keys, values = self._keys[used], self._values[used]
        bits = self._bits
        while 1 << bits < 2 * (len(keys) + more):
            bits += 1
        self._clear(bits)
        for begin in range(0, len(keys), _AT_ONCE):  # what one call needs beside the table is small
            part = slice(begin, begin + _AT_ONCE)
            self.enter(keys[part], values[part].astype(np.int64))

    def _home(self, keys: Integers) -> Integers:
        mixed = keys.astype(np.uint64) * _ODD >> np.uint64(64 - self._bits)
        return np.asarray(mixed.astype(np.int64))

    def _next(self, slot: Integers) -> Integers:
        return np.asarray((slot + 1) & ((1 << self._bits) - 1))


class RowNumbers:
    """Rows of integers, each of which has one number from 0 on."""

    def __init__(self, width: int, dtype: type[np.generic]) -> None:
        """width: integers in a row, which `dtype` holds."""
        self._rows, self._numbers = Growing(width, dtype), KeyTable()

    @property
    def data(self) -> Integers:
        """All rows, (width, numbers)."""
        return self._rows.data

    def enter(self, rows: Integers) -> Integers:
        """Numbers (n,) of rows (n, width); new ones where they were not entered before. Raises
        OverflowError for integers that the type does not hold."""
        first, inverse = distinct(rows)
        rows = rows[first]
        numbers = np.full(len(rows), ABSENT)
        left, turn = np.arange(len(rows)), 0
        while len(left):  # rows that share a key with another one have the next key
            asked = rows[left]
            keys = (_mixed(asked, turn) >> np.uint64(2)).astype(np.int64)
            found = self._numbers.get(keys)
            new = np.flatnonzero(found == ABSENT)
            found[new] = self._numbers.enter(keys[new], self._rows.extend(asked[new].T))
            same = (asked == self._rows.data[:, found].T).all(1)
            numbers[left[same]] = found[same]
            left, turn = left[~same], turn + 1
        return numbers[inverse]


def pair_keys(first: Integers, second: Integers) -> Integers:
    """One key for each of pairs of numbers of 31 bits (n,)."""
    return np.asarray(first << 31 | second)


def distinct(rows: Integers) -> tuple[Integers, Integers]:
    """Of rows (n, k): the numbers of those that are the first of their kind, and for each row
    which of these it equals."""
    if rows.shape[1] == 0:
        return np.zeros(min(len(rows), 1), np.int64), np.zeros(len(rows), np.int64)
    _, first, inverse = np.unique(_mixed(rows, 0), return_index=True, return_inverse=True)
    if not (rows[first][inverse] == rows).all():  # two that share a number by chance
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _mixed(rows: Integers, turn: int) -> NDArray[np.uint64]:
    """A number of 64 bits for each of rows (n, k), another one in each turn."""
    odd = np.arange(1, 2 * rows.shape[1], 2, dtype=np.uint64) * _ODD
    mixed = np.ascontiguousarray(rows).view(np.uint64) + np.uint64(0x632BE59BD9B4E019 + turn)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed * (odd | np.uint64(1))).sum(1, dtype=np.uint64))
