# SPDX-License-Identifier: Apache-2.0
"""prove/equality.py and functions.py: verdicts are those of a comparison value by value."""

from __future__ import annotations

import numpy as np
import pytest

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
