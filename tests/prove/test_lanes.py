# SPDX-License-Identifier: Apache-2.0
"""prove/lanes.py: a range that 64 bits hardly hold is none. What lanes compute is compared with the
reference in test_machine.py."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from loadstone.prove.fingerprints import POINTS
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.values import (
    CONSTANT,
    NO_SOURCE,
    Values,
)
from loadstone.prove.verdict import Unsupported
from tests.prove.mirrored import Mirrored
from tests.prove.values_at import ValuesAt
from tests.repeat import times

_LANE = np.array([0])


def lane_of_a_sum() -> tuple[Values, SymbolLanes]:
    """One lane that is a sum of bytes, with a range of 32 bits, shifted by 30."""
    values = Values()
    lanes = SymbolLanes(values, 2)
    lanes.put_numbers(np.arange(2), 0)
    add(values, lanes, 1 << 30)
    lanes.shift(_LANE, np.array([30]))
    return values, lanes


def add(values: Values, lanes: SymbolLanes, most: int) -> None:
    symbols = values.opaque(np.array([-128]), np.array([127]))
    sums = np.concatenate([values.columns(symbols)[:POINTS].astype(np.int64), np.zeros((1, 1))])
    sums = sums.astype(np.int64)
    assert len(sums) == CONSTANT + 1
    lanes.add_products(_LANE, sums, np.array([-most]), np.array([most]))


def is_unknown(values: Values, lanes: SymbolLanes) -> bool:
    return bool(values.is_unknown(lanes.resolve(_LANE)[0])[0])


def test_a_sum_behind_a_shift_keeps_its_range_or_is_forgotten() -> None:
    values, lanes = lane_of_a_sum()
    for _ in range(40):  # 2^30 << 30 each: behind the eighth, 64 bits would have wrapped
        add(values, lanes, 1 << 30)
        size = max(abs(int(lanes.low[0])), abs(int(lanes.high[0])))
        assert size < 1 << 62
    assert is_unknown(values, lanes)
    lanes.put_numbers(_LANE, 5)
    assert lanes.is_number(_LANE).all()


def test_a_product_that_64_bits_do_not_hold_is_forgotten() -> None:
    values = Values()
    lanes = SymbolLanes(values, 1)
    lanes.put_numbers(_LANE, 0)
    add(values, lanes, 1 << 20)
    lanes.scale(_LANE, np.array([1 << 15]))
    assert int(lanes.high[0]) == 1 << 35
    lanes.scale(_LANE, np.array([1 << 28]))
    assert is_unknown(values, lanes)


def test_digits_with_large_coefficients_are_no_32_bits() -> None:
    """So that a shift behind them does not compose with what wraps."""
    values = Values()
    lanes = SymbolLanes(values, 1)
    lanes.put_numbers(_LANE, 0)
    add(values, lanes, 1 << 20)
    lanes.shift(_LANE, np.array([3]))
    lanes.step(_LANE, FunctionKind.BYTE, np.zeros((1, 0), np.int64))
    lanes.linear(_LANE)
    for _ in range(4):
        lanes.scale(_LANE, np.array([1 << 15]))
    lanes.shift(_LANE, np.array([4]))
    assert int(lanes.s[0]) == 0


def test_what_is_added_is_what_was_there_before() -> None:
    """One instruction adds lane 1 to lane 0, and to lane 1 a byte that it has as its second
    term."""
    values = ValuesAt(np.array([3, 5]))
    a, b = values.opaque(np.full(2, -128), np.full(2, 127)).reshape(2, 1)
    lanes = SymbolLanes(values, 3)
    lanes.put_numbers(np.arange(3), 0)
    lanes.put_symbols(np.array([1]), a)
    lanes.put_symbols(np.array([2]), b)
    lanes.add_lanes(np.array([1]), np.array([2]))
    lanes.add_lanes(np.array([0, 1]), np.array([1, 2]))
    resolved = zip(*lanes.resolve(np.array([0, 1])), strict=True)
    assert [values.value(*one) for one in resolved] == [3 + 5, 3 + 5 + 5]


@pytest.mark.parametrize("seed", range(times(15, 3000)))
def test_lanes_are_what_int32_is(seed: int) -> None:
    """Any operations in any order; most lanes are known at all times."""
    both = Mirrored(seed)
    with suppress(Unsupported):  # a sum of more than 48 bits
        for _ in range(25):
            both.step()
            both.check()
    assert both.unknown < 25 * both.COUNT // 2


def test_bytes_are_lanes_with_their_limits_and_names() -> None:
    """A constant, an element, and a digit that a device alone knows."""
    values = Values()
    symbols = values.opaque(np.array([-5, -128]), np.array([9, 127]))
    source, function = values.origin(symbols[:1])
    halved = values.functions.make(FunctionKind.SHIFT, np.array([[1]]), function[:, None])
    digit = int(values.internal(source, halved)[0][0])
    lanes = SymbolLanes(values, 4)
    lanes.put_symbols(np.arange(4), np.array([*symbols, digit, 250]))
    assert lanes.low.tolist() == [-5, -128, 0, 0]
    assert lanes.high.tolist() == [9, 127, 0, 0]
    assert lanes.c.tolist() == [0, 0, 0, -6]
    assert lanes.digits.count.tolist() == [0, 0, 1, 0]
    assert lanes.named.count.tolist() == [1, 1, 0, 0]
    assert lanes.named.symbol[:2, 0].tolist() == symbols.tolist()
    assert lanes.digits.symbol[2, 0] == digit
    assert lanes.is_number(np.arange(4)).tolist() == [False, False, False, True]
    assert lanes.resolve(np.array([2])) == (source, halved)
    lanes.put_numbers(np.arange(4), 7)
    for terms in (lanes.digits, lanes.named):
        assert terms.count.tolist() == [0] * 4
    assert lanes.is_number(np.arange(4)).all()
    assert (lanes.sums == 0).all()


def test_shifts_compose_where_no_32_bits_are_left_and_nowhere_else() -> None:
    values = Values()
    symbols = values.opaque(np.array([-128]), np.array([127]))
    source, function = values.origin(symbols)
    low_, high_ = np.array([-2]), np.array([3])
    clamped = values.functions.make(FunctionKind.MIN, high_[:, None], function[:, None])
    clamped = values.functions.make(FunctionKind.MAX, low_[:, None], clamped[:, None])
    (digit,), _ = values.internal(source, clamped)  # between -2 and 3
    above = values.functions.make(FunctionKind.MIN, np.array([[4]]), function[:, None])
    above = values.functions.make(FunctionKind.MAX, np.array([[0]]), above[:, None])
    (other,), _ = values.internal(source, above)  # between 0 and 4
    least, most = -(1 << 31), (1 << 31) - 1

    def shifted(
        low: int, high: int, c: int = 0, coefficient: int = 0, by: int = 3, name: int = int(digit)
    ) -> int:
        lanes = SymbolLanes(values, 1)
        lanes.put_numbers(_LANE, 0)
        lanes.sums[:, 0] = values.columns(symbols)[:POINTS, 0].astype(np.int64)
        lanes.low[0], lanes.high[0], lanes.c[0] = low, high, c
        if coefficient:
            lanes.digits.add(_LANE, np.array([name]), np.array([coefficient]))
        lanes.shift(_LANE, np.array([by]))
        return int(lanes.s[0])

    assert shifted(least, most) == 3
    assert shifted(least, most, by=30) == 30
    assert shifted(least, most, by=31) == 0
    assert shifted(least - 1, most) == shifted(least, most + 1) == 0
    assert shifted(least + 5, most, -5) == shifted(least, most - 5, 5) == 3
    assert shifted(least + 5, most, -6) == shifted(least, most - 5, 6) == 0
    assert shifted(least + 20, most - 30, 0, 10) == shifted(least + 30, most - 20, 0, -10) == 3
    assert shifted(least + 19, most - 30, 0, 10) == shifted(least + 29, most - 20, 0, -10) == 0
    assert shifted(least + 20, most - 29, 0, 10) == shifted(least + 30, most - 19, 0, -10) == 0
    assert shifted(-5, 5, 0, 1 << 62, name=int(other)) == 0  # four times that is 2^64
    # A term that was cleared says nothing, though a lane beside it has as many.
    both = SymbolLanes(values, 2)
    for name, coefficient in ((digit, 1), (other, 1 << 20)):
        both.digits.add(np.arange(2), np.repeat(name, 2), np.repeat(coefficient, 2))
    both.digits.clear(_LANE)
    both.digits.add(_LANE, np.array([digit]), np.array([1]))
    both.low[0], both.high[0] = least + 2, most - 3
    both.shift(np.arange(2), np.array([3, 3]))
    assert int(both.s[0]) == 3
    # What 64 bits do not hold looks small at neither end.
    assert shifted(0, 1 << 61, (1 << 63) - 1) == shifted(-(1 << 61), 0, -(1 << 63)) == 0
    lanes = SymbolLanes(values, 1)
    lanes.put_symbols(_LANE, symbols)
    lanes.shift(_LANE, np.array([2]))
    lanes.add_numbers(_LANE, np.array([most - 31]))
    lanes.shift(_LANE, np.array([2]))
    assert int(lanes.s[0]) == 4
    lanes.put_symbols(_LANE, symbols)
    lanes.shift(_LANE, np.array([2]))
    lanes.add_numbers(_LANE, np.array([least + 32]))
    lanes.shift(_LANE, np.array([2]))
    assert int(lanes.s[0]) == 4
    lanes.add_numbers(_LANE, np.array([-(1 << 30)]))
    lanes.add_numbers(_LANE, np.array([-(1 << 30)]))
    lanes.shift(_LANE, np.array([1]))
    assert int(lanes.s[0]) == 0
    lanes.put_symbols(_LANE, symbols)
    lanes.shift(_LANE, np.array([2]))
    lanes.shift(_LANE, np.array([2]))
    lanes.add_numbers(_LANE, np.array([1 << 30]))
    lanes.add_numbers(_LANE, np.array([1 << 30]))
    lanes.shift(_LANE, np.array([1]))
    assert int(lanes.s[0]) == 0


def test_more_terms_than_a_lane_names_are_unknown() -> None:
    """Of digits; of elements two are named, and three that are no sum of the network are a sum of
    their own."""
    values = Values()
    symbols = values.opaque(np.full(10, -128), np.full(10, 127))
    source, function = values.origin(symbols)
    halved = values.functions.make(FunctionKind.SHIFT, np.full((10, 1), 1), function[:, None])
    kinds = [values.functions.make(FunctionKind.SHIFT, np.array([[k]]), function[:1, None])
             for k in range(1, 7)]  # fmt: skip
    kinds += [values.functions.make(FunctionKind.MIN, np.array([[k]]), function[:1, None])
              for k in range(4)]  # fmt: skip
    digits, _ = values.internal(np.full(10, source[0]), np.concatenate(kinds))
    assert len(set(digits.tolist())) == 10
    lanes = SymbolLanes(values, 10)
    lanes.put_symbols(np.arange(10), digits)
    for k in range(1, 10):
        lanes.add_lanes(_LANE, np.array([k]))
        assert is_unknown(values, lanes) == (k >= 8)
    pairs = SymbolLanes(values, 3)
    pairs.put_symbols(np.arange(3), symbols[:3])
    pairs.add_lanes(_LANE, np.array([1]))
    assert values.is_pair(int(pairs.resolve(_LANE)[0][0]))
    pairs.add_lanes(_LANE, np.array([2]))
    three, _ = pairs.resolve(_LANE)
    assert not values.is_pair(int(three[0]))
    assert not values.is_unknown(three)[0]
    pairs.put_symbols(np.arange(2), digits[:2])
    other = values.internal(source[1:2], halved[1:2])[0]
    pairs.put_symbols(np.array([1]), other)
    pairs.add_lanes(_LANE, np.array([1]))
    assert values.is_pair(int(pairs.resolve(_LANE)[0][0]))
    pairs.put_symbols(np.array([1]), values.internal(source[2:3], halved[2:3])[0])
    pairs.add_lanes(_LANE, np.array([1]))
    assert is_unknown(values, pairs)  # digits of three sums


def test_what_is_added_to_a_shifted_lane_is_shifted_with_it() -> None:
    """Beside a lane that is not."""
    values = ValuesAt(np.array([77, -5]))
    a, b = values.opaque(np.full(2, -128), np.full(2, 127)).reshape(2, 1)
    lanes = SymbolLanes(values, 2)
    lanes.put_symbols(np.arange(2), np.repeat(a, 2))
    lanes.shift(_LANE, np.array([2]))
    columns = values.columns(b).astype(np.int64)
    sums = np.append(3 * columns[:POINTS, 0], 11)[:, None].repeat(2, 1)
    lanes.add_products(np.arange(2), sums, np.full(2, -384), np.full(2, 381))
    lanes.named.count[:] = lanes.named.slots + 1  # no function of two bytes
    resolved = zip(*lanes.resolve(np.arange(2)), strict=True)
    assert [values.value(*one) for one in resolved] == [(77 >> 2) + 3 * -5 + 11, 77 + 3 * -5 + 11]
    for number, wanted in ((-1, 154), (0, 77), (-31, -(1 << 31)), (-32, 0), (-33, 0)):
        lanes.put_symbols(_LANE, a)
        lanes.shift(_LANE, np.array([number]))
        assert int(lanes.s[0]) == 0
        (source,), (function,) = lanes.resolve(_LANE)
        value = function if source == NO_SOURCE else values.value(source, function)
        assert value == wanted


@pytest.mark.parametrize(("low", "high"), [(0, 1 << 61), (-(1 << 61), 0)])
def test_a_range_that_is_large_at_one_end_is_none(low: int, high: int) -> None:
    values = Values()
    lanes = SymbolLanes(values, 2)
    symbols = values.opaque(np.array([-128]), np.array([127]))

    def put() -> None:
        lanes.put_symbols(np.arange(2), np.repeat(symbols, 2))
        lanes.low[:], lanes.high[:] = low, high

    put()
    lanes.scale(_LANE, np.array([1]))
    assert lanes.digits.count[0] == 0
    lanes.scale(_LANE, np.array([2]))
    assert is_unknown(values, lanes)
    put()
    lanes.add_lanes(_LANE, np.array([1]))
    assert is_unknown(values, lanes)
    put()
    sums = np.zeros((CONSTANT + 1, 1), np.int64)
    lanes.add_products(_LANE, sums, np.array([low]), np.array([high]))
    assert is_unknown(values, lanes)


def test_terms_that_are_added_are_as_many_as_they_are() -> None:
    values = ValuesAt(np.array([3, 5, 9, 20]))
    symbols = values.opaque(np.full(3, -128), np.full(3, 127))
    lanes = SymbolLanes(values, 4)
    lanes.put_symbols(np.arange(3), symbols)
    lanes.add_lanes(np.array([1]), np.array([2]))
    lanes.put_numbers(_LANE, 0)
    lanes.add_lanes(_LANE, np.array([1]))
    (source,), (function,) = lanes.resolve(_LANE)
    assert values.is_pair(int(source))
    assert values.value(source, function) == 5 + 9
    lanes.put_symbols(np.array([3]), symbols[:1])
    lanes.add_lanes(np.array([1]), np.array([3]))  # three
    lanes.put_numbers(_LANE, 0)
    lanes.add_lanes(_LANE, np.array([1]))
    (source,), (function,) = lanes.resolve(_LANE)
    assert not values.is_pair(int(source))
    assert values.value(source, function) == 3 + 5 + 9
    lanes.put_symbols(np.array([3]), values.opaque(np.array([-128]), np.array([127])))
    lanes.add_lanes(_LANE, np.array([3]))
    (source,), (function,) = lanes.resolve(_LANE)
    assert not values.is_pair(int(source))
    assert values.value(source, function) == 3 + 5 + 9 + 20


@pytest.mark.parametrize(("high", "known"), [(127, True), (128, False)])
def test_functions_of_two_are_those_of_so_many_pairs(high: int, known: bool) -> None:
    values = Values()
    symbols = values.opaque(np.full(2, -128), np.array([127, high]))
    lanes = SymbolLanes(values, 2)
    lanes.put_symbols(np.arange(2), symbols)
    lanes.of_two(_LANE, np.array([1]), FunctionKind.MIN_OF_TWO)
    assert is_unknown(values, lanes) != known
