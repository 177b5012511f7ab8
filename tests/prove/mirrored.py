# SPDX-License-Identifier: Apache-2.0
"""Lanes of symbols beside lanes of int32, for random operations on both.

In:   a seed.
Out:  Mirrored: `step` does any operation, `check` compares all lanes.
Next: test_lanes.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.requantize import wrapped
from loadstone.prove.values import (
    CENTRE,
    NO_SOURCE,
    NO_SYMBOL,
    RADIUS,
)
from tests.prove.values_at import ValuesAt

__all__ = ["Mirrored"]

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
        match int(rng.integers(12)):
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
                numbers = rng.choice(np.array([0, 1, 3, 9, 31, 40, -2, -30, -31, -33]), n)
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
                ((lanes.linear, lanes.unshifted, lanes.settle)[int(rng.integers(3))])(at)
            case 9 | 10:
                self._of_two(at[:2], at[2:4])
            case _:
                self._name(int(at[0]))
        self.held = wrapped(self.held)

    def _of_two(self, at: Integers, others: Integers) -> None:
        """The device asks for none of two constants."""
        at = at[: len(others)]
        others = others[: len(at)]
        varies = ~(self.lanes.is_number(at) | self.lanes.is_number(others))
        at, others = at[varies], others[varies]
        kinds = {
            FunctionKind.MIN_OF_TWO: np.minimum,
            FunctionKind.MAX_OF_TWO: np.maximum,
            FunctionKind.PRODUCT_OF_TWO: np.multiply,
        }
        kind = self.rng.choice(np.array(list(kinds)))
        self.held[at] = kinds[kind](self.held[at], self.held[others])
        if kind == FunctionKind.MAX_OF_TWO and self.rng.random() < 0.8:
            self.lanes.largest(at, others)
        elif len(at):
            self.lanes.of_two(at, others, FunctionKind(kind))

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
