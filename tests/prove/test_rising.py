# SPDX-License-Identifier: Apache-2.0
"""prove/pieces.py: which functions rise, up to the value at which they wrap, and where they reach
levels."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.functions import FIRST, SECOND
from loadstone.prove.pieces import INT32, Pieces, Rise, chunks
from loadstone.prove.requantize import Average, Away, Double, Float32, Requantizer
from tests.prove.functions import ONE, K, Made, arrays, requantized, starts


def rise(made: Made, f: int, low: int, high: int) -> bool:
    """Whether one function is said to rise; if so, its values are looked at."""
    said: Rise = Pieces(made.functions).rise(*arrays(f, low, high))
    if said[0][0]:
        ends = sorted([low, min(low + 1, high), (low + high) // 2, max(high - 1, low), high])
        values = made.functions.evaluate(np.array([f]), np.array([ends]))[0]
        assert (np.diff(values) >= 0).all()
        assert (said[1][0], said[2][0]) == (values[0], values[-1])
    return bool(said[0][0])


def rq(made: Made, **changed: int) -> int:
    said = {"bias": 0, "multiplier": ONE, "shift": 0, "left": 0, "rounding": 0} | changed
    lane = said["shift"] & 255 | said["left"] << 8
    parameters = [said["bias"], said["multiplier"], lane, 0, -(1 << 31), (1 << 31) - 1]
    return made.of(K.RQ, [*parameters, said["rounding"]], FIRST)


MOST = INT32[1]
#: Functions, with the least and the greatest values on all of which they do not wrap.
RISING = {
    "the sum": (lambda made: FIRST, -(1 << 40), 1 << 40),
    "a sum": (lambda made: made.sum(-100, 0, (3, FIRST)), -715827849, 715827915),
    "a shifted sum": (lambda made: made.sum(0, 1, (1 << 24, FIRST)), -256, 255),
    "two sums": (lambda made: made.sum(0, 0, (2, FIRST), (0, FIRST), (1, FIRST)),
                 -715827882, 715827882),
    "MIN, MAX": (lambda made: made.of(K.MIN, [9], made.of(K.MAX, [-9], FIRST)), -1 << 40, 1 << 40),
    "to the left": (lambda made: made.of(K.SHIFT, [-31], FIRST), -1, 0),
    "to the right": (lambda made: made.of(K.SHIFT, [3], FIRST), INT32[0], MOST),
    "a product": (lambda made: made.of(K.PRODUCT, [3], FIRST), -715827882, 715827882),
    "a product with 0": (lambda made: made.of(K.PRODUCT, [0], FIRST), -1 << 40, 1 << 40),
    "a byte": (lambda made: made.of(K.BYTE, [], FIRST), -128, 127),
    "RQ's bias": (lambda made: rq(made, bias=5), INT32[0] - 5, MOST - 5),
    "RQ to the left": (lambda made: rq(made, left=7), -(1 << 24), (1 << 24) - 1),
    "RQ's shift": (lambda made: rq(made, shift=4, left=3), -(1 << 24), (1 << 24) - 1),
    "RQ's great shift": (lambda made: rq(made, shift=35), -2, 1),
    "RQ to the right": (lambda made: rq(made, shift=-4, left=3), -(1 << 28), (1 << 28) - 1),
    "RQ rounded once": (lambda made: rq(made, shift=4, left=3, rounding=1),
                        -(1 << 28), (1 << 28) - 1),
    "RQ times 0": (lambda made: rq(made, multiplier=0), INT32[0], MOST),
    "RQ of float32": (lambda made: rq(made, multiplier=0x3F800000, bias=-7, left=3, rounding=2),
                      INT32[0] + 7, MOST + 7),
    "RQ of a tiny scale": (lambda made: rq(made, multiplier=1, rounding=2), INT32[0], MOST),
    "double": (lambda made: requantized(made, Double(np.array([ONE]), np.array([3]))),
               -(1 << 28), (1 << 28) - 1),
    "double to the right": (lambda made: requantized(made, Double(np.array([0]), np.array([-3]))),
                            INT32[0], MOST),
}  # fmt: skip
FALLING = {
    "another input": lambda made: SECOND,
    "a negative coefficient": lambda made: made.sum(0, 0, (3, FIRST), (-1, FIRST)),
    "a negative one first": lambda made: made.sum(0, 0, (-1, FIRST), (1, FIRST)),
    "a table": lambda made: made.of(
        K.TABLE, [made.functions.table(np.arange(-128, 128)[::-1])], made.of(K.BYTE, [], FIRST)
    ),
    "the least of two": lambda made: made.of(
        K.MIN_OF_TWO, [], FIRST, made.of(K.PRODUCT, [-1], FIRST)
    ),
    "a negative product": lambda made: made.of(K.PRODUCT, [-1], FIRST),
    "RQ times -1": lambda made: rq(made, multiplier=-1),
    "RQ times -0.0": lambda made: rq(made, multiplier=-(1 << 31), rounding=2),
    "RQ times nan": lambda made: rq(made, multiplier=0x7FC00000, rounding=2),
    "double times -1": lambda made: requantized(made, Double(np.array([-1]), np.array([0]))),
    "away times -1": lambda made: requantized(made, Away(np.array([-1.0]))),
    "float32 times -1": lambda made: requantized(made, Float32(np.array([-1.0]))),
    "MAX of what falls": lambda made: made.of(K.MAX, [-9], made.of(K.PRODUCT, [-1], FIRST)),
    "a byte of what falls": lambda made: made.of(K.BYTE, [], made.of(K.PRODUCT, [-1], FIRST)),
    "a sum of what falls": lambda made: made.sum(0, 0, (5, FIRST), (1, rq(made, multiplier=-1))),
}


@pytest.mark.parametrize("name", RISING)
def test_a_function_rises_as_long_as_nothing_wraps(name: str) -> None:
    make, low, high = RISING[name]
    made = Made()
    f = make(made)
    assert rise(made, f, low, high)
    assert rise(made, f, low, low)
    if (low, high) != (-1 << 40, 1 << 40):
        assert not rise(made, f, low - 1, high)
        assert not rise(made, f, low, high + 1)


def test_each_channel_has_its_own_scale() -> None:
    made = Made()
    for scaling, high in (
        (Away(np.array([1.0, -1.0])), MOST),
        (Float32(np.array([1.0, -1.0])), MOST),
        (Double(np.array([ONE, -1]), np.zeros(2, np.int64)), MOST),
        (Double(np.array([ONE, ONE]), np.array([0, 1])), ONE),
    ):
        number = made.functions.rule(Requantizer(scaling, 0, -128, 127), 0)
        f = np.array([made.of(K.RULE, [number, k], FIRST) for k in (0, 1)])
        ends = np.zeros(2, np.int64), np.full(2, high)
        assert Pieces(made.functions).rise(f, *ends)[0].tolist() == [True, False]


@pytest.mark.parametrize("name", FALLING)
def test_what_falls_does_not_rise(name: str) -> None:
    made = Made()
    f = FALLING[name](made)
    assert not rise(made, f, -1, 1)
    assert starts(made, f, -300, 300) is None


# --- where levels are reached ---------------------------------------------------------------------
def test_a_function_without_steps() -> None:
    """Beside one that steps, and alone."""
    made = Made()
    pieces = Pieces(made.functions)
    f = np.full(2, made.sum(0, 2, (1, FIRST)))
    low, high = np.array([4, -1]), np.array([7, 9])
    steps = pieces.steps(f, low, high, pieces.rise(f, low, high))
    assert [set(row.tolist()) for row in steps] == [{4, 7}, {-1, 0, 3, 4, 7, 8, 9}]
    alone = pieces.steps(f[:1], low[:1], high[:1], pieces.rise(f[:1], low[:1], high[:1]))
    assert set(alone[0].tolist()) == {4, 7}


GUESSED = {
    "the sum": lambda made, k: FIRST,
    "clamped": lambda made, k: made.of(K.MAX, [-8000 - k], made.of(K.MIN, [8000 + k], FIRST)),
    "to the right": lambda made, k: made.of(K.SHIFT, [3 + k], made.sum(9 - k, 0, (1, FIRST))),
    "to the left": lambda made, k: made.of(K.SHIFT, [-3 - k], FIRST),
    "a sum": lambda made, k: made.sum(-300 + 77 * k, 4 + k, (7 + 2 * k, FIRST)),
    "a shift of a shift": lambda made, k: made.of(K.SHIFT, [2], made.sum(5 + k, 3, (7, FIRST))),
}
RULES = {
    "double": Double(np.array([ONE, ONE + (1 << 28)]), np.array([-5, -3])),
    "double to the left": Double(np.array([ONE + (1 << 28), ONE]), np.array([2, 1])),
    "away": Away(np.array([0.0123, 0.031])),
    "float32": Float32(np.array([0.0123, 0.031])),
    "average": Average(49),
}


def tried(made: Made, f: list[int], low: int, high: int) -> float:
    """How often a function is evaluated for a level that it reaches, which is found."""
    functions, ends = np.array(f), (np.full(len(f), low), np.full(len(f), high))
    pieces = Pieces(made.functions)
    _, first, last = pieces.rise(functions, *ends)
    levels = first[:, None] + np.arange(int((last - first).min()) + 1)
    before = made.functions.evaluated
    found = pieces.reached(functions, levels, *ends)
    often = (made.functions.evaluated - before) / levels.size
    values = [made.values(one, low, high) for one in f]
    for row, one in enumerate(values):
        assert (found[row] == low + np.searchsorted(one, levels[row])).all()
    return often


@pytest.mark.parametrize("name", [*GUESSED, *RULES])
def test_most_levels_are_found_at_once(name: str) -> None:
    """A function is inverted, so that it is evaluated there and just before."""
    made = Made()
    if name in GUESSED:
        f = [GUESSED[name](made, k) for k in range(2)]
    else:
        number = made.functions.rule(Requantizer(RULES[name], 11, -128, 127), 90)
        f = [made.of(K.RULE, [number, k], made.sum(-40 + k, 0, (3 + k, FIRST))) for k in range(2)]
    assert tried(made, f, -9000, 9000) < 2.7


def test_what_is_near_a_guess_is_found_soon() -> None:
    """Of two sums, of which nothing is guessed, a level is found by halves."""
    made = Made()
    halves = made.of(K.MIN, [3000], made.sum(0, 4, (1, FIRST), (1, made.sum(0, 1, (1, FIRST)))))
    assert 10 < tried(made, [halves], -9000, 9000) < 16


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_levels_on_short_intervals(length: int) -> None:
    """Nothing is guessed of RQ, and of a sum the guess may be far off."""
    made = Made()
    for f in (rq(made, shift=-1), made.of(K.MIN, [900], made.sum(0, 1, (5, FIRST)))):
        for low in range(-6, 6):
            tried(made, [f], low, low + length)


def test_guesses_that_are_no_numbers() -> None:
    """A sum times 0 reaches its level at once; of a scale 0 and of nan nothing is known."""
    made = Made()
    for f in (made.sum(5, 0, (0, FIRST)), requantized(made, Away(np.zeros(1)))):
        found = Pieces(made.functions).reached(
            np.array([f]), np.array([[-7, 0, 3]]), *arrays(-9, 9)
        )
        assert (found == -9).all()


def test_chunks_hold_all_rows_once() -> None:
    for rows, width in ((7, 0), (1, 1 << 20), (5, 1 << 15), (10000, 10), (40000, 1)):
        where = np.zeros((rows, width))
        parts = list(chunks(where))
        assert [n for at in parts for n in range(rows)[at]] == list(range(rows))
        fit = max((1 << 15) // max(width, 1), 1)
        assert all(len(range(rows)[at]) == fit for at in parts[:-1])
