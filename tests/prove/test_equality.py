# SPDX-License-Identifier: Apache-2.0
"""prove/equality.py and functions.py: verdicts are those of a comparison value by value."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.equality import INT32, Equality, _side_by_side
from loadstone.prove.functions import FIRST, SECOND
from loadstone.prove.requantize import Away, Double, Requantizer
from tests.prove.functions import K, Made, digits, scaling
from tests.repeat import times


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


def equal_of_two(made: Made, f: list[int], g: list[int], ends: list[tuple[int, ...]]) -> list[bool]:
    return made.equality.equal_of_two(np.array(f), np.array(g), np.array(ends)).tolist()


def test_two_bytes_are_compared_on_all_pairs() -> None:
    made = Made()
    table = np.add.outer(np.arange(-128, 128), np.arange(-128, 128)) >> 1
    wanted = made.of(K.TABLE_OF_TWO, [made.functions.table(table)], FIRST, SECOND)
    device = made.sum(0, 1, (1, FIRST), (1, SECOND))
    every, some = (-128, 127, -128, 127), (-128, 127, -128, 126)
    assert equal_of_two(made, [device], [wanted], [every]) == [True]
    ends = made.equality.ranges_of_two(np.array([device, SECOND]), np.array([every, some]))
    assert [end.tolist() for end in ends] == [[-128, -128], [127, 126]]
    table[255, 255] -= 1
    spoilt = made.of(K.TABLE_OF_TWO, [made.functions.table(table)], FIRST, SECOND)
    asked = [device, device, spoilt, device], [spoilt, spoilt, spoilt, wanted]
    assert equal_of_two(made, *asked, [every, some, every, every]) == [False, True, True, True]
    swapped = made.functions.renamed(made.of(K.MIN, [5], FIRST), SECOND)
    assert swapped == made.of(K.MIN, [5], SECOND)


def test_a_part_that_is_subtracted_has_a_piece_for_each_level() -> None:
    """Beside a digit of the same sum, which has one for each 256th."""
    made = Made()
    x = made.sum(0, 3, (1, FIRST))
    low = made.of(K.BYTE, [], x)
    carry = made.sum(0, 8, (1, x))
    f = made.sum(0, 0, (3, low), (-1, carry))
    for g in (f, made.sum(1, 0, (3, low), (-1, carry)), made.sum(0, 0, (3, low))):
        same = (made.values(f, -9000, 9000) == made.values(g, -9000, 9000)).all()
        assert made.equal(f, g, -9000, 9000) == same


def test_a_part_of_which_bounds_say_all_is_not_looked_at_piece_by_piece() -> None:
    """Far from the network's steps: one wrong value there is found, though bounds leave it out only
    where they are right."""
    made = Made()
    wanted = made.rule(Away(np.array([0.01])), 0)
    low, high = -400_000, 400_000
    assert made.equal(made.of(K.MIN, [127], wanted), wanted, low, high)
    for at in (-399_990, -150_001, 150_007, 399_999):
        bump = made.of(K.MIN, [1], made.of(K.MAX, [0], made.sum(1 - at, 0, (1, FIRST))))
        fall = made.of(K.MIN, [1], made.of(K.MAX, [0], made.sum(-at, 0, (1, FIRST))))
        level = made.sum(0, 0, (1, wanted), (1, bump), (-1, fall))
        values = made.values(level, low, high)
        assert np.count_nonzero(values != made.values(wanted, low, high)) == 1
        assert not made.equal(level, wanted, low, high)
        assert not made.equal(wanted, level, low, high)  # nor where the network's does not rise


def counts(made: Made) -> tuple[int, int, int]:
    return made.equality.at_steps, made.equality.by_pieces, made.equality.value_by_value


def test_each_verdict_is_reached_once_and_in_one_way() -> None:
    made = Made()
    wanted = made.rule(Away(np.array([0.01])), 0)
    clamped = made.of(K.MIN, [127], wanted)
    assert made.equal(wanted, wanted, 0, 5000)
    assert (counts(made), made.functions.evaluated) == ((0, 0, 0), 0)
    assert made.equal(clamped, wanted, 0, 1023)
    assert counts(made) == (0, 0, 1)
    assert made.equal(clamped, wanted, 0, 1024)
    assert counts(made) == (1, 0, 1)
    digit = made.of(K.BYTE, [], FIRST)
    whole = made.of(K.MIN, [9], made.sum(0, 0, (1, digit), (256, made.sum(128, 8, (1, FIRST)))))
    plain = made.of(K.MIN, [9], FIRST)
    assert made.equal(whole, plain, -2001, 2000)
    assert counts(made) == (1, 1, 1)
    falling, other = made.of(K.PRODUCT, [-1], FIRST), made.sum(0, 0, (-1, FIRST))
    assert made.equal(falling, other, -2000, 2000)
    assert counts(made) == (1, 1, 2)
    evaluated = made.functions.evaluated
    for f, g, low, high in (
        (clamped, wanted, 0, 1023),
        (clamped, wanted, 0, 1024),
        (whole, plain, -2001, 2000),
        (falling, other, -2000, 2000),
    ):
        assert made.equal(f, g, low, high)
    assert (counts(made), made.functions.evaluated) == ((1, 1, 2), evaluated)
    assert equal_of_two(made, [plain], [plain], [(0, 3, 0, 3)]) == [True]  # the same: not compared
    assert counts(made) == (1, 1, 2)
    twice = made.of(K.MAX_OF_TWO, [], plain, plain)
    for _ in range(2):
        assert equal_of_two(made, [twice, plain], [plain, plain], [(0, 3, 0, 3)] * 2) == [True] * 2
        assert counts(made) == (1, 1, 3)


def test_what_has_no_pieces_is_compared_on_so_many_values_and_no_more() -> None:
    made = Made()
    plain = made.of(K.MIN, [9], FIRST)
    same = made.of(K.MAX_OF_TWO, [], plain, plain)
    assert made.equal(same, plain, 7, 6 + (1 << 23))
    assert not made.equal(same, plain, 7, 7 + (1 << 23))


def test_a_difference_at_one_place_that_is_looked_at_first_is_found_there() -> None:
    made = Made()
    plain = made.of(K.MIN, [9], FIRST)
    low, length = -3000, 32 * 250 + 16
    for k in range(33):
        at = low + length * k // 32
        wrong = made.of(K.MAX_OF_TWO, [], plain, spike(made, at, 10))
        before = made.functions.evaluated
        assert not made.equal(wrong, plain, low, low + length)
        assert made.functions.evaluated - before == 2 * 33


def spike(made: Made, at: int, level: int) -> int:
    """level at one place, and far below elsewhere."""
    up = made.of(K.MIN, [0], made.sum(-at, 0, (1, FIRST)))
    down = made.of(K.MIN, [0], made.sum(at, 0, (-1, FIRST)))
    return made.sum(level, 0, (1 << 12, up), (1 << 12, down))


@pytest.mark.parametrize(("longer", "shorter"), [(1000, 5), (70_000, 1500), (3000, 7)])
def test_every_value_of_intervals_of_several_lengths(longer: int, shorter: int) -> None:
    """Side by side, without pieces: a difference at either end, where values are taken in parts,
    or just outside."""
    for at in (-1, 0, 1, 17, (1 << 16) - 1, 1 << 16, longer - 1, longer, longer + 1):
        made = Made()
        plain = made.of(K.MIN, [0], FIRST)
        wrong = made.of(K.MAX_OF_TWO, [], plain, spike(made, at, 10))
        ends = np.array([shorter, longer, shorter, longer])
        f, g, low = np.full(4, wrong), np.full(4, plain), np.zeros(4, np.int64)
        same = made.equality.equal(f, g, low, ends)
        assert same.tolist() == [not 0 <= at <= end for end in ends.tolist()]


def stretched(made: Made, end: int) -> int:
    """A sum of digits that reaches no bound of its parts; another one for each `end`."""
    low = made.of(K.BYTE, [], made.sum(end, 0, (1, FIRST)))
    clamped = made.of(K.MIN, [end], made.of(K.MAX, [-40], made.sum(128 - end, 8, (1, FIRST))))
    return made.sum(-7, 1, (3, low), (200, clamped), (1, made.of(K.MIN, [900], FIRST)))


@pytest.mark.parametrize("seed", range(times(8, 500)))
def test_ranges_are_those_of_all_values(seed: int) -> None:
    """Of functions side by side, on intervals of several lengths."""
    made, rng = Made(), np.random.default_rng(seed)
    low = np.concatenate([rng.integers(-3000, 0, 4), rng.integers(-9000, -6000, 4)])
    lengths = [5, 300, 1022, 1023, 1024, 9000, 14_000, 16_000]
    rows = [(stretched(made, int(rng.integers(5, 60))), begin, begin + length)
            for begin, length in zip(low.tolist(), lengths, strict=True)]  # fmt: skip
    rows += [(made.of(K.BYTE, [], FIRST), -100, end) for end in (90, 160, 300, 5000)]
    rows += [(made.of(K.MIN, [50], made.sum(3, 1, (5, FIRST))), -200, end) for end in (10, 3000)]
    rows += [(made.of(K.PRODUCT, [-3], FIRST), -199, end) for end in (11, 700, 824)]
    # Its least value is met soon, and no value is its bound above.
    digit, carry = made.of(K.BYTE, [], FIRST), made.sum(128, 8, (1, FIRST))
    rows += [(made.of(K.MAX, [-50], made.sum(0, 0, (1, digit), (300, carry))), -7936, 7936)]
    for f, begin, end in rows:
        values = made.values(f, begin, end)
        least, most = made.equality.ranges(np.array([f]), np.array([begin]), np.array([end]))
        assert (int(least[0]), int(most[0])) == (values.min(), values.max())
    found = Equality(made.functions).ranges(*np.array(rows).T)
    wanted = [made.values(*row) for row in rows]
    assert found[0].tolist() == [values.min() for values in wanted]
    assert found[1].tolist() == [values.max() for values in wanted]
    evaluated = made.functions.evaluated
    made.equality.ranges(*np.array(rows).T)
    assert made.functions.evaluated == evaluated


def test_a_range_is_found_in_few_pieces_where_bounds_say_that_there_is_no_more() -> None:
    made = Made()
    low, high = np.array([-500_000]), np.array([500_000])
    digit = made.of(K.BYTE, [], made.sum(5, 1, (1, FIRST)))
    ends = made.equality.ranges(np.array([digit]), low, high)
    assert (int(ends[0][0]), int(ends[1][0])) == (-128, 127)
    assert made.functions.evaluated < 2000
    clamped = made.of(K.MIN, [3], made.of(K.MAX_OF_TWO, [], FIRST, FIRST))
    ends = made.equality.ranges(np.array([clamped]), low, high)
    assert (int(ends[0][0]), int(ends[1][0])) == (INT32[0], 3)  # nothing else is known of it
    falling = np.array([made.of(K.PRODUCT, [-1], FIRST)])
    ends = made.equality.ranges(falling, np.array([-512]), np.array([512]))
    assert (int(ends[0][0]), int(ends[1][0])) == INT32


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("offset", [127, 129])
def test_bounds_that_leave_two_values_say_nothing(before: bool, offset: int) -> None:
    """Far from the network's steps a digit moves the device's value by one, upwards or downwards,
    at some places: the bounds are the network's value and another one."""
    made = Made()
    wanted = made.of(K.RULE, [made.functions.rule(Requantizer(Away(np.array([0.01])), 0, -128, 127),
                                                  0), 0], FIRST)  # fmt: skip
    low, high = -409_600, 409_600  # places that are looked at first are multiples of 256
    kind, end = (K.MIN, -20_480) if before else (K.MAX, 20_480)
    digit = made.of(K.BYTE, [], made.of(kind, [end], FIRST))
    right = made.sum(128, 8, (256, wanted), (1, digit))
    assert made.equal(right, wanted, low, high)
    wrong = made.sum(offset, 8, (256, wanted), (1, digit))
    differ = made.values(wrong, low, high) != made.values(wanted, low, high)
    assert differ.sum() == (high - 20_480) // 256
    assert not made.equal(wrong, wanted, low, high)


def test_pieces_far_from_all_steps_are_left_out() -> None:
    made = Made()
    wanted = made.of(K.RULE, [made.functions.rule(Requantizer(Away(np.array([0.1])), 0, -128, 127),
                                                  0), 0], FIRST)  # fmt: skip
    digit = made.of(K.BYTE, [], FIRST)
    device = made.of(K.MIN, [127], made.of(K.MAX, [-128],
                     made.sum(128, 8, (256, wanted), (1, digit))))  # fmt: skip
    long = made.sum(0, 0, (1, device))
    evaluated = {}
    for far in (40_000, 2_000_000):
        before = made.functions.evaluated
        assert made.equal(long, wanted, -far, far)
        evaluated[far] = made.functions.evaluated - before
    assert evaluated[2_000_000] < 1.5 * evaluated[40_000]


def test_rows_side_by_side_have_one_shape_and_nearly_one_length() -> None:
    rng = np.random.default_rng(1)
    rows = rng.permutation(400)[:300]
    length = rng.integers(0, 1000, 400)
    shapes = rng.integers(0, 2, (2, 300))
    parts = list(_side_by_side(shapes, rows, length))
    assert sorted(np.concatenate(parts).tolist()) == sorted(rows.tolist())
    shape_of = dict(zip(rows.tolist(), shapes.T.tolist(), strict=True))
    for part in parts:
        assert 0 < len(part) <= 64
        assert len({tuple(shape_of[row]) for row in part.tolist()}) == 1
        assert (np.diff(length[part]) >= 0).all()
    full = [len(p) for p in parts if len(p) == 64]
    assert len(parts) - len(full) == 4  # the last part of each shape
    assert list(_side_by_side(np.zeros((1, 0)), np.zeros(0, np.int64), length)) == []
