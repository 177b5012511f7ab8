# SPDX-License-Identifier: Apache-2.0
"""Functions of one integer, made by hand.

In:   kinds, parameters; random numbers.
Out:  Made: functions and their verdicts; digits of a sum, scalings.
Next: test_equality.py, test_pieces.py and test_rising.py.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.equality import Equality
from loadstone.prove.functions import FIRST, FunctionKind, Functions
from loadstone.prove.pieces import Pieces
from loadstone.prove.requantize import Average, Away, Double, Float32, Requantizer, Scaling

__all__ = ["ONE", "K", "Made", "arrays", "digits", "requantized", "scaling", "starts"]

K = FunctionKind
#: A multiplier of 1/2, of which a scaling by a power of two is made.
ONE = 1 << 30


class Made:
    """Functions of one integer, made by hand."""

    def __init__(self) -> None:
        self.functions = Functions()
        self.equality = Equality(self.functions)

    def of(self, kind: FunctionKind, parameters: list[int], *kids: int) -> int:
        return int(self.functions.make(kind, np.array([parameters]), np.array([kids]))[0])

    def sum(self, c: int, s: int, *terms: tuple[int, int]) -> int:
        coefficients, kids = zip(*terms, strict=True)
        made = self.functions.sum(
            np.array([coefficients]), np.array([kids]), np.array([c]), np.array([s])
        )
        return int(made[0])

    def values(self, f: int, low: int, high: int) -> np.ndarray:
        return self.functions.evaluate(np.array([f]), np.arange(low, high + 1)[None])[0]

    def equal(self, f: int, g: int, low: int, high: int) -> bool:
        return bool(self.equality.equal(*(np.array([one]) for one in (f, g, low, high)))[0])

    def rule(self, scaling: Scaling, zero: int, low: int = -128, high: int = 127) -> int:
        number = self.functions.rule(Requantizer(scaling, zero, low, high), 0)
        return self.of(K.RULE, [number, 0], self.sum(-300, 0, (3, FIRST)))


def digits(made: Made, rng: np.random.Generator) -> int:
    """A requantization in VTA's way: two digits of a sum, products, shifts."""
    offset, m0 = int(rng.integers(-5000, 5000)), int(rng.integers(300, 30000))
    m1 = 256 * m0 + int(rng.integers(-200, 200))
    x = made.sum(3 * 0 - 300 + offset, 0, (3, FIRST))
    low = made.of(K.BYTE, [], x)
    high = made.of(
        K.MIN, [127], made.of(K.MAX, [-128], made.sum(offset - 300 + 128, 8, (3, FIRST)))
    )
    scaled = made.sum(int(rng.integers(-(2**20), 2**20)), 21, (m0, low), (m1, high))
    return made.of(K.MIN, [127], made.of(K.MAX, [-128], scaled))


def scaling(rng: np.random.Generator) -> Scaling:
    real = float(np.exp(rng.uniform(np.log(1e-4), np.log(0.05))))
    kinds = (
        lambda: Double.of(np.array([real])),
        lambda: Away(np.array([real])),
        lambda: Float32(np.array([float(np.float32(real))])),
        lambda: Average(int(rng.integers(2, 400))),
    )
    return kinds[int(rng.integers(4))]()


def arrays(*numbers: int) -> list[np.ndarray]:
    """An array of each number."""
    return [np.array([number]) for number in numbers]


def starts(made: Made, f: int, low: int, high: int) -> set[int] | None:
    """Where the pieces of one function begin; None where it is not cut."""
    cut, where = Pieces(made.functions).starts(*arrays(f, low, high))
    return set(where[0].tolist()) if cut[0] else None


def requantized(made: Made, scaling: Scaling, taken: int = 0) -> int:
    """A rule of the sum, with levels between -100 and 90."""
    number = made.functions.rule(Requantizer(scaling, 3, -100, 90), taken)
    return made.of(K.RULE, [number, 0], FIRST)
