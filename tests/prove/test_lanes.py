# SPDX-License-Identifier: Apache-2.0
"""prove/lanes.py: a range that 64 bits hardly hold is none. What lanes compute is compared with the
reference in test_machine.py."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.requantize import wrapped
from loadstone.prove.values import (
    CENTRE,
    CONSTANT,
    NO_SOURCE,
    NO_SYMBOL,
    RADIUS,
    Values,
)
from loadstone.prove.verdict import Unsupported
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


BYTES = [-77, 5, 100, -128]


class Mirrored:
    """Lanes of symbols beside int32."""

    COUNT = 8

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.values = ValuesAt(np.array(BYTES))
        self.symbols = self.values.opaque(np.full(4, -128), np.full(4, 127))
        self.lanes = SymbolLanes(self.values, self.COUNT)
        self.held = np.zeros(self.COUNT, np.int64)
        every = np.arange(self.COUNT)
        self.lanes.put_numbers(every, 0)
        self.known = dict(zip(self.symbols.tolist(), BYTES, strict=True))
        self.known |= {k: (k ^ 128) - 128 for k in range(256)}
        self.digits: list[int] = []
        self.unknown = 0

    def value(self, lane: int) -> int | None:
        """What a lane is for the bytes; None where a proof knows nothing of it."""
        (source,), (function,) = self.lanes.resolve(np.array([lane]))
        if source == NO_SOURCE:
            return int(function)
        if self.values.is_unknown(np.array([source]))[0]:
            return None
        return self.values.value(int(source), int(function))

    def check(self) -> None:
        for lane in range(self.COUNT):
            at = np.array([lane])
            if self.lanes.is_number(at)[0]:
                assert self.lanes.numbers(at).tolist() == [self.held[lane]]
            found = self.value(lane)
            self.unknown += found is None
            assert found in (None, self.held[lane]), lane
            if self.lanes.source[lane] == NO_SOURCE and self.lanes.digits.count[lane] <= 8:
                sum_ = self._sum(lane)
                assert self.lanes.low[lane] <= sum_ <= self.lanes.high[lane]

    def _sum(self, lane: int) -> int:
        p, q = self.values.points.moduli[[-3, -1], 0].tolist()
        low, high = self.lanes.sums[[-3, -1], lane].tolist()
        held = low + (high - low) * pow(p, -1, q) % q * p
        return int(held - p * q if held > p * q // 2 else held)

    def some(self) -> Integers:
        return self.rng.permutation(self.COUNT)[: int(self.rng.integers(1, 5))]

    def step(self) -> None:
        rng, lanes, at = self.rng, self.lanes, self.some()
        n = len(at)
        match int(rng.integers(10)):
            case 0:
                self.held[at] = rng.integers(-(1 << 31), 1 << 31, n)
                lanes.put_numbers(at, self.held[at])
            case 1:
                names = [*self.symbols.tolist(), *self.digits, *rng.integers(0, 256, 3).tolist()]
                symbols = rng.choice(np.array(names), n)
                lanes.put_symbols(at, symbols)
                self.held[at] = [self.known[symbol] for symbol in symbols.tolist()]
            case 2:
                numbers = rng.integers(-9999, 9999, n)
                lanes.add_numbers(at, numbers)
                self.held[at] += numbers
            case 3:
                others = self.some()
                at = at[: len(others)]
                others = others[: len(at)]
                lanes.add_lanes(at, others)
                self.held[at] += self.held[others].copy()
            case 4:
                numbers = rng.choice(np.array([-3, 0, 1, 7, 1 << 20]), n)
                lanes.scale(at, numbers)
                self.held[at] *= numbers
            case 5:
                numbers = rng.choice(np.array([1, 3, 9, 31, 40, -2, -30, -33]), n)
                lanes.shift(at, numbers)
                left = np.where(numbers < -31, 0, self.held[at] << np.clip(-numbers, 0, 31))
                self.held[at] = np.where(
                    numbers < 0, left, self.held[at] >> np.clip(numbers, 0, 40)
                )
            case 6:
                kind, limit = ((FunctionKind.MIN, np.minimum), (FunctionKind.MAX, np.maximum))[
                    int(rng.integers(2))
                ]
                numbers = rng.integers(-200, 200, n)
                lanes.step(at, kind, numbers[:, None])
                self.held[at] = limit(self.held[at], numbers)
            case 7:
                self._products(at)
            case 8:
                ((lanes.linear, lanes.unshifted)[int(rng.integers(2))])(at)
            case _:
                self._name(int(at[0]))
        self.held = wrapped(self.held)

    def _products(self, at: Integers) -> None:
        """Two symbols with weights, and a constant part."""
        self.lanes.linear(at)
        chosen, weights = self.rng.permutation(self.symbols)[:2], self.rng.integers(-99, 99, 2)
        columns = self.values.columns(chosen).astype(np.int64)
        parts = (columns * weights).sum(1)
        radius = (columns[RADIUS] * np.abs(weights)).sum()
        low, high = (parts[CENTRE] + sign * radius >> 1 for sign in (-1, 1))
        constant = int(self.rng.integers(-99, 99))
        sums = np.append(parts[:POINTS], constant)[:, None].repeat(len(at), 1)
        self.lanes.add_products(at, sums, np.full(len(at), low), np.full(len(at), high))
        for symbol, weight in zip(chosen, weights, strict=True):
            n = np.full(len(at), 1)
            self.lanes.named.add(at, symbol * n, weight * n << self.lanes.s[at])
        self.held[at] += constant + sum(
            int(w) * self.known[int(s)] for s, w in zip(chosen, weights, strict=True)
        )

    def _name(self, lane: int) -> None:
        """What a lane is becomes a digit that a device alone knows."""
        at = np.array([lane])
        self.lanes.step(at, FunctionKind.BYTE, np.zeros((1, 0), np.int64))
        byte = (int(self.held[lane]) + 128) % 256 - 128
        self.held[lane] = byte
        (source,), (function,) = self.lanes.resolve(at)
        if source == NO_SOURCE or self.values.is_unknown(np.array([source]))[0]:
            return
        (symbol,), _ = self.values.internal(np.array([source]), np.array([function]))
        if symbol != NO_SYMBOL:
            self.digits.append(int(symbol))
            self.known[int(symbol)] = byte


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
