# SPDX-License-Identifier: Apache-2.0
"""SymbolLanes of accumulators as symbols: sums of products, and functions of them.

In:   values.py; numbers of lanes, and what instructions add, shift and clamp.
Out:  SymbolLanes: the state of all lanes of ACC; what a lane is, as a function of a source.
Next: machine.py executes instructions on them.

A lane is linear, (sum of coefficient * symbol + c) >> s, or it is a function of a source. In the
first state the symbols of the network are kept as a fingerprint of their sum, and digits, which
the device alone knows, by name. Shifts compose: ((A >> a) + B) >> b is (A + (B << a)) >> a + b, as
long as nothing wraps, which the ranges must prove. MIN, MAX, RQ and a shift of what might wrap make
a function of a lane; sums of functions make a lane linear again.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.equality import INT32, Mask
from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.functions import SECOND, FunctionKind
from loadstone.prove.maxima import joined
from loadstone.prove.requantize import wrapped
from loadstone.prove.terms import Terms
from loadstone.prove.values import (
    CENTRE,
    CONSTANT,
    CONSTANTS,
    NO_SOURCE,
    NO_SYMBOL,
    RADIUS,
    Values,
)

__all__ = ["SymbolLanes"]

_DIGITS, _NAMED = 8, 2
_MAX_SHIFT = 30
#: Functions of two sources are compared on all pairs of their values.
_MAX_PAIRS = 1 << 16
_EXACT = float(1 << 61)
#: From here on a range is as good as none.
_LARGEST = 1 << 62


class SymbolLanes:
    """The lanes of ACC. Arguments `lanes` are numbers of lanes, each at most once in a call."""

    def __init__(self, values: Values, count: int) -> None:
        self.values = values
        self.sums = np.zeros((POINTS, count), np.int64)
        self.c, self.low, self.high, self.s = np.zeros((4, count), np.int64)
        self.digits, self.named = Terms(count, _DIGITS), Terms(count, _NAMED)
        self.source = np.full(count, NO_SOURCE)
        self.function = np.zeros(count, np.int64)

    # --- what lanes become ------------------------------------------------------------------------
    def put_numbers(self, lanes: Integers, numbers: Integers | int) -> None:
        """Sets lanes (n,) to constants of 32 bits: one number, or one for each lane."""
        self.sums[:, lanes] = 0
        for array in (self.low, self.high, self.s):
            array[lanes] = 0
        self.digits.clear(lanes)
        self.named.clear(lanes)
        self.source[lanes] = NO_SOURCE
        self.c[lanes] = wrapped(np.asarray(numbers, np.int64))

    def put_symbols(self, lanes: Integers, symbols: Integers) -> None:
        """Bytes, one for each lane."""
        columns = self.values.columns(symbols).astype(np.int64)
        self.put_numbers(lanes, columns[CONSTANT])
        self.sums[:, lanes] = columns[:POINTS]
        self.low[lanes] = (columns[CENTRE] - columns[RADIUS]) // 2
        self.high[lanes] = (columns[CENTRE] + columns[RADIUS]) // 2
        digit = self.values.is_internal(symbols)
        self.digits.one(lanes[digit], symbols[digit])
        plain = ~digit & (symbols >= CONSTANTS)
        self.named.one(lanes[plain], symbols[plain])

    def put_functions(self, lanes: Integers, sources: Integers, functions: Integers) -> None:
        """Sets lanes to functions of sources, each of shape (n,); to the numbers in `functions`
        where the source is NO_SOURCE."""
        fixed = sources == NO_SOURCE
        self.put_numbers(lanes, np.where(fixed, functions, 0))
        self.source[lanes] = sources
        self.function[lanes] = np.where(fixed, 0, functions)

    def linear(self, lanes: Integers) -> None:
        """Makes those lanes (n,) linear that are functions: their values become symbols."""
        lanes = lanes[self.source[lanes] != NO_SOURCE]
        if not len(lanes):
            return
        symbols, numbers = self.values.internal(self.source[lanes], self.function[lanes])
        self.put_numbers(lanes, np.where(symbols == NO_SYMBOL, numbers, 0))
        varies = symbols != NO_SYMBOL
        self.digits.one(lanes[varies], symbols[varies])

    def unshifted(self, lanes: Integers) -> None:
        """Makes lanes (n,) linear, without a shift after the sum."""
        shifted = lanes[self.s[lanes] != 0]
        if len(shifted):
            self.put_functions(shifted, *self.resolve(shifted))
        self.linear(lanes)

    def settle(self, lanes: Integers) -> None:
        """Turns those lanes (n,) into digits that hold a sum of the network, before other digits
        are added, so that all of them are functions of that sum."""
        mixed = lanes[self.sums[:, lanes].any(0)]
        if len(mixed):
            self.put_functions(mixed, *self.resolve(mixed))
            self.linear(mixed)

    # --- linear steps -----------------------------------------------------------------------------
    def add_products(self, lanes: Integers, sums: Integers, low: Integers, high: Integers) -> None:
        """Adds sums of products; sums (CONSTANT + 1, n): fingerprints, not reduced, and the
        constant part; low, high (n,): the range of the rest. SymbolLanes are linear."""
        s = self.s[lanes]
        points = self.values.points
        reduced = sums[:POINTS] % points.moduli
        shifted = points.times(reduced, np.int64(1) << s) if s.any() else reduced
        self.sums[:, lanes] = (self.sums[:, lanes] + shifted) % points.moduli
        self.c[lanes] += sums[CONSTANT] << s
        self.low[lanes] += low << s
        self.high[lanes] += high << s
        self._limit(lanes)

    def _limit(self, lanes: Integers) -> None:
        """Forgets what lanes (n,) are whose range is not far from what 64 bits hold."""
        size = np.maximum(np.abs(self.low[lanes]), np.abs(self.high[lanes]))
        self._forget(lanes[size >= _LARGEST])

    def _forget(self, lanes: Integers) -> None:
        """They have more terms than can be named (_unknown)."""
        self.digits.count[lanes] = self.digits.slots + 1
        self.low[lanes] = self.high[lanes] = 0

    def add_numbers(self, lanes: Integers, numbers: Integers) -> None:
        """Adds constants (n,) to lanes (n,)."""
        made = self._is_function(lanes)
        self.c[lanes[~made]] += numbers[~made] << self.s[lanes[~made]]
        at = lanes[made]
        if len(at):
            ones, zeros = np.ones((len(at), 1), np.int64), np.zeros(len(at), np.int64)
            kids = self.function[at][:, None]
            self.function[at] = self.values.functions.sum(ones, kids, numbers[made], zeros)

    def add_lanes(self, lanes: Integers, others: Integers) -> None:
        """Adds other lanes (n,) as they are before: those that others take from may be among lanes
        (n,), too."""
        self.unshifted(lanes)
        self.unshifted(others)
        moduli = self.values.points.moduli
        self.sums[:, lanes] = (self.sums[:, lanes] + self.sums[:, others]) % moduli
        for array in (self.c, self.low, self.high):
            array[lanes] += array[others]
        self._limit(lanes)
        for terms in (self.digits, self.named):
            count = terms.count[others]
            symbols, coefficients = terms.symbol[others], terms.coefficient[others]
            terms.count[lanes[count > terms.slots]] = terms.slots + 1
            for slot in range(terms.slots):
                at = (count > slot) & (count <= terms.slots)
                terms.add(lanes[at], symbols[at, slot], coefficients[at, slot])

    def scale(self, lanes: Integers, numbers: Integers) -> None:
        """Multiplies lanes (n,) by constants (n,)."""
        shifted = lanes[self.s[lanes] != 0]
        if len(shifted):
            self.put_functions(shifted, *self.resolve(shifted))
        self._functions_step(lanes, FunctionKind.PRODUCT, numbers[:, None])
        plain = ~self._is_function(lanes)
        at, factor = lanes[plain], numbers[plain]
        size = np.maximum(np.abs(self.low[at]), np.abs(self.high[at])).astype(np.float64)
        self._forget(at[size * np.abs(factor.astype(np.float64)) >= _LARGEST])
        self.sums[:, at] = self.values.points.times(self.sums[:, at], factor)
        ends = self.low[at] * factor, self.high[at] * factor
        self.low[at], self.high[at] = np.minimum(*ends), np.maximum(*ends)
        self.c[at] = wrapped(self.c[at] * factor)
        self.digits.scale(at, factor)
        self.named.scale(at, factor)

    def shift(self, lanes: Integers, numbers: Integers) -> None:
        """Shifts lanes (n,) to the right by constants (n,), to the left by negative ones."""
        function = self._is_function(lanes)
        s = self.s[lanes]
        left = numbers < 0
        plain = ~function & left & (s == 0)
        if plain.any():
            self.scale(lanes[plain], np.int64(1) << np.minimum(-numbers[plain], 31))
            too_far = lanes[plain][numbers[plain] < -31]
            self.put_numbers(too_far, np.zeros(len(too_far), np.int64))
        low, high = self._range(lanes)
        inside = (low >> s >= INT32[0]) & (high >> s <= INT32[1])
        composes = ~function & ~left & inside & (s + numbers <= _MAX_SHIFT)
        fixed = ~function & ~left & ~composes & self._is_number(lanes)
        at = lanes[fixed]
        numbers_held = wrapped(self.c[at] >> self.s[at])
        self.put_numbers(at, numbers_held >> np.minimum(numbers[fixed], 32))
        self.s[lanes[composes]] += numbers[composes]
        rest = ~plain & ~composes & ~fixed
        if rest.any():
            self.step(lanes[rest], FunctionKind.SHIFT, numbers[rest][:, None])

    # --- steps that are not linear ----------------------------------------------------------------
    def step(self, lanes: Integers, kind: FunctionKind, parameters: Integers) -> None:
        """One function of each lane; parameters (n, p)."""
        self.put_functions(lanes, *self.stepped(lanes, kind, parameters))

    def stepped(
        self, lanes: Integers, kind: FunctionKind, parameters: Integers
    ) -> tuple[Integers, Integers]:
        """Sources and functions (n,) of what `step` would make of lanes, as resolve gives them."""
        sources, functions = self.resolve(lanes)
        fixed, all_functions = sources == NO_SOURCE, self.values.functions
        at, kids = np.flatnonzero(~fixed), functions[:, None]
        if len(at):
            functions[at] = all_functions.make(kind, parameters[at], kids[at])
        if fixed.any():
            p = parameters[fixed].T[..., None]
            functions[fixed] = wrapped(all_functions.apply(kind, p, [kids[fixed]])[:, 0])
        return sources, functions

    def _functions_step(self, lanes: Integers, kind: FunctionKind, parameters: Integers) -> None:
        made = self._is_function(lanes)
        at = lanes[made]
        if len(at):
            kids = self.function[at][:, None]
            self.function[at] = self.values.functions.make(kind, parameters[made], kids)

    def largest(self, lanes: Integers, others: Integers) -> None:
        """MAX of lanes (n,) and other lanes (n,), which are none of them: the largest of several
        bytes."""
        made = joined(self.values, [self.resolve(lanes), self.resolve(others)])
        if made is None:
            self.of_two(lanes, others, FunctionKind.MAX_OF_TWO)
        else:
            self.put_functions(lanes, *made)

    def of_two(self, lanes: Integers, others: Integers, kind: FunctionKind) -> None:
        """A function of lanes (n,) and other lanes (n,), which are none of them."""
        resolved = [self.resolve(at) for at in (lanes, others)]
        sources, made = self._joined(resolved)
        unknown = self.values.is_unknown(sources)
        nothing = np.zeros((len(lanes), 0), np.int64)
        functions = self.values.functions.make(kind, nothing, np.stack(made, 1))
        functions[unknown] = self.values.identity
        self.put_functions(lanes, sources, functions)

    # --- what lanes are ---------------------------------------------------------------------------
    def _is_function(self, lanes: Integers) -> Mask:
        return np.asarray(self.source[lanes] != NO_SOURCE)

    def _is_number(self, lanes: Integers) -> Mask:
        """Which linear lanes are constants."""
        return np.asarray((self.sums[:, lanes] == 0).all(0) & (self.digits.count[lanes] == 0))

    def is_number(self, lanes: Integers) -> Mask:
        """Which of lanes (n,) are constants."""
        return ~self._is_function(lanes) & self._is_number(lanes)

    def numbers(self, lanes: Integers) -> Integers:
        """The values of lanes (n,) that are constants."""
        return wrapped(self.c[lanes] >> self.s[lanes])

    def _range(self, lanes: Integers) -> tuple[Integers, Integers]:
        """The range of sums of linear lanes, before the shift."""
        low, high = self.low[lanes] + self.c[lanes], self.high[lanes] + self.c[lanes]
        digits = self.digits
        size = np.abs(low.astype(np.float64)) + np.abs(high.astype(np.float64))
        for slot in range(int(np.minimum(digits.count[lanes], digits.slots).max(initial=0))):
            at = digits.count[lanes] > slot
            ends = self.values.limits(digits.symbol[lanes[at], slot])
            coefficients = digits.coefficient[lanes[at], slot]
            products = [coefficients * end for end in ends]
            low[at] += np.minimum(*products)
            high[at] += np.maximum(*products)
            farthest = np.maximum(*(np.abs(end) for end in ends)).astype(np.float64)
            size[at] += np.abs(coefficients.astype(np.float64)) * farthest
        large = size >= _EXACT
        low[large], high[large] = -_LARGEST, _LARGEST  # no 32 bits, whatever the shift
        return low, high

    def resolve(self, lanes: Integers) -> tuple[Integers, Integers]:
        """Sources and functions (n,) that lanes are; NO_SOURCE and the number for constants."""
        sources, functions = self.source[lanes].copy(), self.function[lanes].copy()
        plain = sources == NO_SOURCE
        fixed = plain & self._is_number(lanes)
        functions[fixed] = self.numbers(lanes[fixed])
        at = np.flatnonzero(plain & ~fixed)
        if len(at):
            sources[at], functions[at] = self._resolve_linear(lanes[at])
        return sources, functions

    def _resolve_linear(self, lanes: Integers) -> tuple[Integers, Integers]:
        """Of linear lanes that are no constants."""
        digits = self.digits.count[lanes]
        if (digits > _DIGITS).any():
            sources, functions = self._unknown(len(lanes))
            few = np.flatnonzero(digits <= _DIGITS)
            if len(few):
                sources[few], functions[few] = self._resolve_linear(lanes[few])
            return sources, functions
        sums, low, high = self.sums[:, lanes], self.low[lanes], self.high[lanes]
        has_sum = sums.any(0)
        sources, factors = np.full((2, len(lanes)), NO_SOURCE)
        at = np.flatnonzero(has_sum)
        terms = np.where(self.named.count[lanes] > 0, self.named.symbol[lanes, 0], 0)
        ends = low[at], high[at]
        sources[at], factors[at] = self.values.find(sums[:, at], *ends, False, terms[at])
        # Two bytes that are no sum of the network: a function of two bytes.
        two = has_sum & (sources == NO_SOURCE) & (self.named.count[lanes] == _NAMED)
        at = np.flatnonzero(has_sum & (sources == NO_SOURCE) & ~two)
        sources[at], factors[at] = self.values.find(sums[:, at], low[at], high[at], make=True)
        form = 3 * digits + has_sum + two
        functions = np.zeros(len(lanes), np.int64)
        for one in np.unique(form).tolist():
            at = np.flatnonzero(form == one)
            count, kind = divmod(one, 3)
            parts = self._named_parts(self.digits, lanes[at], count)
            if kind == 1:
                identity = np.full(len(at), self.values.identity)
                parts.append((factors[at], sources[at], identity))
            elif kind == 2:
                parts += self._named_parts(self.named, lanes[at], _NAMED)
            sources[at], functions[at] = self._sum_of(parts, lanes[at])
        return sources, functions

    def _named_parts(
        self, terms: Terms, lanes: Integers, count: int
    ) -> list[tuple[Integers, Integers, Integers]]:
        """Coefficients, sources and functions of the first terms of lanes."""
        return [
            (terms.coefficient[lanes, k], *self.values.origin(terms.symbol[lanes, k]))
            for k in range(count)
        ]

    def _sum_of(
        self, parts: list[tuple[Integers, Integers, Integers]], lanes: Integers
    ) -> tuple[Integers, Integers]:
        """Sources and functions of sums of parts, with the constants and shifts of lanes."""
        constant, shift = self._constant(lanes), self.s[lanes]
        size = np.abs(constant).astype(np.float64)
        for coefficient, source, function in parts:
            low, high = self.values.ranges(source, function)
            size += np.maximum(np.abs(low), np.abs(high)).astype(np.float64) * np.abs(coefficient)
        sources, kids = self._joined([part[1:] for part in parts])
        large = size >= _EXACT
        if large.any():
            sources[large] = self._unknown(int(large.sum()))[0]
        coefficients = np.stack([part[0] for part in parts], 1)
        functions = self.values.functions.sum(coefficients, np.stack(kids, 1), constant, shift)
        return sources, np.where(self.values.is_unknown(sources), self.values.identity, functions)

    def _unknown(self, n: int) -> tuple[Integers, Integers]:
        """Lanes of which a proof knows nothing: they come of what was not proved, and nothing that
        is made of them is."""
        return self.values.unknown(n), np.full(n, self.values.identity)

    def _constant(self, lanes: Integers) -> Integers:
        """The constant part: without a shift only 32 bits of it count."""
        c = self.c[lanes]
        return np.where(self.s[lanes] == 0, wrapped(c), c)

    def _joined(self, parts: list[tuple[Integers, Integers]]) -> tuple[Integers, list[Integers]]:
        """One source for each row of several functions, and the functions as those of it."""
        sources = np.stack([source for source, _ in parts], 1)
        functions = np.stack([function for _, function in parts], 1)
        if (fixed := sources == NO_SOURCE).any():  # constants: functions of what is beside them
            functions[fixed] = self.values.functions.constants(functions[fixed])
            sources = np.where(fixed, sources.max(1, keepdims=True), sources)
        same = (sources == sources[:, :1]).all(1)
        joined = sources[:, 0].copy()
        rest = np.flatnonzero(~same)
        if len(rest):
            joined[rest], functions[rest] = self._paired(sources[rest], functions[rest])
        return joined, list(functions.T)

    def _paired(self, sources: Integers, functions: Integers) -> tuple[Integers, Integers]:
        """The same for rows of sources (n, parts) that differ: pairs of two bytes."""
        values = self.values
        parts = np.stack(values.parts(sources), -1)  # n, parts, 2
        first, second = parts.min((1, 2)), parts.max((1, 2))
        both = (parts == first[:, None, None]) | (parts == second[:, None, None])
        sizes = [np.subtract(*values.source_limits(one)[::-1]) + 1.0 for one in (first, second)]
        known = both.all((1, 2)) & (sizes[0] * sizes[1] <= _MAX_PAIRS)
        alone = (sources == second[:, None]) & (first != second)[:, None]
        renamed, inverse = np.unique(functions[alone], return_inverse=True)
        made = [values.functions.renamed(one, SECOND) for one in renamed.tolist()]
        functions = functions.copy()
        functions[alone] = np.array(made, np.int64)[inverse]
        joined = np.full(len(sources), NO_SOURCE)
        joined[known] = values.pairs(first[known], second[known])
        joined[~known] = values.unknown(int((~known).sum()))
        return joined, functions
