# SPDX-License-Identifier: Apache-2.0
"""prove/lanes.py: a range that 64 bits hardly hold is none. What lanes compute is compared with the
reference in test_machine.py."""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import POINTS
from loadstone.prove.functions import FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.values import CONSTANT, Values
from tests.prove.values_at import ValuesAt

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
