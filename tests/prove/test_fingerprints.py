# SPDX-License-Identifier: Apache-2.0
"""prove/fingerprints.py against Python's own integers: primes, ratios and factors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from loadstone.prove import fingerprints
from loadstone.prove.fingerprints import POINTS, Points

#: Composites that only one of the bases 2, 3, 5 and 7 shows to be such, in their order.
_LIARS = (1_024_651, 746_331_041, 2_284_453, 25_326_001)


def primes_of(points: Points) -> list[int]:
    return [int(p) for p in points.moduli[::2, 0]]


def drawing(numbers: list[int], limits: list[int]) -> Callable[[int], int]:
    """What stands for a draw below a limit: these, one after the other."""
    left = iter(numbers)

    def draw(limit: int) -> int:
        limits.append(limit)
        return next(left)

    return draw


def test_primes_are_told_from_composites() -> None:
    for n in (*range(2, 5000), *range(1 << 30, (1 << 30) + 600), *range((1 << 31) - 60, 1 << 31)):
        is_prime = all(n % d for d in range(2, math.isqrt(n) + 1))
        assert fingerprints._is_prime(n) == is_prime, n
    for n in _LIARS:
        assert not fingerprints._is_prime(n), n


def test_four_different_primes_of_31_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of errors rests on all four, and on what they are drawn from."""
    base, limits = 1 << 30, list[int]()
    first = next(k for k in range(1000) if fingerprints._is_prime(base + k))
    behind = [k for k in range(first + 1, 1000) if fingerprints._is_prime(base + k)][:3]
    drawn = [0, first, first, *behind[:1], first, *behind[1:]]
    monkeypatch.setattr("secrets.randbelow", drawing(drawn, limits))
    points = Points()
    assert primes_of(points) == [base + k for k in (first, *behind)]
    assert points.moduli.shape == (POINTS, 1)
    assert (points.moduli[::2] == points.moduli[1::2]).all()
    assert set(limits) == {1 << 30}
    assert POINTS == 8


def test_no_number_of_a_symbol_is_zero() -> None:
    """Zeros are what has no fingerprint, and what a sum does not contain."""
    points = Points()
    points.moduli = np.full((POINTS, 1), 3)
    assert set(points.draw(100).reshape(-1).tolist()) == {1, 2}


def test_keys_are_ratios_modulo_two_primes() -> None:
    points = Points()
    p, q = primes_of(points)[:2]
    sums = points.draw(9)
    for key, (a, b, c, d) in zip(points.keys(sums).tolist(), sums[:4].T.tolist(), strict=True):
        assert key == a * pow(b, -1, p) % p | c * pow(d, -1, q) % q << 31


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 11, 13])
@pytest.mark.parametrize("prime", [0, 1])
def test_inverses_are_those_of_each_number(n: int, prime: int) -> None:
    points = Points()
    p = primes_of(points)[prime]
    numbers = points.draw(n)[2 * prime]
    numbers[1::4] = 0
    expected = [pow(a, -1, p) if a else 1 for a in numbers.tolist()]
    assert points._inverses(numbers, prime).tolist() == expected


def test_a_multiple_agrees_at_all_eight_points() -> None:
    """One number that differs is another sum."""
    points = Points()
    of = points.draw(1)
    for factor in (1, -3, 1 << 20):
        sums = points.times(of, factor)
        assert points.factors(sums, of)[1].all()
        for row in range(POINTS):
            spoilt = sums.copy()
            spoilt[row] = (spoilt[row] + 1) % points.moduli[row]
            assert not points.factors(spoilt, of)[1].any(), row


def test_factors_are_below_40_bits() -> None:
    points = Points()
    of = points.draw(1)
    for size, fits in (((1 << 40) - 1, True), (1 << 40, False), ((1 << 40) + 1, False)):
        for factor in (size, -size):
            found, said = points.factors(points.times(of, factor), of)
            assert bool(said[0]) is fits, factor
            assert found[0] == factor


def test_a_sum_that_is_zero_at_a_point_spoils_no_other() -> None:
    points = Points()
    of = points.draw(5)
    of[0, 2] = of[2, 3] = of[4, 1] = 0  # the last one is not divided by
    found, fits = points.factors(points.times(of, 7), of)
    assert fits.tolist() == [True, True, False, False, True]
    assert (found[fits] == 7).all()
    found, fits = points.factors(of, of)
    assert fits.all()
    assert (found == 1).all()
    spoilt = of.copy()
    spoilt[1, 2] += 1
    assert points.factors(spoilt, of)[1].tolist() == [True, True, False, True, True]
