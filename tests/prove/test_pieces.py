# SPDX-License-Identifier: Apache-2.0
"""prove/pieces.py: where pieces begin, and between which values a function is; what is said of a
function is so at each of its values."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.functions import FIRST, SECOND
from loadstone.prove.pieces import BYTE, INT32, Pieces, chunks
from loadstone.prove.requantize import Average, Away, Double, Float32, Requantizer
from tests.prove.functions import K, Made, arrays, digits, scaling, starts
from tests.repeat import times

MOST = INT32[1]


def bounds(made: Made, f: int, low: int, high: int) -> tuple[int, int]:
    least, most = Pieces(made.functions).bounds(*arrays(f, low, high))
    return int(least[0]), int(most[0])


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


# --- what bounds it -------------------------------------------------------------------------------
STEP = 1 << 23
#: Functions of a byte that is none of a rising sum, and their bounds.
BOUNDS = {
    "a byte": (lambda made, low: low, BYTE),
    "MIN, MAX": (lambda made, low: made.of(K.MAX, [-20], made.of(K.MIN, [50], low)), (-20, 50)),
    "to the right": (lambda made, low: made.of(K.SHIFT, [2], low), (-32, 31)),
    "to the left": (lambda made, low: made.of(K.SHIFT, [-24], low), (INT32[0], 127 << 24)),
    "too far": (lambda made, low: made.of(K.SHIFT, [-25], low), INT32),
    "a sum": (lambda made, low: made.sum(5, 1, (2, low), (-3, low)), (-316, 321)),
    "a great sum": (lambda made, low: made.sum(MOST - 127 * STEP, 0, (STEP, low)),
                    (STEP - 1, MOST)),
    "too great": (lambda made, low: made.sum(MOST - 127 * STEP + 1, 0, (STEP, low)), INT32),
    "a small sum": (lambda made, low: made.sum(INT32[0] + 128 * STEP, 0, (STEP, low)),
                    (INT32[0], INT32[0] + 255 * STEP)),
    "too small": (lambda made, low: made.sum(INT32[0] + 128 * STEP - 1, 0, (STEP, low)), INT32),
    "a product": (lambda made, low: made.of(K.PRODUCT, [2], low), INT32),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_those_of_all_bytes(name: str) -> None:
    make, wanted = BOUNDS[name]
    made = Made()
    f = make(made, made.of(K.BYTE, [], FIRST))
    assert bounds(made, f, -500, 500) == wanted
    values = made.values(f, -500, 500)
    assert wanted[0] <= values.min()
    assert values.max() <= wanted[1]


def test_bounds_of_a_rule_are_its_levels() -> None:
    made = Made()
    made.functions.rule(Requantizer(Average(2), 3, -1, 1), 0)
    number = made.functions.rule(Requantizer(Average(2), 3, -100, 90), 7)
    f = made.of(K.RULE, [number, 0], made.of(K.PRODUCT, [-1], FIRST))
    assert bounds(made, f, -5000, 5000) == (-107, 83)
    assert (made.values(f, -5000, 5000)[[-1, 0]] == (-107, 83)).all()


def test_bounds_of_what_rises_are_its_ends() -> None:
    """Side by side with what does not rise."""
    made = Made()
    low = np.full(3, made.of(K.BYTE, [], FIRST))
    ends = np.array([-30, -300, 20]), np.array([40, 300, 20])
    least, most = Pieces(made.functions).bounds(low, *ends)
    assert (least.tolist(), most.tolist()) == ([-30, -128, 20], [40, 127, 20])
    assert bounds(made, int(low[0]), 1, 9) == (1, 9)


# --- where pieces begin ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (-500, 500, {-500, -384, -128, 128, 384}),
        (-128, 128, {-128, 128}),
        (-129, 127, {-129, -128}),
        (128, 383, {128}),
        (128, 384, {128, 384}),
        (-384, -129, {-384}),
        (-385, -129, {-385, -384}),
        (5, 5, {5}),
        (99000, 99500, {99000, 99200, 99456}),
        (-99500, -99000, {-99500, -99456, -99200}),
    ],
)
def test_a_byte_falls_every_256(low: int, high: int, wanted: set[int]) -> None:
    """A clamp and a shift to the right fall where it does; what else is made of it is not cut."""
    made = Made()
    byte = made.of(K.BYTE, [], FIRST)
    for f in (byte, made.of(K.MIN, [9], byte), made.of(K.MAX, [9], byte),
              made.of(K.SHIFT, [0], byte)):  # fmt: skip
        assert starts(made, f, low, high) == wanted
    great = made.sum(0, 0, (1 << 23, byte))
    for f in (made.of(K.SHIFT, [-1], great), made.of(K.PRODUCT, [1], byte)):
        if high - low > 256:
            assert starts(made, f, low, high) is None


def test_bytes_of_several_sums_side_by_side() -> None:
    """One that has no piece but the first, one that has several, one of a sum that wraps."""
    made = Made()
    sums = [made.sum(c, 0, (k, FIRST)) for c, k in ((1, 2), (256, 1), (0, 1 << 28), (0, 2))]
    f = np.array([made.of(K.BYTE, [], one) for one in sums])
    low, high = np.array([-40, -300, -10, 60]), np.array([50, 700, 10, 64])
    cut, where = Pieces(made.functions).starts(f, low, high)
    assert cut.tolist() == [True, True, False, True]
    assert [set(row.tolist()) for row in where[[0, 1, 3]]] == [
        {-40}, {-300, -128, 128, 384, 640}, {60, 64}
    ]  # fmt: skip
    cut, where = Pieces(made.functions).starts(f[2:3], low[2:3], high[2:3])
    assert not cut[0]


def test_a_part_that_is_subtracted_has_a_piece_for_each_level() -> None:
    made = Made()
    byte = made.of(K.BYTE, [], FIRST)
    high = made.sum(0, 3, (1, FIRST))
    f = np.full(4, made.sum(0, 0, (1, byte), (-1, high)))
    ends = np.array([0, -20, 0, 7]), np.array([100, 300, 8000, 7])
    cut, where = Pieces(made.functions).starts(f, *ends)
    assert cut.tolist() == [True, True, False, True]
    assert [set(row.tolist()) for row in where[[0, 1, 3]]] == [
        set(range(0, 101, 8)),
        {-20, 128, *range(-16, 301, 8)},
        {7},
    ]
    minus = np.full(2, made.sum(0, 0, (-1, byte), (1, FIRST)))
    cut, where = Pieces(made.functions).starts(minus, np.array([100, 0]), np.array([103, 200]))
    assert cut.tolist() == [True, False]
    assert set(where[0].tolist()) == {100, 101, 102, 103}
    one = made.sum(0, 0, (1, byte), (-1, FIRST))
    assert starts(made, one, 3, 3 + 512) == set(range(3, 3 + 513))
    assert starts(made, one, 3, 3 + 513) is None


def test_what_a_sum_is_cut_by() -> None:
    """By parts that do not count, too; a part that is no byte, and does not rise, is not looked
    into."""
    made = Made()
    byte = made.of(K.BYTE, [], FIRST)
    other = made.of(K.BYTE, [], made.sum(50, 0, (1, FIRST)))
    assert starts(made, made.sum(0, 0, (0, byte), (1, FIRST)), -9, 200) == {-9, 128}
    assert starts(made, made.sum(0, 4, (1, byte), (3, other)), -9, 200) == {-9, 78, 128}
    falling = made.of(K.PRODUCT, [-1], FIRST)
    for part in (made.of(K.BYTE, [], falling), falling, made.of(K.MIN, [100], byte)):
        for terms in (((1, part), (1, byte)), ((1, byte), (1, part)), ((0, part), (1, byte))):
            assert starts(made, made.sum(0, 0, *terms), -300, 300) is None


@pytest.mark.parametrize("shift", [0, 1, 4])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_is_cut_up_to_32_bits(shift: int, sign: int) -> None:
    """Of a byte and a part that falls: exactly as long as no values of both leave 32 bits."""
    made = Made()
    byte = made.of(K.BYTE, [], FIRST)
    k = (1 << 22) << shift
    if sign > 0:
        most = (MOST + 1 << shift) - 1 - 127 * k + 3 * -2
    else:
        most = -((INT32[0] << shift) + 128 * k + 3 * 300)
    for beyond in (0, 1):
        f = made.sum(sign * (most + beyond), shift, (k, byte), (-3, FIRST))
        cut = starts(made, f, -2, 300)
        assert (cut is None) is bool(beyond)


@pytest.mark.parametrize("level", [511, 512])
def test_limits_of_a_byte_count_where_it_does_not_rise(level: int) -> None:
    """Of a byte that rises its own values count, of another one all that bytes have."""
    made = Made()
    byte = made.of(K.BYTE, [], FIRST)
    f = made.sum(MOST - (100 << 24), 0, (1 << 24, byte), (-1, FIRST))
    assert starts(made, f, 0, 100) == set(range(101))
    assert starts(made, f, 0, 101) is None
    assert starts(made, f, 0, level) is None


# --- all of it ------------------------------------------------------------------------------------
ROWS, SIZE = 3, 1000


def tree(made: Made, rng: np.random.Generator, depth: int) -> np.ndarray:
    """Functions of one shape, whose parameters differ from row to row."""
    if depth == 0 or rng.random() < 0.1:
        return np.full(ROWS, SECOND if rng.random() < 0.02 else FIRST)

    def drawn(low: int, high: int) -> np.ndarray:
        return rng.integers(low, high, (ROWS, 1))

    kind = K(int(rng.choice([1, 1, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9])))
    kids = [tree(made, rng, depth - 1)]
    far = 1 << int(rng.integers(1, 34))
    match kind:
        case K.SUM:
            kids += [tree(made, rng, depth - 1) for _ in range(int(rng.integers(3)))]
            most = int(rng.choice([4, 200, 1 << 23]))
            p = [drawn(-far, far), drawn(0, 9), *(drawn(-most // 4, most) for _ in kids)]
        case K.MIN | K.MAX:
            p = [drawn(-200, 200)]
        case K.SHIFT:
            p = [drawn(-26, 12)]
        case K.PRODUCT:
            p = [drawn(-3, 1 << 20)]
        case K.BYTE:
            ends = np.full(ROWS, -SIZE), np.full(ROWS, SIZE)
            least, most = Pieces(made.functions).bounds(kids[0], *ends)
            right = max(int((most - least).max()).bit_length() - 14, 0)
            kids = [made.functions.make(K.SHIFT, drawn(right, right + 1), kids[0][:, None])]
            p = []
        case K.RQ:
            rounding = int(rng.integers(3))
            multiplier = drawn(-(1 << 10), 1 << 30) if rounding < 2 else drawn(1 << 29, 1 << 30)
            lane = drawn(-20, 5) & 255 | drawn(0, 4) << 8
            p = [drawn(-far, far), multiplier, lane, drawn(-9, 9), drawn(-128, -90),
                 drawn(90, 128), np.full((ROWS, 1), rounding)]  # fmt: skip
            p[0] = np.clip(p[0], *INT32)
        case K.RULE:
            reals = np.exp(rng.uniform(-9, 3, ROWS))
            made_of = (Double.of, Away, lambda real: Float32(real.astype(np.float32).astype(float)))
            scaling = [*(of(reals) for of in made_of), Average(int(rng.integers(1, 50)))]
            rule = Requantizer(scaling[int(rng.integers(4))], int(rng.integers(-9, 9)), -128, 127)
            p = [np.full((ROWS, 1), made.functions.rule(rule, 5)), np.arange(ROWS)[:, None]]
        case _:
            kids = [made.functions.make(K.BYTE, np.zeros((ROWS, 0), np.int64), np.stack(kids, 1))]
            p = [np.full((ROWS, 1), made.functions.table(rng.permutation(256) - 128))]
    parameters = np.concatenate(p, 1) if p else np.zeros((ROWS, 0), np.int64)
    return made.functions.make(kind, parameters, np.stack(kids, 1))


@pytest.mark.parametrize("seed", range(times(40, 20000)))
def test_random_functions_are_what_is_said_of_them(seed: int) -> None:
    """Values are those of the functions; where they fall they are not said to rise."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        made = Made()
        pieces = Pieces(made.functions)
        f = tree(made, rng, 4)
        low, high = rng.integers(-SIZE, 1, ROWS), rng.integers(0, SIZE, ROWS)
        x = np.arange(-SIZE, SIZE)
        values = made.functions.evaluate(f, x[None], x[None])
        values = np.broadcast_to(values, (ROWS, len(x)))
        rises, first, last = pieces.rise(f, low, high)
        least, most = pieces.bounds(f, low, high)
        cut, where = pieces.starts(f, low, high)
        assert (cut | ~rises).all()
        for k in range(ROWS):
            y = values[k, low[k] + SIZE : high[k] + 1 + SIZE]
            falls = np.flatnonzero(np.diff(y) < 0) + low[k] + 1
            assert least[k] <= y.min()
            assert y.max() <= most[k]
            if rises[k]:
                assert not len(falls)
                assert (first[k], last[k]) == (y[0], y[-1])
            if cut[k]:
                assert {low[k], *falls} <= set(where[k].tolist())
                assert ((where[k] >= low[k]) & (where[k] <= high[k])).all()
