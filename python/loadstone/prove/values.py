# SPDX-License-Identifier: Apache-2.0
"""What bytes stand for: value numbering of everything that a network and a device compute.

In:   sums (fingerprints.py) and functions of them (functions.py).
Out:  Values: symbols of bytes, sources of functions, the network's elements, what was stored.
Next: operators/ state the network's elements; machine.py stores bytes.

A *symbol* is a byte of which nothing more is known than its range: an element of an input, an
element of an operator's output, or what a device made that no operator knows (a digit of a sum,
say), which keeps how it was made. Symbols 0 to 255 are constants.

A *source* is what functions are functions of: a sum of symbols, two symbols, or the largest of
several. Sums that are multiples of each other have one source.

A byte that a device stores and that equals an element of the network, on all values that its
source can have, *is* that element from then on. So order, tiling, copies, prefetch and shared
memory need no rule: on both sides only sums and functions count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.equality import INT32, Equality, Mask
from loadstone.prove.fingerprints import Integers, Points
from loadstone.prove.functions import FIRST, FunctionKind, Functions
from loadstone.prove.keys import ABSENT, KeyTable, distinct, pair_keys
from loadstone.prove.near import NearNames
from loadstone.prove.pieces import BYTE
from loadstone.prove.tables import (
    CENTRE,
    CONSTANT,
    NO_SOURCE,
    NO_SYMBOL,
    RADIUS,
    Growing,
    SourceTable,
    SymbolTable,
)
from loadstone.prove.verdict import Unsupported
from loadstone.prove.windows import SymbolWindows

__all__ = ["CENTRE", "CONSTANT", "CONSTANTS", "NO_SOURCE", "NO_SYMBOL", "RADIUS", "Values"]

#: Symbols below are the bytes of that value.
CONSTANTS = 256
_SUM, _PAIR, _LARGEST, _UNKNOWN = range(4)
#: Bounds the coefficients of a source, on which the bound of errors rests.
_MAX_RANGE = 1 << 48


class Values:
    """All symbols and sources of one proof."""

    def __init__(self, tolerance: int = 0) -> None:
        """tolerance: by how many levels a byte that is stored may differ from the element of the
        network whose name it takes (near.py)."""
        self.points = Points()
        self.functions = Functions()
        self.equality = Equality(self.functions)
        self.near = NearNames(self.functions, tolerance)
        self.identity = FIRST
        self._symbols, self._sources = SymbolTable(), SourceTable()
        self._pairs, self._windows = KeyTable(), SymbolWindows()
        self._source_of_key = KeyTable()
        self._same_key: dict[int, int] = {}  # source -> the next one with its key
        self._more_wanted: dict[int, list[tuple[int, int]]] = {}
        self._made, self._stored = KeyTable(), KeyTable()
        #: How many sums were compared with all others, and of which degree they are at most.
        self.looked_for, self.degree = 0, 1
        self._strange = Growing(2, np.int32)
        bytes_ = np.arange(CONSTANTS, dtype=np.uint8).view(np.int8).astype(np.int64)
        nothing = np.full((2, CONSTANTS), NO_SOURCE)
        self._symbols.extend(None, nothing, np.stack([bytes_, bytes_]), constants=bytes_)

    # --- symbols ----------------------------------------------------------------------------------
    def columns(self, symbols: Integers) -> NDArray[np.float64]:
        """(RADIUS + 1, *shape of symbols): what sums of symbols are made of, exact in float64.
        Those that a device alone knows are 0 everywhere."""
        return self._symbols.columns(symbols)

    def is_internal(self, symbols: Integers) -> Mask:
        """Which of symbols (n,) only a device knows."""
        return self._symbols.is_internal(symbols)

    def origin(self, symbols: Integers) -> tuple[Integers, Integers]:
        """Sources and functions (n,) of symbols (n,) that are no constants."""
        without = symbols[~self._symbols.has_source(symbols)]
        if len(without):
            without = np.unique(without)
            sums = self._symbols.fingerprints(without)
            sources = self._new_sums(sums, *self.limits(without), self.points.keys(sums))
            self._sources.name(sources, without)
            self._symbols.set_source(without, sources)
        source, function = self._symbols.origin(symbols)
        return source, function

    def limits(self, symbols: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of each of symbols, in their shape."""
        low, high = self._symbols.limits(symbols)
        return low, high

    @property
    def symbol_count(self) -> int:
        """Symbols, with the constants."""
        return self._symbols.count

    def opaque(self, low: Integers, high: Integers) -> Integers:
        """New symbols (n,) with these ranges, which are sources themselves: `origin` makes these
        of those that are asked for, which most are not."""
        origins = np.stack([np.full(len(low), NO_SOURCE), np.full(len(low), self.identity)])
        return self._symbols.extend(self.points.draw(len(low)), origins, np.stack([low, high]))

    def internal(self, sources: Integers, functions: Integers) -> tuple[Integers, Integers]:
        """Symbols of what a device made of sources (n,), and numbers: where a function has one
        value, the symbol is NO_SYMBOL, and that is the number."""
        first, inverse = distinct(np.stack([sources, functions], 1))
        of, made = sources[first], functions[first]
        symbols = self._made.get(pair_keys(of, made))
        numbers = np.zeros(len(of), np.int64)
        at = np.flatnonzero(symbols == ABSENT)
        low, high = self.ranges(of[at], made[at])
        fixed = low == high
        numbers[at[fixed]] = low[fixed]
        at, ends = at[~fixed], np.stack([low, high])[:, ~fixed]
        symbols[at] = self._symbols.extend(None, np.stack([of[at], made[at]]), ends, internal=True)
        self._made.enter(pair_keys(of[at], made[at]), symbols[at])
        return symbols[inverse], numbers[inverse]

    # --- sources ----------------------------------------------------------------------------------
    def _new_sums(self, sums: Integers, low: Integers, high: Integers, keys: Integers) -> Integers:
        if (high - low >= _MAX_RANGE).any():
            raise Unsupported("a sum of more than 48 bits")
        sources = self._sources.extend(_SUM, sums, low, high)
        first = self._source_of_key.enter(keys, sources)
        for k in np.flatnonzero(first != sources).tolist():
            before = int(first[k])
            while before in self._same_key:
                before = self._same_key[before]
            self._same_key[before] = int(sources[k])
        return sources

    def find(
        self,
        sums: Integers,
        low: Integers,
        high: Integers,
        make: bool,
        terms: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """Sources of sums (POINTS, n), and the factors by which the sums are multiples of these;
        NO_SOURCE where there is none and none is to be made. low, high (n,): ranges of the sums.
        terms (n,): a symbol of each, of which alone the sum may be made."""
        self.looked_for += len(low)
        if terms is not None:
            at = np.flatnonzero(~self._symbols.has_source(terms) & (terms >= CONSTANTS))
            prime = int(self.points.moduli[0, 0])
            self.origin(terms[at[self._symbols.is_multiple(terms[at], sums[:, at], prime)]])
        keys = self.points.keys(sums)
        sources = self._source_of_key.get(keys)
        factors = np.ones(len(sources), np.int64)
        at = np.flatnonzero(sources != NO_SOURCE)
        while len(at):
            factor, fits = self.points.factors(sums[:, at], self._sources.sums(sources[at]))
            factors[at] = factor
            at = at[~fits]
            behind = [self._same_key.get(source, NO_SOURCE) for source in sources[at].tolist()]
            sources[at] = behind
            at = at[sources[at] != NO_SOURCE]
        missing = np.flatnonzero(sources == NO_SOURCE)
        if make and len(missing):
            _, first, inverse = np.unique(keys[missing], return_index=True, return_inverse=True)
            new = missing[first]
            made = self._new_sums(sums[:, new], low[new], high[new], keys[new])
            sources[missing] = made[inverse]
            ones = self._sources.sums(sources[missing])
            factors[missing], fits = self.points.factors(sums[:, missing], ones)
            if not fits.all():  # several sums with one key, none a multiple of the first
                rest = missing[~fits]
                again = self.find(sums[:, rest], low[rest], high[rest], make)
                sources[rest], factors[rest] = again
        return sources, factors

    def element(self, symbol: int) -> tuple[int, int] | None:
        """Source and function of an element of the network that is a function of one."""
        for source in self._sources.of_element(symbol).tolist():
            return source, int(self._sources.wanted(source)[0])
        for source, pairs in self._more_wanted.items():
            for function, other in pairs:
                if other == symbol:
                    return source, function
        return None

    def strange(self, source: int) -> list[int]:
        """Functions of a source that a device stored and that are no element of the network."""
        sources, functions = self._strange.data
        return [int(function) for function in np.unique(functions[sources == source])]

    def has_strange(self, symbols: Integers) -> Mask:
        """Which of symbols (n,) are elements of sums of which a device stored a function that is no
        element of the network."""
        wrong = self._sources.wanted(np.unique(self._strange.data[0]))[1]
        return np.isin(symbols, wrong[wrong != NO_SYMBOL])

    def pairs(self, first: Integers, second: Integers) -> Integers:
        """Sources (n,) that are pairs of sources, first < second."""
        keys = pair_keys(first, second)
        sources = self._pairs.get(keys)
        new = np.flatnonzero(sources == ABSENT)
        if len(new):
            new = new[np.unique(keys[new], return_index=True)[1]]
            zeros = np.zeros(len(new), np.int64)
            made = self._sources.extend(_PAIR, self.points.draw(len(new)), zeros, zeros)
            self._sources.pair(made, first[new], second[new])
            self._pairs.enter(keys[new], made)
            sources = self._pairs.get(keys)
        return sources

    def unknown(self, n: int) -> Integers:
        """Sources (n,) of 32 bits of which nothing is known."""
        low, high = np.full(n, INT32[0]), np.full(n, INT32[1])
        return self._sources.extend(_UNKNOWN, self.points.draw(n), low, high)

    def is_unknown(self, sources: Integers) -> Mask:
        """Which of sources (n,) are of the kind of which nothing is known."""
        return np.asarray(self._sources.kinds(sources) == _UNKNOWN)

    def is_pair(self, source: int) -> bool:
        """Whether it is a pair of sources."""
        return bool(self._sources.kinds(np.array([source]))[0] == _PAIR)

    def parts(self, sources: Integers) -> tuple[Integers, Integers]:
        """The two sources of each of sources (n,); a source that is no pair is both of its own."""
        first, second = self._sources.parts(sources)
        return first, second

    def largest(self, windows: Integers) -> Integers:
        """Sources (n,) that are the largest of the symbols of windows (n, k), which are sets of
        several (windows.py), none of them constant."""
        return self._windows.sources(windows, self._new_largest)

    def _new_largest(self, windows: Integers) -> Integers:
        low, high = (end.max(1) for end in self.limits(windows))
        return self._sources.extend(_LARGEST, self.points.draw(len(windows)), low, high)

    def symbols_of_largest(self, sources: Integers) -> Integers:
        """The symbols (n, k) of those of sources (n,) that are largest ones; NONE of others."""
        return self._windows.of(sources)

    def source_limits(self, sources: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of sources (n,) that are no pairs."""
        low, high = self._sources.limits(sources)
        return low, high

    def ranges_of_pair(self, source: int) -> tuple[int, int, int, int]:
        """Low, high of the first, low, high of the second."""
        first_low, first_high, low, high = self._ranges_of_pairs(np.array([source]))[0].tolist()
        return first_low, first_high, low, high

    def ranges(self, sources: Integers, functions: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of functions of sources (n,)."""
        low, high = self.source_limits(sources)
        pairs = self._sources.kinds(sources) == _PAIR
        least, most = np.zeros(len(sources), np.int64), np.zeros(len(sources), np.int64)
        one = ~pairs
        least[one], most[one] = self.equality.ranges(functions[one], low[one], high[one])
        if pairs.any():
            ends = self._ranges_of_pairs(sources[pairs])
            least[pairs], most[pairs] = self.equality.ranges_of_two(functions[pairs], ends)
        return least, most

    def _equal(
        self,
        sources: Integers,
        device: Integers,
        network: Integers,
        equality: Equality | None = None,
    ) -> Mask:
        equality = equality or self.equality
        low, high = self.source_limits(sources)
        pairs = self._sources.kinds(sources) == _PAIR
        same = np.zeros(len(sources), bool)
        one = ~pairs
        same[one] = equality.equal(device[one], network[one], low[one], high[one])
        if pairs.any():
            ends = self._ranges_of_pairs(sources[pairs])
            same[pairs] = equality.equal_of_two(device[pairs], network[pairs], ends)
        return same

    def _ranges_of_pairs(self, sources: Integers) -> Integers:
        """Low, high of the first, low, high of the second part of pairs (n,); (n, 4)."""
        ends = [self.source_limits(part) for part in self._sources.parts(sources)]
        return np.stack([*ends[0], *ends[1]], 1)

    # --- elements of the network ------------------------------------------------------------------
    def define(self, sources: Integers, functions: Integers) -> Integers:
        """Symbols (n,) of elements of the network that are functions of sources."""
        first, inverse = distinct(np.stack([sources, functions], 1))
        of, made = sources[first], functions[first]
        symbols = np.full(len(first), NO_SYMBOL)
        fresh = self._sources.wanted(of)[0] == NO_SOURCE
        new = fresh & np.isin(np.arange(len(of)), np.unique(of, return_index=True)[1])
        symbols[new] = self._new_elements(of[new], made[new])
        self._sources.want(of[new], made[new], symbols[new])
        wanted, elements = self._sources.wanted(of)
        again = np.flatnonzero(~new)
        same = again[self._equal(of[again], made[again], wanted[again])]
        symbols[same] = elements[same]
        for k in np.flatnonzero(symbols == NO_SYMBOL).tolist():
            source = int(of[k])
            for function, symbol in self.wanted(source):
                if self._equal(of[k : k + 1], made[k : k + 1], np.array([function]))[0]:
                    symbols[k] = symbol
                    break
            else:
                symbols[k] = self._new_elements(of[k : k + 1], made[k : k + 1])[0]
                self._more_wanted.setdefault(source, []).append((int(made[k]), int(symbols[k])))
        return symbols[inverse]

    def _new_elements(self, sources: Integers, functions: Integers) -> Integers:
        symbols = self.symbols_of(sources, functions)
        new = symbols == NO_SYMBOL
        low, high = self.ranges(sources[new], functions[new])
        varies = low != high
        if (low < BYTE[0]).any() or (high > BYTE[1]).any():
            raise Unsupported("an element of the network that is no byte")
        made = low & 255
        made[varies] = self.opaque(*self.near.limits(low[varies], high[varies]))
        symbols[new] = made
        return symbols

    def symbols_of(self, sources: Integers, functions: Integers) -> Integers:
        """The symbols (n,) that sources (n,) are where functions (n,) are the identity; the bytes
        that numbers are; otherwise NO_SYMBOL."""
        fixed = sources == NO_SOURCE
        byte = fixed & (functions >= -128) & (functions <= 127)
        symbols = np.where(byte, functions & 255, NO_SYMBOL)
        itself = ~fixed & (functions == self.identity)
        symbols[itself] = self._sources.itself(sources[itself])
        return symbols

    def wanted(self, source: int) -> list[tuple[int, int]]:
        """Functions and symbols of the network's elements of a source."""
        function, symbol = self._sources.wanted(np.array([source]))[:, 0].tolist()
        first = [] if function == NO_SOURCE else [(function, symbol)]
        return first + self._more_wanted.get(source, [])

    def begin(self) -> None:
        """Forgets what was stored: another artifact follows."""
        self._stored.clear()
        self.near.begin()
        self._strange = Growing(2, np.int32)

    def stored(self, sources: Integers, functions: Integers) -> Integers:
        """Symbols (n,) of bytes that a device stores, the low 8 bits of functions of sources."""
        first, inverse = distinct(np.stack([sources, functions], 1))
        of, made = sources[first], functions[first]
        symbols = self._stored.get(pair_keys(of, made))
        at = np.flatnonzero(symbols == ABSENT)
        if len(at):
            symbols[at] = self._stored_new(of[at], made[at])
            self._stored.enter(pair_keys(of[at], made[at]), symbols[at])
        return symbols[inverse]

    def _stored_new(self, sources: Integers, functions: Integers) -> Integers:
        symbols, made = self.symbols_of(sources, functions), functions.copy()
        function, symbol = self._sources.wanted(sources)
        known = np.flatnonzero((function != NO_SOURCE) & (symbols == NO_SYMBOL))
        # What equals an element is a byte, so that its low 8 bits are the element, too.
        same = known[self._equal(sources[known], functions[known], function[known])]
        symbols[same] = symbol[same]
        rest = np.flatnonzero(symbols == NO_SYMBOL)
        made[rest] = self._low_bytes(sources[rest], functions[rest])
        again = rest[(made[rest] != functions[rest]) & (function[rest] != NO_SOURCE)]
        same = again[self._equal(sources[again], made[again], function[again])]
        symbols[same] = symbol[same]
        if self._more_wanted:
            for k in known[symbols[known] == NO_SYMBOL].tolist():
                for other, element in self._more_wanted.get(int(sources[k]), []):
                    if self._equal(sources[k : k + 1], made[k : k + 1], np.array([other]))[0]:
                        symbols[k] = element
                        break
        if self.near.tolerance:
            self.near.name(symbols, known, (sources, made), self.wanted, self._equal)
        wrong = known[symbols[known] == NO_SYMBOL]
        self._strange.extend(np.stack([sources[wrong], made[wrong]]))
        rest = np.flatnonzero(symbols == NO_SYMBOL)
        inner, numbers = self.internal(sources[rest], made[rest])
        symbols[rest] = np.where(inner == NO_SYMBOL, numbers & 255, inner)
        return symbols

    def _low_bytes(self, sources: Integers, functions: Integers) -> Integers:
        """The low 8 bits of functions of sources (n,): themselves, where they are bytes."""
        low, high = self.ranges(sources, functions)
        wide = (low < BYTE[0]) | (high > BYTE[1])
        made = functions.copy()
        nothing = np.zeros((int(wide.sum()), 0), np.int64)
        made[wide] = self.functions.make(FunctionKind.BYTE, nothing, functions[wide][:, None])
        return made
