# SPDX-License-Identifier: Apache-2.0
"""prove/equality.py and functions.py: verdicts are those of a comparison value by value."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.equality import Equality
from loadstone.prove.functions import FIRST, SECOND, FunctionKind, Functions, distinct
from loadstone.prove.requantize import Average, Away, Double, Float32, Requantizer, Scaling
from tests.repeat import times

K = FunctionKind


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


@pytest.mark.parametrize("seed", range(times(40, 3000)))
def test_a_rule_and_what_is_nearly_it(seed: int) -> None:
    """The network's rule against RQ with nearly its numbers, and with one step moved."""
    rng = np.random.default_rng(seed)
    made = Made()
    wanted = made.rule(scaling(rng), int(rng.integers(-40, 40)))
    low, high = int(rng.integers(-60000, 0)), int(rng.integers(1, 60000))
    device = wanted
    if rng.random() < 0.7:  # at one point, or nowhere: a maximum with a step of its own
        at = int(rng.integers(low, high + 1))
        step = made.of(K.MIN, [127], made.of(K.MAX, [-128], made.sum(-at, 0, (1, FIRST))))
        level = int(made.values(wanted, at, at)[0]) + int(rng.integers(0, 2))
        raised = made.of(K.MIN, [level], made.sum(0, 0, (1, step)))
        device = made.of(K.MAX_OF_TWO, [], wanted, raised) if rng.random() < 0.5 else raised
    same = bool((made.values(device, low, high) == made.values(wanted, low, high)).all())
    assert made.equal(device, wanted, low, high) == same


@pytest.mark.parametrize("seed", range(times(40, 3000)))
def test_digits_are_compared_on_every_piece(seed: int) -> None:
    """A function that falls between its pieces, against the rule made of its own steps."""
    rng = np.random.default_rng(seed)
    made = Made()
    device = digits(made, rng)
    low, high = -20000, 20000
    values = made.values(device, low, high)
    real = 3 * float(rng.uniform(0.001, 0.01))
    wanted = made.rule(Away(np.array([real])), int(rng.integers(-20, 20)))
    same = bool((values == made.values(wanted, low, high)).all())
    assert made.equal(device, wanted, low, high) == same
    least, most = made.equality.ranges(np.array([device]), np.array([low]), np.array([high]))
    assert (least[0], most[0]) == (values.min(), values.max())
    pieces = made.equality._pieces(device, low, high)
    assert pieces is not None
    falls = np.flatnonzero(np.diff(values) < 0) + low + 1
    assert set(falls.tolist()) <= set(pieces.tolist())


def test_one_lane_of_the_page_on_any_scale() -> None:
    """docs/any-scale.md works it by hand: equal on all 411,826 sums; a straight line is not."""
    made = Made()
    rule = Requantizer(Double(np.array([1359514674]), np.array([-6])), -128, -128, 127)
    wanted = made.of(K.RULE, [made.functions.rule(rule, 0), 0], FIRST)
    low, high = -207496, 204329
    d0 = made.of(K.BYTE, [], made.sum(-12890, 0, (1, FIRST)))
    top = made.sum(-12890 + 128, 8, (1, FIRST))
    d1 = made.of(K.MIN, [127], made.of(K.MAX, [-128], top))

    def lane(m0: int, m1: int, constant: int) -> int:
        line = made.sum(constant, 21, (m0, d0), (m1, d1))
        return made.of(K.MIN, [127], made.of(K.MAX, [-128], line))

    constant = 26730
    assert made.equal(lane(20745, 5310604, constant), wanted, low, high)
    assert not made.equal(lane(20745, 5310720, 26465), wanted, low, high)
    assert made.equality.by_pieces == 1


def test_what_wraps_is_not_taken_for_rising() -> None:
    made = Made()
    doubled = made.of(K.SHIFT, [-16], FIRST)
    rises, _, _ = made.equality.monotone(np.array([doubled]), np.array([0]), np.array([40000]))
    assert not rises[0]
    rq = made.of(K.RQ, [0, 1 << 30, 0 | 31 << 8, 0, -128, 127, 0], FIRST)
    rises, _, _ = made.equality.monotone(np.array([rq]), np.array([-5]), np.array([5000]))
    assert not rises[0]


def test_two_bytes_are_compared_on_all_pairs() -> None:
    made = Made()
    table = np.add.outer(np.arange(-128, 128), np.arange(-128, 128)) >> 1
    wanted = made.of(K.TABLE_OF_TWO, [made.functions.table(table)], FIRST, SECOND)
    device = made.sum(0, 1, (1, FIRST), (1, SECOND))
    every = (-128, 127, -128, 127)
    assert made.equality.equal_of_two(device, wanted, every)
    assert made.equality.range_of_two(device, every) == (-128, 127)
    table[255, 255] -= 1
    spoilt = made.of(K.TABLE_OF_TWO, [made.functions.table(table)], FIRST, SECOND)
    assert not made.equality.equal_of_two(device, spoilt, every)
    assert made.equality.equal_of_two(device, spoilt, (-128, 127, -128, 126))
    swapped = made.functions.renamed(made.of(K.MIN, [5], FIRST), SECOND)
    assert swapped == made.of(K.MIN, [5], SECOND)


def test_rows_that_are_the_first_of_their_kind() -> None:
    rows = np.random.default_rng(0).integers(-2, 3, (500, 3))
    first, inverse = distinct(rows)
    assert (rows[first][inverse] == rows).all()
    assert len(first) == len(np.unique(rows, axis=0))


def test_levels_of_one_function_are_looked_for_as_often_as_they_differ() -> None:
    """Each 256th, for a digit of it; then each, because it is subtracted, too."""
    made = Made()
    x = made.sum(0, 3, (1, FIRST))
    low = made.of(K.BYTE, [], x)
    carry = made.sum(0, 8, (1, x))
    f = made.sum(0, 0, (3, low), (-1, carry))
    for g in (f, made.sum(1, 0, (3, low), (-1, carry)), made.sum(0, 0, (3, low))):
        same = (made.values(f, -9000, 9000) == made.values(g, -9000, 9000)).all()
        assert made.equal(f, g, -9000, 9000) == same
    reached = {
        len(levels): made.equality._reached(x, levels, -9000, 9000)
        for levels in (np.arange(-1024, 1024, 256), np.arange(-1024, 1024))
    }
    assert sorted(reached) == [8, 2048]
    assert {size: len(found) for size, found in reached.items()} == {8: 8, 2048: 2048}
