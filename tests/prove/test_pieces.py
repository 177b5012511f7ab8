# SPDX-License-Identifier: Apache-2.0
"""prove/pieces.py: what is said of a function is so at each of its values."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.functions import FIRST
from loadstone.prove.pieces import INT32, Pieces, chunks
from loadstone.prove.requantize import Requantizer
from tests.prove.functions import K, Made, digits, scaling
from tests.repeat import times


def arrays(*numbers: int) -> list[np.ndarray]:
    return [np.array([number]) for number in numbers]


@pytest.mark.parametrize("seed", range(times(20, 3000)))
def test_digits_of_several_sums_fall_only_where_pieces_begin(seed: int) -> None:
    """Functions of one shape on intervals of their own, side by side."""
    rng = np.random.default_rng(seed)
    made = Made()
    pieces = Pieces(made.functions)
    device = np.array([digits(made, rng) for _ in range(4)])
    low, high = rng.integers(-20000, 0, 4), rng.integers(0, 20000, 4)
    cut, starts = pieces.starts(device, low, high)
    least, most = pieces.bounds(device, low, high)
    assert cut.all()
    for k in range(4):
        values = made.values(int(device[k]), int(low[k]), int(high[k]))
        falls = np.flatnonzero(np.diff(values) < 0) + low[k] + 1
        assert set(falls.tolist()) <= set(starts[k].tolist())
        assert low[k] in starts[k]
        assert least[k] <= values.min()
        assert values.max() <= most[k]


@pytest.mark.parametrize("seed", range(times(20, 3000)))
def test_steps_are_where_a_rule_rises(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = Made()
    pieces = Pieces(made.functions)
    rule = made.functions.rule(Requantizer(scaling(rng), int(rng.integers(-20, 20)), -128, 127), 0)
    f = np.array(
        [made.of(K.RULE, [rule, 0], made.sum(c, 0, (k, FIRST))) for c, k in ((-300, 3), (7, 1))]
    )
    low, high = rng.integers(-60000, 0, 2), rng.integers(0, 60000, 2)
    rise = pieces.rise(f, low, high)
    steps = pieces.steps(f, low, high, rise)
    assert rise[0].all()
    for k in range(2):
        values = made.values(int(f[k]), int(low[k]), int(high[k]))
        assert (rise[1][k], rise[2][k]) == (values[0], values[-1])
        places = np.flatnonzero(np.diff(values)) + low[k]
        assert {low[k], high[k], *places, *(places + 1)} == set(steps[k].tolist())


def test_levels_are_reached_where_a_guess_is_wrong_too() -> None:
    """A sum that is shifted, clamped and halved is inverted; of an RQ nothing is guessed."""
    made = Made()
    pieces = Pieces(made.functions)
    shifted = made.of(K.SHIFT, [1], made.of(K.MAX, [-9], made.sum(5, 3, (7, FIRST))))
    rq = made.of(K.RQ, [3, 1 << 30, 256 - 4, 0, -128, 127, 0], FIRST)
    for f, reached in ((shifted, range(-5, 600)), (rq, range(-128, 128))):
        levels = np.array(reached)[None]
        found = pieces.reached(np.array([f]), levels, *arrays(-9000, 9000))[0]
        values = made.values(f, -9000, 9000)
        assert (found == [np.argmax(values >= level) - 9000 for level in reached]).all()


def test_what_wraps_is_not_taken_for_rising() -> None:
    made = Made()
    pieces = Pieces(made.functions)
    doubled = made.of(K.SHIFT, [-16], FIRST)
    assert not pieces.rise(*arrays(doubled, 0, 40000))[0][0]
    assert [int(end[0]) for end in pieces.bounds(*arrays(doubled, 0, 40000))] == list(INT32)
    rq = made.of(K.RQ, [0, 1 << 30, 0 | 31 << 8, 0, -128, 127, 0], FIRST)
    assert not pieces.rise(*arrays(rq, -5, 5000))[0][0]
    low = made.of(K.BYTE, [], FIRST)
    wide = made.sum(0, 0, (1 << 25, low))
    assert not pieces.starts(*arrays(wide, -500, 500))[0][0]
    assert [int(end[0]) for end in pieces.bounds(*arrays(wide, -500, 500))] == list(INT32)


def test_what_falls_inside_pieces_is_not_cut() -> None:
    """A digit that is subtracted, one that wraps behind a shift, and one that wraps where neither
    end of the interval shows it."""
    made = Made()
    pieces = Pieces(made.functions)
    low = made.of(K.BYTE, [], FIRST)
    clamped = made.of(K.MIN, [100], low)
    long = made.sum(0, 0, (1, low), (-1, FIRST))
    for f in (
        made.sum(0, 0, (-1, low)),
        made.of(K.SHIFT, [-26], low),
        made.sum(0, 0, (1 << 26, clamped)),
        long,
    ):
        assert not pieces.starts(*arrays(f, -512, 512))[0][0]


def test_many_levels_of_one_function_are_looked_for_in_parts() -> None:
    made = Made()
    x = np.full(7, made.sum(0, 3, (1, FIRST)))
    low, high = np.full(7, -90000), np.full(7, 90000)
    levels = np.repeat(np.arange(-10240, 10240)[None], 7, 0)
    assert len(list(chunks(levels))) == 7
    found = Pieces(made.functions).reached(x, levels, low, high)
    assert (found == 8 * levels).all()
