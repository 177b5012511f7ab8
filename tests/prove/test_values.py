# SPDX-License-Identifier: Apache-2.0
"""prove/values.py and fingerprints.py: sums are found again, and only these."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loadstone.prove.fingerprints import POINTS, Points
from loadstone.prove.functions import FunctionKind
from loadstone.prove.values import CONSTANTS, NO_SOURCE, Values
from loadstone.prove.verdict import Unsupported

_ENDS = np.array([-128]), np.array([127])


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
    one = values.find(columns[:POINTS, :1], *_ENDS, make=False)
    assert one[0][0] == values.origin(symbols[:1])[0][0]
    with pytest.raises(Unsupported, match="48 bits"):
        values.find(values.points.draw(1), np.array([0]), np.array([1 << 50]), make=True)


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
    assert int(other[0]) in values.strange[int(source[0])]
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
    assert int(third[0]) in values.strange[int(source[0])]


def test_pairs_and_largest_ones_are_known_once() -> None:
    values = Values()
    symbols = values.opaque(np.full(3, -128), np.array([5, 9, 7]))
    sources, _ = values.origin(symbols)
    pair = values.pairs(sources[:1], sources[1:2])
    assert values.pairs(sources[:1], sources[1:2]) == pair
    assert values.is_pair(int(pair[0]))
    assert values.ranges_of_pair(int(pair[0])) == (-128, 5, -128, 9)
    largest = values.largest([tuple(symbols.tolist())] * 2)
    assert largest[0] == largest[1]
    assert values.source_limits(largest)[1].tolist() == [9, 9]
    assert values.symbols_of_largest(int(largest[0])) == tuple(symbols.tolist())
    assert values.symbol_count == CONSTANTS + 3
