# SPDX-License-Identifier: Apache-2.0
"""graph/bfloat16.py: a bfloat16 is itself, a float32 becomes the nearest of rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from loadstone.graph.bfloat16 import LOWEST, NAN, bits_of, immediate, rounded, widened

EVERY = np.arange(1 << 16).astype(np.uint16)


def test_a_bfloat16_is_its_own_nearest() -> None:
    numbers = ~np.isnan(widened(EVERY))
    np.testing.assert_array_equal(bits_of(widened(EVERY))[numbers], EVERY[numbers])
    assert set(bits_of(widened(EVERY))[~numbers].tolist()) == {NAN}


@pytest.mark.parametrize("at", [0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x3F81, 0x7F7F])
@pytest.mark.parametrize("rest", [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_a_float32_becomes_the_nearest_bfloat16_ties_to_even(at: int, rest: int) -> None:
    x = np.array((at << 16) + rest, np.uint32).view(np.float32)
    below, above = (Fraction(2) ** 128 if k == 0x7F80 else real(k) for k in (at, at + 1))
    exact = Fraction(float(x))
    up = abs(above - exact) < abs(exact - below) or (
        abs(above - exact) == abs(exact - below) and at % 2 == 1
    )
    for sign in (0, 0x8000):
        signed = np.float32(-x if sign else x)
        assert int(bits_of(signed)) == (at + up) | sign
        assert float(rounded(signed)) == float(widened(np.uint16((at + up) | sign)))


def real(bits: int) -> Fraction:
    return Fraction(float(widened(np.uint16(bits))))


def test_an_immediate_has_sixteen_signed_bits() -> None:
    assert immediate(1.0) == 0x3F80
    assert immediate(-1.0) == 0xBF80 - (1 << 16)
    assert immediate(LOWEST) == 0xFF7F - (1 << 16)
    assert immediate(float("nan")) == NAN
