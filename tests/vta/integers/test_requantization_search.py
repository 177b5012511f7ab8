# SPDX-License-Identifier: Apache-2.0
"""vta/integers/requantization_search.py: what it finds is exact on every value, and it finds
nothing where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.numerics import Rounding
from loadstone.vta.integers.requantization_search import OutputRange, find_requantization


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 16, 25, 36, 49, 64, 100, 169, 256, 1089])
@pytest.mark.parametrize("offset", [0, 128])
def test_every_average_of_tflite_is_a_requantization(count: int, offset: int) -> None:
    sums = np.arange(-128 * count, 127 * count + 1)
    raised = sums + offset * count
    wanted = np.sign(raised) * ((np.abs(raised) + count // 2) // count) - offset
    found = find_requantization(sums, wanted, 1 / count, offset * count, OutputRange(-offset))
    assert found is not None
    np.testing.assert_array_equal(found.apply(sums), wanted)


def test_a_rule_that_is_no_requantization_is_not_found() -> None:
    sums = np.arange(-100, 101)
    assert find_requantization(sums, np.where(sums % 7 == 3, 1, 0), 0.1, 0, OutputRange(0)) is None


def test_the_arithmetic_to_begin_with_is_taken_where_several_fit() -> None:
    sums = np.arange(-100, 101)
    wanted = np.clip(sums * 2, -128, 127)
    for rounding in Rounding:
        found = find_requantization(sums, wanted, 2.0, 0, OutputRange(0), rounding)
        assert found is not None
        assert found.rounding is rounding
