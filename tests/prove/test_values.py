# SPDX-License-Identifier: Apache-2.0
"""prove/values.py and fingerprints.py: sums are found again, and only these; a byte that a device
stores is the element that it equals, and no other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loadstone.prove.equality import INT32, Equality
from loadstone.prove.fingerprints import POINTS, Integers, Points
from loadstone.prove.functions import FIRST, SECOND, FunctionKind
from loadstone.prove.keys import pair_keys
from loadstone.prove.values import (
    CENTRE,
    CONSTANT,
    CONSTANTS,
    NO_SOURCE,
    NO_SYMBOL,
    RADIUS,
    Values,
)
from loadstone.prove.verdict import Unsupported

_ENDS = np.array([-128]), np.array([127])


def limited(values: Values, kind: FunctionKind, *limits: int) -> Integers:
    """Functions min(x, k) or max(x, k)."""
    x = np.full((len(limits), 1), FIRST)
    return values.functions.make(kind, np.array(limits)[:, None], x)


def plus(values: Values, *numbers: int) -> Integers:
    """Functions x + k."""
    ones, nothing = np.ones((len(numbers), 1), np.int64), np.zeros(len(numbers), np.int64)
    return values.functions.sum(ones, ones * FIRST, np.array(numbers), nothing)


def test_primes_are_drawn_anew_and_are_primes() -> None:
    drawn = {int(p) for _ in range(4) for p in Points().moduli[:, 0]}
    assert len(drawn) == 16
    for p in drawn:
        assert 1 << 30 <= p < 1 << 31
        assert all(p % d for d in range(3, math.isqrt(p) + 1, 2)), p


def test_factors_of_multiples() -> None:
    points = Points()
    sums = points.draw(300)
    factors = np.random.default_rng(1).integers(-(1 << 39), 1 << 39, 300)
    found, fits = points.factors(points.times(sums, factors), sums)
    assert fits.all()
    assert (found == factors).all()
    assert (points.keys(points.times(sums, factors)) == points.keys(sums))[factors != 0].all()
    assert not points.factors(points.draw(300), sums)[1].any()
    too_large = points.times(sums, np.int64(1) << 41)
    assert not points.factors(too_large, sums)[1].any()
    assert points.keys(points.draw(0)).shape == (0,)


def test_sums_are_found_again_up_to_a_factor() -> None:
    values = Values()
    symbols = values.opaque(np.full(20, -128), np.full(20, 127))
    columns = values.columns(symbols).astype(np.int64)
    moduli = values.points.moduli
    weights = np.random.default_rng(0).integers(-127, 128, (20, 50))
    sums = columns[:POINTS] @ weights % moduli
    low, high = np.full(50, -(1 << 20)), np.full(50, 1 << 20)
    missing, _ = values.find(sums, low, high, make=False)
    assert (missing == NO_SOURCE).all()
    made, factors = values.find(sums, low, high, make=True)
    assert len(set(made.tolist())) == 50
    assert (factors == 1).all()
    again, factors = values.find(values.points.times(sums, -77), low, high, make=False)
    assert (again == made).all()
    assert (factors == -77).all()
    spoilt = weights.copy()
    spoilt[3] += 1
    assert (values.find(columns[:POINTS] @ spoilt % moduli, low, high, make=False)[0] == -1).all()
    # Of two new multiples in one call the second is one of the first.
    both = values.points.times(columns[:POINTS] @ spoilt[:, :1] % moduli, np.array([1, 5]))
    sources, factors = values.find(both, low[:2], high[:2], make=True)
    assert sources[0] == sources[1]
    assert factors.tolist() == [1, 5]
    # A third of a sum is none: it is a source of its own, of which the sum is not a multiple.
    one = values.find(columns[:POINTS, :1], *_ENDS, False, symbols[:1])
    assert one[0][0] == values.origin(symbols[:1])[0][0]
    with pytest.raises(Unsupported, match="48 bits"):
        values.find(values.points.draw(1), np.array([0]), np.array([1 << 50]), make=True)


def test_a_multiple_of_one_symbol_is_a_function_of_it() -> None:
    """The sum's term says which; one that is not, and a constant, change nothing."""
    values = Values()
    symbols = values.opaque(np.full(3, -128), np.full(3, 127))
    fingerprints = values.columns(symbols)[:POINTS].astype(np.int64)
    sums = values.points.times(fingerprints[:, [0, 1, 1]], np.array([7, -3, 1]))
    sums[:, 2] = (sums[:, 2] + fingerprints[:, 2]) % values.points.moduli[:, 0]
    low, high = np.full(3, -900), np.full(3, 900)
    terms = np.array([symbols[0], 5, symbols[1]])
    sources, factors = values.find(sums, low, high, False, terms)
    assert not values._symbols.has_source(terms[[1]])[0]  # a constant is no sum
    own, identity = values.origin(symbols)
    assert sources.tolist() == [own[0], NO_SOURCE, NO_SOURCE]
    assert (factors[0], identity.tolist()) == (7, [values.identity] * 3)
    assert values.symbols_of(own, identity).tolist() == symbols.tolist()
    found, factors = values.find(sums, low, high, make=True)  # asked for since, each has a source
    assert found[:2].tolist() == own[:2].tolist()
    assert factors.tolist() == [7, -3, 1]
    assert found[2] not in own
    assert [end.tolist() for end in values.source_limits(own)] == [[-128] * 3, [127] * 3]


def test_a_stored_byte_is_the_element_that_it_equals() -> None:
    values = Values()
    symbol = values.opaque(*_ENDS)
    source, function = values.origin(symbol)
    clamped = values.functions.make(FunctionKind.MAX, np.array([[0]]), function[:, None])
    element = values.define(source, clamped)
    assert values.limits(element)[0][0] == 0
    assert values.stored(source, function)[0] == symbol[0]
    assert values.stored(source, clamped)[0] == element[0]
    twice = values.functions.make(FunctionKind.MAX, np.array([[0]]), clamped[:, None])
    twice = values.functions.make(FunctionKind.MIN, np.array([[127]]), twice[:, None])
    assert values.stored(source, twice)[0] == element[0]
    other = values.functions.make(FunctionKind.MAX, np.array([[1]]), function[:, None])
    digit = values.stored(source, other)
    assert values.is_internal(digit)[0]
    assert values.stored(source, other)[0] == digit[0]
    assert int(other[0]) in values.strange(int(source[0]))
    assert values.element(int(element[0])) == (int(source[0]), int(clamped[0]))
    fixed = values.functions.make(FunctionKind.MIN, np.array([[-128]]), function[:, None])
    assert values.stored(source, fixed)[0] == 128
    assert values.define(source, fixed)[0] == 128
    assert values.define(source, twice)[0] == element[0]


def test_an_element_of_a_network_is_a_byte() -> None:
    """What equals it is a byte then, too: a device's low 8 bits of it are taken for it unseen."""
    values = Values()
    source, function = values.origin(values.opaque(*_ENDS))
    ones, zeros = np.ones((1, 1), np.int64), np.zeros(1, np.int64)
    wide = values.functions.sum(2 * ones, function[:, None], zeros, zeros)
    with pytest.raises(Unsupported, match="no byte"):
        values.define(source, wide)


def test_the_low_bits_of_what_is_wide_are_an_element() -> None:
    values = Values()
    source, function = values.origin(values.opaque(*_ENDS))
    ones, zeros = np.ones((1, 1), np.int64), np.zeros(1, np.int64)
    wide = values.functions.sum(3 * ones, function[:, None], zeros, zeros)
    byte = values.functions.make(FunctionKind.BYTE, np.zeros((1, 0), np.int64), wide[:, None])
    element = values.define(source, byte)
    assert values.stored(source, wide)[0] == element[0]
    again = values.functions.make(FunctionKind.MIN, np.array([[127]]), wide[:, None])
    assert values.stored(source, again)[0] != element[0]


def test_two_elements_of_one_sum() -> None:
    values = Values()
    source, function = values.origin(values.opaque(*_ENDS))
    made = [
        values.functions.make(FunctionKind.MAX, np.array([[k]]), function[:, None]) for k in (1, 2)
    ]
    elements = values.define(np.repeat(source, 2), np.concatenate(made))
    assert len(set(elements.tolist())) == 2
    assert [values.stored(source, one)[0] for one in made] == elements.tolist()
    assert values.element(int(elements[1])) == (int(source[0]), int(made[1][0]))
    third = values.functions.make(FunctionKind.MAX, np.array([[3]]), function[:, None])
    assert values.is_internal(values.stored(source, third))[0]
    assert int(third[0]) in values.strange(int(source[0]))


def test_pairs_and_largest_ones_are_known_once() -> None:
    values = Values()
    symbols = values.opaque(np.full(3, -128), np.array([5, 9, 7]))
    sources, _ = values.origin(symbols)
    pair = values.pairs(sources[:1], sources[1:2])
    assert values.pairs(sources[:1], sources[1:2]) == pair
    assert values.is_pair(int(pair[0]))
    assert values.ranges_of_pair(int(pair[0])) == (-128, 5, -128, 9)
    largest = values.largest(np.stack([symbols] * 2))
    assert largest[0] == largest[1]
    assert values.source_limits(largest)[1].tolist() == [9, 9]
    assert values.symbols_of_largest(largest).tolist() == [symbols.tolist()] * 2
    assert values.symbol_count == CONSTANTS + 3


def test_symbols_0_to_255_are_the_bytes() -> None:
    values = Values()
    assert CONSTANTS == values.symbol_count == 256
    symbols = np.arange(256)
    signed = [*range(128), *range(-128, 0)]
    assert [end.tolist() for end in values.limits(symbols)] == [signed] * 2
    columns = values.columns(symbols)
    assert columns[CONSTANT].tolist() == signed
    assert not columns[[*range(POINTS), CENTRE, RADIUS]].any()
    assert (values.looked_for, values.degree) == (0, 1)
    values.opaque(*_ENDS)
    numbers = np.array([-129, -128, -1, 0, 1, 127, 128])
    found = values.symbols_of(np.full(7, NO_SOURCE), numbers)
    assert found.tolist() == [NO_SYMBOL, 128, 255, 0, 1, 127, NO_SYMBOL]


def test_a_sum_has_at_most_48_bits() -> None:
    values = Values()
    for low, high in ((0, 1 << 48), (-(1 << 47), 1 << 47), (-(1 << 48), 0)):
        with pytest.raises(Unsupported, match="48 bits"):
            values.find(values.points.draw(1), np.array([low]), np.array([high]), make=True)
    ends = np.array([-(1 << 47)]), np.array([(1 << 47) - 1])
    assert values.find(values.points.draw(1), *ends, make=True)[0][0] != NO_SOURCE
    assert values.looked_for == 4


def test_sums_of_one_key_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key says where to look; the fingerprint alone says what is a multiple."""
    values = Values()
    monkeypatch.setattr(values.points, "keys", lambda sums: np.zeros(sums.shape[1], np.int64))
    sums = values.points.draw(5)
    low, high = np.zeros(5, np.int64), np.full(5, 9)
    made = np.concatenate(
        [
            values.find(sums[:, k], low[: len(k)], high[: len(k)], make=True)[0]
            for k in ([0], [1, 2], [3])
        ]
    )
    assert len(set(made.tolist())) == 4
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        factors = np.arange(2, 7)
        multiples = values.points.times(sums[:, order], factors)
        sources, found = values.find(multiples, low, high, make=False)
        assert sources.tolist() == [[*made.tolist(), NO_SOURCE][k] for k in order]
        known = np.array(order) < 4
        assert (found == factors)[known].all()


def test_what_a_device_made_is_known_once() -> None:
    values = Values()
    sources, _ = values.origin(values.opaque(*(np.repeat(end, 2) for end in _ENDS)))
    function = limited(values, FunctionKind.MAX, 5)
    first, _ = values.internal(sources[:1], function)
    assert values.internal(sources[:1], function)[0] == first
    assert values.internal(sources[1:], function)[0] != first
    assert pair_keys(np.array([1, 0]), np.array([0, 3])).tolist() == [1 << 31, 3]
    fixed = limited(values, FunctionKind.MIN, -127)
    high = np.array([-127])
    made, number = values.internal(values.origin(values.opaque(high, high + 9))[0], fixed)
    assert (made[0], number[0]) == (NO_SYMBOL, -127)


def test_one_function_of_two_sources_is_two_bytes() -> None:
    values = Values()
    symbols = values.opaque(*(np.repeat(end, 2) for end in _ENDS))
    sources, _ = values.origin(symbols)
    function = limited(values, FunctionKind.MAX, 5)
    first, second = (values.stored(sources[k : k + 1], function)[0] for k in range(2))
    assert first != second
    assert values.stored(sources, np.repeat(function, 2)).tolist() == [first, second]
    strange = [values.strange(source) for source in sources.tolist()]
    assert strange == [[], []], "the network wants nothing of these"


def test_a_constant_that_is_stored_is_this_byte() -> None:
    values = Values()
    source, _ = values.origin(values.opaque(np.array([-127]), np.array([9])))
    fixed = limited(values, FunctionKind.MIN, -127)
    assert values.stored(source, fixed)[0] == 129
    assert values.define(source, fixed)[0] == 129


@pytest.mark.parametrize(("constant", "fits"), [(-1, False), (0, True), (1, False)])
def test_an_element_has_the_range_of_a_byte(constant: int, fits: bool) -> None:
    values = Values()
    source, _ = values.origin(values.opaque(*_ENDS))
    if fits:
        assert values.define(source, plus(values, constant))[0] != NO_SYMBOL
    else:
        with pytest.raises(Unsupported, match="no byte"):
            values.define(source, plus(values, constant))


def test_what_is_beyond_a_byte_at_one_end_is_cut_to_its_low_bits() -> None:
    values = Values()
    sources, _ = values.origin(values.opaque(*(np.repeat(end, 3) for end in _ENDS)))
    functions = plus(values, -1, 0, 1)
    nothing = np.zeros((3, 0), np.int64)
    cut = values.functions.make(FunctionKind.BYTE, nothing, functions[:, None])
    assert values._low_bytes(sources, functions).tolist() == [cut[0], functions[1], cut[2]]


def test_each_of_several_elements_of_a_sum_is_found() -> None:
    """In one call or in several; what equals none of them is strange."""
    values = Values()
    sources, _ = values.origin(values.opaque(*(np.repeat(end, 2) for end in _ENDS)))
    source, four = sources[:1], np.repeat(sources[:1], 4)
    functions = limited(values, FunctionKind.MAX, 1, 2, 3, 4)
    first = values.define(source, functions[:1])
    elements = values.define(four, functions)
    assert elements[0] == first[0]
    assert len(set(elements.tolist())) == 4
    assert values.define(four, functions).tolist() == elements.tolist()
    for element, function in zip(elements.tolist(), functions.tolist(), strict=True):
        assert values.element(element) == (int(source[0]), function)
    assert values.element(int(elements.max()) + 1) is None
    assert values.stored(four, functions).tolist() == elements.tolist()
    other = values.define(sources[1:], functions[:1])
    asked = np.array([*elements.tolist(), *other.tolist()])
    assert not values.has_strange(asked).any()
    values.stored(np.repeat(source, 2), limited(values, FunctionKind.MAX, 5, 6))
    assert values.has_strange(asked).tolist() == [True, False, False, False, False]
    made = sorted(limited(values, FunctionKind.MAX, 5, 6).tolist())
    assert values.strange(int(source[0])) == made
    own, identity = values.origin(values.opaque(*_ENDS))
    values.stored(own, identity)
    assert values.strange(int(own[0])) == []


def test_what_is_a_symbol_stays_it() -> None:
    """An element that equals an input is another name; the input, stored, is the input."""
    values = Values()
    symbol = values.opaque(*_ENDS)
    source, function = values.origin(symbol)
    element = values.define(source, limited(values, FunctionKind.MAX, -128))
    assert element[0] != symbol[0]
    assert values.stored(source, function)[0] == symbol[0]


def test_a_byte_that_was_stored_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Values()
    source, _ = values.origin(values.opaque(*_ENDS))
    values.define(source, limited(values, FunctionKind.MAX, 1))
    function = limited(values, FunctionKind.MAX, 2)
    values.stored(source, function)
    assert values.strange(int(source[0])) == [int(function[0])]
    values.begin()
    assert values.strange(int(source[0])) == []
    values.stored(source, function)
    assert values.strange(int(source[0])) == [int(function[0])]
    monkeypatch.setattr(values, "_stored_new", None)
    values.stored(source, function)


def test_a_level_off_is_a_name_only_where_that_is_asked_for() -> None:
    """And to one function in an artifact; the next artifact may have another one."""
    for tolerance in (0, 1):
        values = Values(tolerance)
        source, _ = values.origin(values.opaque(np.array([-100]), np.array([100])))
        exact, less, more, far = (values_of[None] for values_of in plus(values, 2, 1, 3, 4))
        element = values.define(source, exact)
        assert (values.stored(source, less) == element).all() == bool(tolerance)
        assert values.stored(source, more)[0] != element[0]
        values.begin()
        assert (values.stored(source, more) == element).all() == bool(tolerance)
        assert values.stored(source, far)[0] != element[0]
        assert not values._equal(source, exact, less)[0]
        assert values._equal(source, exact, less, Equality(values.functions, 1))[0]


def test_functions_of_two_bytes() -> None:
    """All pairs are tried, and those of a sum are not: its range may be wide."""
    values = Values()
    bytes_ = values.opaque(np.array([-9, -5]), np.array([3, 4]))
    sources, _ = values.origin(bytes_)
    pair = values.pairs(sources[:1], sources[1:])
    assert values.ranges_of_pair(int(pair[0])) == (-9, 3, -5, 4)
    wide, _ = values.find(values.points.draw(1), np.array([-(1 << 16)]), np.array([7]), make=True)
    both = np.array([[FIRST, SECOND]])
    nothing = np.zeros((1, 0), np.int64)
    least = values.functions.make(FunctionKind.MIN_OF_TWO, nothing, both)
    ends = values.ranges(np.concatenate([pair, wide]), np.array([least[0], FIRST]))
    assert [end.tolist() for end in ends] == [[-9, -(1 << 16)], [3, 7]]
    most = values.functions.make(FunctionKind.MAX_OF_TWO, nothing, both)
    again = values.functions.make(FunctionKind.MIN_OF_TWO, nothing, both[:, ::-1])
    clamped = limited(values, FunctionKind.MIN, 7)
    asked = np.array([least[0], least[0], FIRST]), np.array([again[0], most[0], clamped[0]])
    assert values._equal(np.array([*pair, *pair, *wide]), *asked).tolist() == [True, False, True]


def test_nothing_is_known_of_what_is_unknown() -> None:
    values = Values()
    sources = values.unknown(2)
    assert values.is_unknown(sources).all()
    assert sources[0] != sources[1]
    assert [end.tolist() for end in values.source_limits(sources)] == [[end] * 2 for end in INT32]
    assert INT32 == (-(1 << 31), (1 << 31) - 1)
    known, _ = values.origin(values.opaque(*_ENDS))
    assert not values.is_unknown(known).any()
    symbols = values.opaque(*(np.repeat(end, 2) for end in _ENDS)).tolist()
    first = values.largest(np.array([symbols]))
    assert values.largest(np.array([symbols])) == first
    assert not values.is_pair(int(first[0]))
