# SPDX-License-Identifier: Apache-2.0
"""A table from large numbers to small ones, for millions of them at once.

In:   keys of 62 bits, values of 31.
Out:  KeyTable: what was first entered under a key.
Next: values.py finds sums and stored bytes with it.

Open addressing in two arrays: some 20 bytes an entry, a tenth of what a dict of Python's takes, and
no loop over entries in Python.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers

__all__ = ["ABSENT", "KeyTable"]

#: What stands under a key that was not entered.
ABSENT = -1
_BEGIN_BITS = 10
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
        self.enter(keys, values.astype(np.int64))

    def _home(self, keys: Integers) -> Integers:
        mixed = keys.astype(np.uint64) * _ODD >> np.uint64(64 - self._bits)
        return np.asarray(mixed.astype(np.int64))

    def _next(self, slot: Integers) -> Integers:
        return np.asarray((slot + 1) & ((1 << self._bits) - 1))
