# SPDX-License-Identifier: Apache-2.0
"""What is kept of each symbol and of each source: arrays of small numbers.

In:   what values.py enters, many at once.
Out:  SymbolTable and SourceTable; Growing, an array that grows.
Next: values.py says what the entries mean.

A network of millions of elements has as many symbols and twice as many sources, so that bytes count
here: 22 of a symbol and 32 of its fingerprint, 72 of a source.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import POINTS, Integers

__all__ = ["CENTRE", "CONSTANT", "NO_SOURCE", "NO_SYMBOL", "RADIUS", "Growing", "SourceTable"]
__all__ += ["SymbolTable"]

NO_SYMBOL = -1
NO_SOURCE = -1
#: Rows of the columns of symbols that are no fingerprint: the value of a constant, the sum of a
#: range's ends and their difference.
CONSTANT, CENTRE, RADIUS = POINTS, POINTS + 1, POINTS + 2


class Growing:
    """An array [rows, n] whose n grows."""

    def __init__(self, rows: int, dtype: type[np.generic]) -> None:
        self._data: NDArray[Any] = np.zeros((rows, 1024), dtype)
        self.count = 0

    @property
    def data(self) -> NDArray[Any]:
        """What is in it, to be read and changed in place; shape (rows, count)."""
        return self._data[:, : self.count]

    def extend(self, values: NDArray[Any]) -> Integers:
        """Appends columns (rows, n); their numbers (n,). Raises OverflowError for a number that the
        type does not hold: cut to its low bits it would be another one's."""
        n = values.shape[-1]
        kept = values.astype(self._data.dtype)
        if not (kept == values).all():
            raise OverflowError(f"a number that {self._data.dtype} does not hold")
        if self.count + n > self._data.shape[1]:
            room = max(2 * self._data.shape[1], self.count + n)
            grown = np.zeros((len(self._data), room), self._data.dtype)
            grown[:, : self.count] = self.data
            self._data = grown
        self._data[:, self.count : self.count + n] = kept
        self.count += n
        return np.arange(self.count - n, self.count)


class SymbolTable:
    """Of each symbol: its fingerprint; what a constant is; source and function; the least and the
    greatest value; whether a device alone knows it."""

    def __init__(self) -> None:
        self._fingerprints = Growing(POINTS, np.uint32)
        self._fingerprints.extend(np.zeros((POINTS, 1), np.int64))
        # Constants and what a device alone knows share the one that is 0.
        self._place = Growing(1, np.int32)
        self._constants = Growing(1, np.int8)
        self._origins = Growing(2, np.int32)
        self._limits = Growing(2, np.int32)
        self._internal = Growing(1, np.bool_)

    @property
    def count(self) -> int:
        """Symbols."""
        return self._limits.count

    def extend(
        self,
        fingerprints: Integers | None,
        origins: Integers,
        limits: Integers,
        *,
        constants: Integers | int = 0,
        internal: bool = False,
    ) -> Integers:
        """Numbers (n,) of new symbols; fingerprints (POINTS, n) or, where these are 0, None;
        sources and functions (2, n), least and greatest values (2, n)."""
        n = limits.shape[1]
        place = np.zeros(n) if fingerprints is None else self._fingerprints.extend(fingerprints)
        self._place.extend(place[None])
        self._constants.extend(np.broadcast_to(constants, (1, n)))
        self._origins.extend(origins)
        self._internal.extend(np.full((1, n), internal))
        return self._limits.extend(limits)

    def columns(self, symbols: Integers) -> NDArray[np.float64]:
        """(RADIUS + 1, *shape of symbols): what sums of symbols are made of, exact in float64.
        Those that a device alone knows are 0 everywhere."""
        made = np.empty((RADIUS + 1, *symbols.shape))
        place = self._place.data[0][symbols]
        for row in range(POINTS):
            made[row] = self._fingerprints.data[row][place]
        made[CONSTANT] = self._constants.data[0][symbols]
        low, high = (self._limits.data[k][symbols] for k in (0, 1))
        # A constant is no part of the range, and neither is what has no fingerprint.
        varies = made[0] != 0
        made[CENTRE] = (low + high) * varies
        made[RADIUS] = (high - low) * varies
        return made

    def fingerprints(self, symbols: Integers) -> Integers:
        """(POINTS, n) of symbols (n,)."""
        return np.asarray(self._fingerprints.data[:, self._place.data[0][symbols]], np.int64)

    def is_multiple(self, symbols: Integers, sums: Integers, prime: int) -> NDArray[np.bool_]:
        """Whether both numbers of sums (POINTS, n) modulo the first prime have the ratio of those
        of symbols (n,)."""
        place = self._place.data[0][symbols]
        first, second = (self._fingerprints.data[k][place].astype(np.int64) for k in (0, 1))
        return np.asarray(sums[0] * second % prime == sums[1] * first % prime)

    def origin(self, symbols: Integers) -> Integers:
        """Sources and functions (2, n)."""
        return np.asarray(self._origins.data[:, symbols], np.int64)

    def has_source(self, symbols: Integers) -> NDArray[np.bool_]:
        """Which of symbols (n,) have a source."""
        return np.asarray(self._origins.data[0][symbols] != NO_SOURCE)

    def set_source(self, symbols: Integers, sources: Integers) -> None:
        """Enters the sources of symbols (n,)."""
        self._origins.data[0, symbols] = sources

    def limits(self, symbols: Integers) -> Integers:
        """The least and the greatest values (2, *shape of symbols)."""
        return np.asarray(self._limits.data[:, symbols], np.int64)

    def is_internal(self, symbols: Integers) -> NDArray[np.bool_]:
        """Which of symbols only a device knows."""
        return np.asarray(self._internal.data[0][symbols])


class SourceTable:
    """Of each source: its sum's fingerprint; the least and the greatest value; its kind, function
    and symbol of the network's first element, the symbol that it is itself, and its two parts,
    which of all but pairs are itself."""

    def __init__(self) -> None:
        self._sums = Growing(POINTS, np.uint32)
        self._limits = Growing(2, np.int64)
        self._rows = Growing(6, np.int32)

    def extend(self, kind: int, sums: Integers, low: Integers, high: Integers) -> Integers:
        """Numbers (n,) of new sources of one kind; sums (POINTS, n)."""
        n = len(low)
        self._sums.extend(sums)
        self._limits.extend(np.stack([low, high]))
        nothing = np.full(n, NO_SOURCE)
        itself = np.arange(self._rows.count, self._rows.count + n)
        return self._rows.extend(np.stack([nothing + 1 + kind, *[nothing] * 3, itself, itself]))

    def sums(self, sources: Integers) -> Integers:
        """Fingerprints (POINTS, n)."""
        return np.asarray(self._sums.data[:, sources], np.int64)

    def limits(self, sources: Integers) -> Integers:
        """The least and the greatest values (2, n)."""
        return np.asarray(self._limits.data[:, sources])

    def kinds(self, sources: Integers) -> Integers:
        """Kinds (n,)."""
        return np.asarray(self._rows.data[0][sources])

    def wanted(self, sources: Integers) -> Integers:
        """Functions and symbols (2, n) of the network's first elements; NO_SOURCE, NO_SYMBOL."""
        return np.asarray(self._rows.data[1:3, sources], np.int64)

    def want(self, sources: Integers, functions: Integers, symbols: Integers) -> None:
        """Enters the network's first elements of sources (n,)."""
        self._rows.data[1:3, sources] = functions, symbols

    def of_element(self, symbol: int) -> Integers:
        """The sources (n,) of which a symbol is the network's first element."""
        return np.flatnonzero(self._rows.data[2] == symbol)

    def itself(self, sources: Integers) -> Integers:
        """The symbols (n,) that sources are; NO_SYMBOL."""
        return np.asarray(self._rows.data[3][sources], np.int64)

    def name(self, sources: Integers, symbols: Integers) -> None:
        """Enters the symbols that sources (n,) are."""
        self._rows.data[3, sources] = symbols

    def parts(self, sources: Integers) -> Integers:
        """The two sources (2, n) of each."""
        return np.asarray(self._rows.data[4:, sources], np.int64)

    def pair(self, sources: Integers, first: Integers, second: Integers) -> None:
        """Enters the two sources of pairs (n,)."""
        self._rows.data[4:, sources] = first, second
