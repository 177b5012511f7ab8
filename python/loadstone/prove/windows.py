# SPDX-License-Identifier: Apache-2.0
"""Sets of symbols of which the largest byte is a source.

In:   windows: rows of symbols.
Out:  SymbolWindows: the source of each set, made once; the set of a source.
Next: values.py keeps one; maxima.py turns what pools and MAX say into sets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.keys import RowNumbers
from loadstone.prove.tables import Growing

__all__ = ["NONE", "SymbolWindows", "sets"]

#: Beside the symbols of a window that has fewer than others: above all symbols.
NONE = (1 << 31) - 1


def sets(windows: Integers) -> Integers:
    """The symbols of windows (n, k), each once and in ascending order, NONE behind them; as wide as
    the largest set."""
    held = np.sort(windows, 1)
    held[:, 1:][held[:, 1:] == held[:, :-1]] = NONE
    held = np.sort(held, 1)
    return held[:, : max(int((held != NONE).sum(1).max(initial=0)), 1)]


class SymbolWindows:
    """Of one proof. Sources ascend as they are made."""

    def __init__(self) -> None:
        self._rows: dict[int, RowNumbers] = {}  # by how many symbols a set has
        self._sources: dict[int, Growing] = {}
        self._known = Growing(3, np.int32)  # source, symbols of its set, number of its row

    def sources(self, windows: Integers, make: Callable[[Integers], Integers]) -> Integers:
        """Sources (n,) of sets (n, k); make: those of new sets (m, size)."""
        sizes = (windows != NONE).sum(1)
        found = np.zeros(len(windows), np.int64)
        for size in np.unique(sizes).tolist():
            at = sizes == size
            rows = self._rows.setdefault(size, RowNumbers(size, np.int32))
            sources = self._sources.setdefault(size, Growing(1, np.int32))
            numbers = rows.enter(windows[at, :size])
            new = np.arange(sources.count, rows.data.shape[1])
            if len(new):
                made = make(rows.data[:, new].T.astype(np.int64))
                sources.extend(made[None])
                self._known.extend(np.stack([made, np.full(len(new), size), new]))
            found[at] = sources.data[0, numbers]
        return found

    def of(self, sources: Integers) -> Integers:
        """Sets (n, k) of sources (n,); all NONE of those that were not made here."""
        known, sizes, numbers = self._known.data
        place = np.minimum(np.searchsorted(known, sources), max(len(known) - 1, 0))
        at = np.flatnonzero(known[place] == sources) if len(known) else np.zeros(0, np.int64)
        widest = int(sizes[place[at]].max(initial=1))
        found = np.full((len(sources), widest), NONE)
        for size in np.unique(sizes[place[at]]).tolist():
            some = at[sizes[place[at]] == size]
            found[some, :size] = self._rows[size].data[:, numbers[place[some]]].T
        return found
