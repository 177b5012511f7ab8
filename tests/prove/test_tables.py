# SPDX-License-Identifier: Apache-2.0
"""prove/tables.py: what is entered is read again."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_growing_keeps_what_is_in_it() -> None:
    held = Growing(2, np.int64)
    for begin in range(0, 9000, 900):
        assert held.extend(np.arange(begin, begin + 900) * [[1], [2]])[0] == begin
    assert (held.data == np.arange(9000) * [[1], [2]]).all()


def test_growing_takes_many_at_once_and_few_again_and_again() -> None:
    held = Growing(1, np.int64)
    assert held.extend(np.arange(5000)[None])[-1] == 4999
    for number in range(5000, 5060):  # in little memory
        assert held.extend(np.array([[number]])).tolist() == [number]
    assert (held.data == np.arange(5060)).all()


def test_rows_of_columns_and_numbers_that_are_none() -> None:
    assert (CONSTANT, CENTRE, RADIUS) == (8, 9, 10)
    table = SourceTable()
    (fresh,) = table.extend(0, np.ones((8, 1), np.int64), np.array([0]), np.array([1]))
    assert table.itself(np.array([fresh])).tolist() == [NO_SYMBOL] == [-1]
    assert table.wanted(np.array([fresh])).tolist() == [[NO_SOURCE], [NO_SYMBOL]]


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1, 1 << 32])
def test_what_a_type_does_not_hold_is_refused(number: int) -> None:
    held = Growing(1, np.int32)
    with pytest.raises(OverflowError, match="int32"):
        held.extend(np.array([[number]]))
    with pytest.raises(OverflowError, match="int32"):  # beside what it holds
        held.extend(np.array([[5, number, 6]]))
    assert held.count == 0


def test_columns_of_constants_of_bytes_and_of_what_a_device_made() -> None:
    table = SymbolTable()
    ends = np.array([[-7, 5], [-7, 9]])
    table.extend(None, ends[:, :1] * 0, ends[:, :1], constants=np.array([-7]))
    largest = np.full((8, 1), (1 << 31) - 2)
    table.extend(largest, np.array([[3], [4]]), ends[:, 1:])
    table.extend(None, np.array([[5], [6]]), np.array([[-(2**31)], [2**31 - 1]]), internal=True)
    columns = table.columns(np.array([[0, 1, 2]]))
    assert columns.shape == (RADIUS + 1, 1, 3)
    assert columns[:CONSTANT, 0].tolist() == [[0, 2.0**31 - 2, 0]] * 8
    assert columns[CONSTANT, 0].tolist() == [-7, 0, 0]
    assert columns[CENTRE, 0].tolist() == [0, 14, 0]
    assert columns[RADIUS, 0].tolist() == [0, 4, 0]
    assert table.origin(np.array([1, 2])).tolist() == [[3, 5], [4, 6]]
    assert table.limits(np.array([0, 2])).tolist() == [[-7, -(2**31)], [-7, 2**31 - 1]]
    assert table.is_internal(np.array([0, 1, 2])).tolist() == [False, False, True]
    assert table.count == 3
    assert table.fingerprints(np.array([1, 2])).tolist() == [[2**31 - 2, 0]] * 8


def test_ratios_and_sources_of_symbols() -> None:
    """Sums of which both numbers modulo the first prime are multiples of a symbol's."""
    table, prime = SymbolTable(), 1009
    drawn = np.arange(5, 21).reshape(8, 2)
    symbols = table.extend(drawn, np.array([[-1, -1], [4, 4]]), np.zeros((2, 2)))
    assert table.has_source(symbols).tolist() == [False, False]
    table.set_source(symbols[1:], np.array([9]))
    assert table.has_source(symbols).tolist() == [False, True]
    assert table.origin(symbols).tolist() == [[-1, 9], [4, 4]]
    sums = drawn * 700 % prime
    assert table.is_multiple(symbols, sums, prime).tolist() == [True, True]
    sums[1, 0] += 1
    sums[2:] = 0
    assert table.is_multiple(symbols, sums, prime).tolist() == [False, True]


def test_sources_with_elements_and_parts() -> None:
    table = SourceTable()
    sums = np.arange(16).reshape(8, 2)
    made = table.extend(2, sums, np.array([-(1 << 47), 0]), np.array([1 << 47, 1]))
    assert table.kinds(made).tolist() == [2, 2]
    assert (table.sums(made) == sums).all()
    assert table.limits(made).tolist() == [[-(1 << 47), 0], [1 << 47, 1]]
    assert (table.wanted(made) == NO_SOURCE).all()
    assert table.parts(made).tolist() == [[0, 1], [0, 1]]
    table.want(made[1:], np.array([8]), np.array([9]))
    table.name(made[:1], np.array([7]))
    table.pair(made[1:], np.array([0]), np.array([1]))
    assert table.wanted(made).tolist() == [[-1, 8], [-1, 9]]
    assert table.of_element(9).tolist() == [1]
    assert table.itself(made).tolist() == [7, -1]
    assert table.parts(made).tolist() == [[0, 0], [0, 1]]
