# SPDX-License-Identifier: Apache-2.0
"""Symbols with a value: what a proof says of a byte, for one input.

In:   the bytes of inputs.
Out:  ValuesAt: values of a proof of which every symbol can be asked for its byte.
Next: test_definition.py and test_machine.py compare the bytes with what they should be.

Two of the eight numbers of a fingerprint, which no search for sums reads, are not random here: a
symbol's are its byte, so that a sum's are the sum for that input, modulo two primes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.values import CONSTANTS, Values

__all__ = ["ValuesAt"]


class ValuesAt(Values):
    """Opaque symbols take their bytes from `given`, in the order in which they are made; then from
    what they are functions of."""

    def __init__(self, given: Integers) -> None:
        super().__init__()
        self._given: Iterator[int] = iter(given.tolist())
        self._bytes: list[int] = []
        draw = self.points.draw

        def with_bytes(n: int) -> Integers:
            drawn = draw(n)
            if self._bytes:
                drawn[[-3, -1]] = np.array(self._bytes) % self.points.moduli[[-3, -1]]
                self._bytes = []
            return drawn

        self.points.draw = with_bytes  # type: ignore[method-assign]

    def opaque(self, low: Integers, high: Integers) -> Integers:
        """As of Values; the bytes are the next that were given."""
        if not self._bytes:
            self._bytes = [next(self._given) for _ in low]
        return super().opaque(low, high)

    def _new_elements(self, sources: Integers, functions: Integers) -> Integers:
        low, high = self.ranges(sources, functions)
        new = (self.symbols_of(sources, functions) < 0) & (low != high)
        self._bytes = [self.value(*pair) for pair in zip(sources[new], functions[new], strict=True)]
        return super()._new_elements(sources, functions)

    def value(self, source: int, function: int) -> int:
        """A function of a source."""
        inputs = [np.array([[self._source(part)]]) for part in self._inputs(source)]
        return int(self.functions.evaluate(np.array([function]), *inputs)[0, 0])

    def _inputs(self, source: int) -> tuple[int, ...]:
        first, second = (int(a[0]) for a in self.parts(np.array([source])))
        return (first, second) if self.is_pair(source) else (source,)

    def _source(self, source: int) -> int:
        largest = self.symbols_of_largest(source)
        if largest:
            return max(int(self.bytes(np.array([symbol]))[0]) for symbol in largest)
        p, q = self.points.moduli[[-3, -1], 0].tolist()
        low, high = self._sources.sums(np.array([source]))[[-3, -1], 0].tolist()
        held = low + (high - low) * pow(p, -1, q) % q * p  # the only one below p * q
        return int(held - p * q if held > p * q // 2 else held)

    def bytes(self, symbols: Integers) -> Integers:
        """The bytes of symbols, in their shape."""
        flat = symbols.reshape(-1)
        made = (flat ^ 128) - 128
        for k in np.flatnonzero(flat >= CONSTANTS).tolist():
            source, function = self.origin(flat[k : k + 1])
            made[k] = self.value(int(source[0]), int(function[0]))
        return made.reshape(symbols.shape)
