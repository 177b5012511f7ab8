# SPDX-License-Identifier: Apache-2.0
"""prove/functions.py: each kind computes what the device and the frameworks do, and only equal
functions have one number."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.numerics import rq, scale_lane, shift_lane
from loadstone.prove.functions import FIRST, SECOND, FunctionKind, Functions
from loadstone.prove.keys import distinct
from loadstone.prove.requantize import Average, Away, Double, Requantizer
from tests.prove.functions import K, Made

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = 1 << 64


def int32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def at(made: Made, f: int, *inputs: int) -> int:
    return int(made.functions.evaluate(np.array([f]), *(np.array([[x]]) for x in inputs))[0, 0])


def test_functions_know_their_last_step() -> None:
    made = Made()
    least = made.of(K.MIN, [5], FIRST)
    asked = np.array([[least, FIRST], [made.of(K.MAX, [5], least), made.of(K.MIN, [5], least)]])
    assert made.functions.are(K.MIN, asked).tolist() == [[True, False], [False, True]]
    assert made.functions.are(K.INPUT, asked).tolist() == [[False, True], [False, False]]


ENDS = [-(1 << 31), -(1 << 31) + 1, -70_000, -129, -128, -1, 0, 1, 127, 128, 255, 70_001,
        (1 << 31) - 1]  # fmt: skip


@pytest.mark.parametrize("x", ENDS)
def test_steps_of_one_number(x: int) -> None:
    made = Made()
    for k in (-5, 0, 3):
        assert at(made, made.of(K.MIN, [k], FIRST), x) == min(x, k)
        assert at(made, made.of(K.MAX, [k], FIRST), x) == max(x, k)
        assert at(made, made.of(K.PRODUCT, [k * 70_001], FIRST), x) == int32(x * k * 70_001)
    for k in (0, 1, 5, 31, 32, 33, 40, 1000):
        assert at(made, made.of(K.SHIFT, [k], FIRST), x) == x >> k
    for k in (1, 5, 31, 32, 33, 1 << 20):
        assert at(made, made.of(K.SHIFT, [-k], FIRST), x) == int32(x << k if k < 40 else 0)
    assert at(made, made.of(K.BYTE, [], FIRST), x) == (x + 128) % 256 - 128
    half = made.of(K.SHIFT, [1], FIRST)
    assert at(made, made.sum(-9, 2, (3, FIRST), (-5, half)), x) == int32(
        3 * x - 5 * (x >> 1) - 9 >> 2
    )
    assert at(made, made.sum(1 << 31, 0, (1, FIRST)), x) == int32(x + (1 << 31))
    assert made.sum(0, 0, (1, half)) == half
    for other in (made.sum(1, 0, (1, half)), made.sum(0, 1, (1, half)), made.sum(0, 0, (2, half))):
        assert other != half
    assert [at(made, int(f), x) for f in made.functions.constants(np.array([7, -3]))] == [7, -3]


@pytest.mark.parametrize("x", [-128, -77, 0, 127])
@pytest.mark.parametrize("y", [-128, 5, 127])
def test_steps_of_two_bytes(x: int, y: int) -> None:
    made, rng = Made(), np.random.default_rng(1)
    assert at(made, made.of(K.MIN_OF_TWO, [], FIRST, SECOND), x, y) == min(x, y)
    assert at(made, made.of(K.MAX_OF_TWO, [], FIRST, SECOND), x, y) == max(x, y)
    wide = [made.of(K.PRODUCT, [1 << 12], one) for one in (FIRST, SECOND)]
    assert at(made, made.of(K.PRODUCT_OF_TWO, [], *wide), x, y) == int32(x * y << 24)
    one, two = rng.integers(-128, 128, 256), rng.integers(-128, 128, (256, 256))
    by_one = made.of(K.TABLE, [made.functions.table(one)], SECOND)
    assert at(made, by_one, x, y) == one[y + 128]
    by_two = made.of(K.TABLE_OF_TWO, [made.functions.table(two)], FIRST, SECOND)
    assert at(made, by_two, x, y) == two[x + 128, y + 128]
    crossed = made.of(K.TABLE_OF_TWO, [made.functions.table(two)], SECOND, FIRST)
    assert at(made, crossed, x, y) == two[y + 128, x + 128]
    moved = made.functions.renamed(
        made.sum(3, 1, (5, FIRST), (1, made.of(K.MIN, [9], FIRST))), SECOND
    )
    assert at(made, moved, x, y) == 5 * y + min(y, 9) + 3 >> 1
    assert made.functions.renamed(moved, SECOND) == moved


def test_a_requantization_of_the_network_is_less_what_is_taken() -> None:
    made = Made()
    rules = [
        (Requantizer(Double.of(np.array([0.25, 0.01])), 5, 3, 200), 128),
        (Requantizer(Away(np.array([0.3, 0.7])), -5, -100, 90), 0),
        (Requantizer(Average(3), 0, -128, 127), 0),
    ]
    numbers = [made.functions.rule(*rule) for rule in rules]
    assert numbers == [0, 1, 2]
    x = np.arange(-900, 900)
    for number, (rule, taken) in zip(numbers, rules, strict=True):
        for channel in (0, 1):
            values = made.values(made.of(K.RULE, [number, channel], FIRST), -900, 899)
            assert (values == rule.levels(x, channel) - taken).all()


@pytest.mark.parametrize("rounding", [0, 1, 2])
def test_rq_is_the_devices(rounding: int) -> None:
    """Operands of every kind, sensible or not."""
    rng, n = np.random.default_rng(rounding), 400
    draw = [
        rng.integers(-(1 << 31), 1 << 31, n),
        rng.integers(1 << 30, 1 << 31, n),
        shift_lane(rng.integers(-31, 31, n), rng.integers(0, 8, n)),
        scale_lane((rng.random(n) * 0.01).astype(np.float32)),
        rng.choice(np.array([0x7FC00000, 0x7F800000, -0x00800000, 1, 0, -1]), n),
        rng.integers(-500, 500, n),
    ]
    lanes = np.stack([rng.choice(np.array(draw), axis=0) for _ in range(4)]).astype(np.int32)
    lanes = np.concatenate([lanes, [draw[0], draw[5], draw[1], draw[2]],
                            [draw[5], draw[5], draw[3], draw[5]]], 1).astype(np.int32)  # fmt: skip
    widest = -(1 << 31), (1 << 31) - 1
    for low, high, zero in ((-128, 127, 3), (*widest, -9), (*widest, 9), (5, 90, -60)):
        wanted = rq(*lanes, zero_point=zero, low=low, high=high, rounding=rounding)
        made = Made()
        m = lanes.shape[1]
        fixed = [np.full(m, k) for k in (zero, low, high, rounding)]
        p = np.stack([*lanes[1:].astype(np.int64), *fixed], 1)
        f = made.functions.make(K.RQ, p, np.zeros((m, 1), np.int64))
        found = made.functions.evaluate(f, lanes[0].astype(np.int64)[:, None])[:, 0]
        assert (found == wanted).all()
        assert at(made, int(f[0]), int(lanes[0, 0])) == wanted[0]


def test_equal_functions_have_one_number_and_others_another() -> None:
    made = Made()
    functions = made.functions
    rows = np.array([[1, 2], [1, 3], [1, 2], [2, 2]])
    kids = np.array([[FIRST], [FIRST], [FIRST], [FIRST]])
    numbers = functions.make(K.SUM, np.concatenate([rows, rows[:, :1]], 1), kids)
    assert numbers[0] == numbers[2]
    assert len(set(numbers.tolist())) == 3
    assert (functions.make(K.SUM, np.concatenate([rows, rows[:, :1]], 1), kids) == numbers).all()
    assert len(functions.make(K.SUM, np.zeros((0, 3), np.int64), np.zeros((0, 1), np.int64))) == 0
    others = [made.of(K.MIN, [5], FIRST), made.of(K.MAX, [5], FIRST), made.of(K.MIN, [5], SECOND),
              made.of(K.MIN, [0], FIRST), made.of(K.MIN, [FIRST, 5], SECOND)]  # fmt: skip
    assert len(set(others)) == len(others)
    assert [functions.kind(f) for f in others[:2]] == [K.MIN, K.MAX]
    assert functions.parameters(np.array(others[:1])).tolist() == [[5]]
    assert functions.arguments(np.array(others[2:3])).tolist() == [[SECOND]]
    both = np.array(
        [made.sum(7, 2, (3, FIRST), (4, SECOND)), made.sum(8, 1, (5, FIRST), (6, FIRST))]
    )
    assert functions.parameters(both).T.tolist() == [[7, 2, 3, 4], [8, 1, 5, 6]]
    assert functions.arguments(both).T.tolist() == [[FIRST, SECOND], [FIRST, FIRST]]
    half = made.of(K.SHIFT, [1], FIRST)
    assert made.sum(0, 0, (1, half), (5, FIRST)) != half
    plain = functions.sum(np.ones((2, 1)), np.array([[half], [FIRST]]), *np.zeros((2, 2)))
    assert plain.tolist() == [half, FIRST]
    wide = made.sum(1, 0, *((k + 2, FIRST) for k in range(10)))
    assert at(made, wide, 3) == 3 * sum(range(2, 12)) + 1


def test_shapes_are_what_may_be_evaluated_side_by_side() -> None:
    made = Made()
    functions = made.functions

    def shape(f: int) -> int:
        return int(functions.shapes(np.array([f]))[0])

    assert shape(made.of(K.MIN, [5], FIRST)) == shape(made.of(K.MIN, [6], FIRST))
    rules = [functions.rule(Requantizer(Average(n), 0, -128, 127), 0) for n in (3, 4)]
    tables = [functions.table(np.arange(-128, 128)) for _ in range(2)]
    squares = [functions.table(np.zeros((256, 256))) for _ in range(2)]
    rq_of = [[0, 1, 0, 0, 0, 0, rounding] for rounding in (0, 1)]
    assert shape(made.of(K.RULE, [rules[0], 0], FIRST)) == shape(
        made.of(K.RULE, [rules[0], 1], FIRST)
    )
    assert shape(made.of(K.RQ, [9, 8, 7, 6, 5, 4, 0], FIRST)) == shape(
        made.of(K.RQ, rq_of[0], FIRST)
    )
    different = [
        FIRST,
        SECOND,
        *(made.of(kind, [5], FIRST) for kind in (K.MIN, K.MAX, K.SHIFT, K.PRODUCT)),
        made.of(K.MIN, [5], SECOND),
        made.of(K.MIN, [5], made.of(K.MIN, [6], FIRST)),
        made.of(K.MIN, [5], made.of(K.MAX, [6], FIRST)),
        *(made.of(K.RULE, [rule, 0], FIRST) for rule in rules),
        *(made.of(K.TABLE, [table], FIRST) for table in tables),
        *(made.of(K.TABLE_OF_TWO, [table], FIRST, SECOND) for table in squares),
        *(made.of(K.RQ, numbers, FIRST) for numbers in rq_of),
        made.sum(1, 2, (3, FIRST)),
        made.sum(1, 2, (3, FIRST), (4, FIRST)),
        made.sum(1, 2, (3, FIRST), (4, SECOND)),
    ]
    assert len({shape(f) for f in different}) == len(different)


def test_what_is_evaluated_is_counted_and_a_part_that_occurs_twice_is_evaluated_once() -> None:
    made = Made()
    deep = made.of(K.MIN, [1 << 20], FIRST)
    for _ in range(40):  # 2^40 leaves
        deep = made.sum(0, 1, (1, deep), (1, deep))
    f = np.array([deep, deep])
    assert made.functions.evaluate(f, np.array([[3, 4, 5]])).tolist() == [[3, 4, 5]] * 2
    assert made.functions.evaluated == 2 * 3
    made.functions.evaluate(f[:1], np.array([[3, 4], [5, 6]]))
    assert made.functions.evaluated == 2 * 3 + 2 * 2


def test_a_new_proof_knows_two_functions() -> None:
    functions = Functions()
    assert [functions.kind(f) for f in (FIRST, SECOND)] == [FunctionKind.INPUT] * 2
    with pytest.raises(AssertionError, match="no function of two"):
        functions.apply(FunctionKind.INPUT, np.zeros((0, 1, 1)), [np.zeros(1)] * 2)


def _unmixed(word: int) -> int:
    """The number of which `distinct` makes this word."""
    word ^= word >> 32
    word = word * pow(0xBF58476D1CE4E5B9, -1, _WORD) % _WORD
    word ^= word >> 29 ^ word >> 58
    number = (word - 0x632BE59BD9B4E019) % _WORD
    return number - _WORD if number >> 63 else number


def test_rows_that_share_a_number_by_chance_are_told_apart() -> None:
    """Two rows of two numbers, made so that their words add up to the same."""
    first, second = (_GOLDEN * odd % _WORD | 1 for odd in (1, 3))
    words = [(5, 10**18), (77, (10**18 + (5 - 77) * first * pow(second, -1, _WORD)) % _WORD)]
    rows = np.array([[_unmixed(word) for word in row] for row in words], np.int64)
    assert (rows[0] != rows[1]).all()
    rows = rows[[0, 1, 0]]
    kept, inverse = distinct(rows)
    assert len(kept) == 2
    assert (rows[kept][inverse] == rows).all()
    assert [a.tolist() for a in distinct(np.zeros((3, 0), np.int64))] == [[0], [0, 0, 0]]
    assert [a.tolist() for a in distinct(np.zeros((0, 3), np.int64))] == [[], []]
    column = np.array([[4], [7], [4]])
    kept, inverse = distinct(column)
    assert (column[kept][inverse] == column).all()
