# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/fixed_point.py: gemmlowp's functions are near the real ones, and exact at their
ends."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.graph.kernels.fixed_point import exp_of_negative, reciprocal, reciprocal_of_one_plus
from loadstone.numerics import INT32_MAX

ONE = 2.0**31


@pytest.mark.parametrize("integer_bits", range(6))
def test_exp_is_near_exp(integer_bits: int) -> None:
    scale = 2.0 ** (31 - integer_bits)
    a = -np.linspace(0, 2.0**31 - 1, 4001).astype(np.int64)
    got = exp_of_negative(a, integer_bits) / ONE
    assert np.abs(got - np.exp(a / scale)).max() < 3e-7
    assert np.all(np.diff(got) <= 0)


def test_exp_of_zero_is_one() -> None:
    assert exp_of_negative(0, 5) == INT32_MAX
    assert exp_of_negative([0, -1], 3).shape == (2,)


def test_the_reciprocal_of_one_plus_is_near_it() -> None:
    a = np.linspace(0, INT32_MAX, 4001).astype(np.int64)
    got = reciprocal_of_one_plus(a) / ONE
    assert np.abs(got - 1 / (1 + a / ONE)).max() < 1e-8


@pytest.mark.parametrize("integer_bits", [4, 12])
def test_a_reciprocal_carries_its_shift(integer_bits: int) -> None:
    x = np.unique(np.geomspace(1 << 12, INT32_MAX, 500).astype(np.int64))
    fraction, shift = reciprocal(x, integer_bits)
    real = x / 2.0 ** (31 - integer_bits)
    got = fraction / ONE * 2.0 ** -shift.astype(np.float64)
    assert np.abs(got * real - 1).max() < 1e-8
