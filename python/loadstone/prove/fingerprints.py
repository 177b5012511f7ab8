# SPDX-License-Identifier: Apache-2.0
"""Sums of products, recognised by their values at random points.

In:   random numbers of the system.
Out:  Points: four primes drawn anew, arithmetic modulo them, what multiples of a sum have in
      common.
Next: values.py finds the sums of a network again in what a device adds up.

A sum w1 a1 + w2 a2 + ... with integer weights is kept as its values at two random points modulo
each of four primes of 31 bits: eight numbers, its fingerprint. By how much is it improbable that a
sum S that is no multiple of a sum N is taken for f N with an integer |f| < 2^40?

- The weights of S are below 2^62 and those of N below 2^48 (lanes.py, values.py), so those of
  S - f N are below 2^89 and have at most two of the primes in common, of 2^25.6 that are drawn
  from; f being given, a prime is one of these with a probability below 2^-24.6, and another one
  below 2^-25.6.
- Modulo another prime S - f N is not 0, and is 0 at both points with a probability below 2^-60
  (Schwartz and Zippel).
- f follows from the first two primes. Where neither divides S - f N, the 2^41 values of f give
  2^41 2^-120 for both, and the other two primes, which may divide it, 2^-50: 2^-129. Where one
  divides it, f has 2^11 values for that prime's remainder: 2^-24 2^11 2^-60 2^-25.6 2^-60. Where
  both do, f is one: 2^-50 2^-120.

Together that is below 2^-128 for two sums. Sums of products of two elements each are polynomials of
the second degree, which are 0 at both points with a probability below 2^-58 in place of 2^-60:
2^41 2^-116 2^-50 and less, together below 2^-124.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

__all__ = ["POINTS", "Integers", "Points"]

Integers = NDArray[np.int64]

#: Numbers of a fingerprint: two points modulo each of four primes.
POINTS = 8
_LOW, _HIGH = 1 << 30, 1 << 31
#: Of the factor that makes one sum of another: all that a device can multiply by.
_MAX_FACTOR = 1 << 40


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test with the bases that decide all n below 3.2 * 10^9."""
    if any(n % p == 0 for p in (2, 3, 5, 7)):
        return n in (2, 3, 5, 7)
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


class Points:
    """Where sums are evaluated: primes and random numbers of one proof."""

    def __init__(self) -> None:
        primes: list[int] = []
        while len(primes) < POINTS // 2:
            candidate = _LOW + secrets.randbelow(_HIGH - _LOW)
            if candidate not in primes and _is_prime(candidate):
                primes.append(candidate)
        self._primes = primes
        #: The modulus of each number of a fingerprint, as a column.
        self.moduli: Integers = np.repeat(np.array(primes, np.int64), 2)[:, None]
        self._random = np.random.default_rng(secrets.randbits(256))

    def draw(self, n: int) -> Integers:
        """Fingerprints (POINTS, n) of n new symbols."""
        return self._random.integers(1, self.moduli, (POINTS, n))

    def times(self, fingerprints: Integers, factor: Integers | int) -> Integers:
        """Those of multiples; factor: integers that broadcast to (n,)."""
        scale = np.asarray(factor, np.int64) % self.moduli
        return np.asarray(fingerprints * scale % self.moduli)

    def keys(self, fingerprints: Integers) -> Integers:
        """Numbers (n,) that multiples of one sum have in common: ratios of the two points modulo
        the first two primes."""
        first, second = (
            fingerprints[2 * k] * self._inverses(fingerprints[2 * k + 1], k) % self._primes[k]
            for k in range(2)
        )
        return np.asarray(first + (second << 31))

    def factors(self, sums: Integers, of: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """The integers (n,) of which sums = factor * of, and whether there is such a one; both
        (POINTS, n). A sum is once itself, even where it is 0 at a point by chance."""
        p, q = self._primes[:2]
        low = sums[0] * self._inverses(of[0], 0) % p
        high = (sums[2] * self._inverses(of[2], 1) % q - low) % q * pow(p, -1, q) % q
        factor = low + high * p  # the only one below p * q
        factor = np.where(factor > p * q // 2, factor - p * q, factor)
        factor = np.where((sums == of).all(0), 1, factor)
        fits = (self.times(of, factor) == sums).all(0) & (np.abs(factor) < _MAX_FACTOR)
        return factor, fits

    def _inverses(self, numbers: Integers, prime: int) -> Integers:
        """1 / numbers (n,) modulo a prime; of 0 it is 1: who divides checks the result. One
        inversion for all: products in pairs, upwards, and quotients on the way back."""
        p = self._primes[prime]
        levels = [np.where(numbers == 0, 1, numbers)]
        while len(levels[-1]) > 1:
            even = levels[-1] if len(levels[-1]) % 2 == 0 else np.append(levels[-1], 1)
            levels[-1] = even
            levels.append(even[0::2] * even[1::2] % p)
        if not len(levels[-1]):
            return levels[-1]
        inverse = np.array([pow(int(levels[-1][0]), -1, p)], np.int64)
        for level in reversed(levels[:-1]):
            both = np.empty(len(level), np.int64)
            inverse = inverse[: len(level) // 2]
            both[0::2] = inverse * level[1::2] % p
            both[1::2] = inverse * level[0::2] % p
            inverse = both
        return inverse[: len(numbers)]
