# SPDX-License-Identifier: Apache-2.0
"""The few terms of sums that are known by name.

In:   lanes, symbols, coefficients.
Out:  Terms: for each lane a short list of them, or that there are more.
Next: lanes.py keeps the digits of a lane so, and pairs of bytes.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers

__all__ = ["Terms"]


class Terms:
    """Up to `slots` terms for each of `lanes` lanes."""

    def __init__(self, lanes: int, slots: int) -> None:
        self.slots = slots
        self.symbol = np.zeros((lanes, slots), np.int64)
        self.coefficient = np.zeros((lanes, slots), np.int64)
        self.count = np.zeros(lanes, np.int64)  # slots + 1: more than it can hold

    def clear(self, lanes: Integers) -> None:
        """Removes all terms of lanes (n,)."""
        self.count[lanes] = 0

    def one(self, lanes: Integers, symbols: Integers) -> None:
        """Leaves each lane its symbol once."""
        self.count[lanes] = 1
        self.symbol[lanes, 0], self.coefficient[lanes, 0] = symbols, 1

    def scale(self, lanes: Integers, factor: Integers) -> None:
        """Multiplies the coefficients of lanes by factor (n,)."""
        self.coefficient[lanes] *= factor[:, None]

    def add(self, lanes: Integers, symbols: Integers, coefficients: Integers) -> None:
        """Adds a term to each of lanes, which may occur several times; all three are of shape
        (n,)."""
        order = np.argsort(lanes, kind="stable")
        lanes, symbols, coefficients = lanes[order], symbols[order], coefficients[order]
        begins = np.flatnonzero(np.append(True, lanes[1:] != lanes[:-1])) if len(lanes) else lanes
        sizes = np.diff(np.append(begins, len(lanes)))
        rank = np.arange(len(lanes)) - np.repeat(begins, sizes)
        for r in range(int(sizes.max()) if len(sizes) else 0):
            at = rank == r
            self._add(lanes[at], symbols[at], coefficients[at])

    def _add(self, lanes: Integers, symbols: Integers, coefficients: Integers) -> None:
        count = self.count[lanes]
        match = self.symbol[lanes] == symbols[:, None]
        match &= np.arange(self.slots) < count[:, None]
        found = match.any(1)
        over = ~found & (count >= self.slots)
        self.count[lanes[over]] = self.slots + 1
        new = ~found & ~over
        slot = count[new]
        self.symbol[lanes[new], slot], self.coefficient[lanes[new], slot] = (
            symbols[new],
            coefficients[new],
        )
        self.count[lanes[new]] = slot + 1
        self.coefficient[lanes[found], match[found].argmax(1)] += coefficients[found]
