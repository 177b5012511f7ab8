# SPDX-License-Identifier: Apache-2.0
"""prove/near.py: one level off is a proof where that is asked for, and two levels never are."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.functions import FIRST, FunctionKind, Functions
from loadstone.prove.near import NearNames
from loadstone.prove.values import Values

LOW, HIGH = -400, 400


def made(values: Values, tail: int, *lasts: int) -> np.ndarray:
    """Functions clamp((x + c) >> 2) of a sum, whose constants c are `lasts`; tail: a level that is
    added behind the shift."""
    kids = values.functions.sum(
        np.ones((len(lasts), 1), np.int64),
        np.full((len(lasts), 1), FIRST),
        np.array(lasts, np.int64),
        np.full(len(lasts), 2),
    )
    none = np.zeros(len(lasts), np.int64)
    kids = values.functions.sum(
        np.ones((len(lasts), 1), np.int64), kids[:, None], none + tail, none
    )
    for kind, limit in ((FunctionKind.MAX, -100), (FunctionKind.MIN, 100)):
        kids = values.functions.make(kind, np.full((len(lasts), 1), limit), kids[:, None])
    return kids


def case(tolerance: int) -> tuple[Values, np.ndarray, int]:
    """Values, a source of a sum, and the network's element of it."""
    values = Values(tolerance)
    x = values.opaque(np.full(4, -100), np.full(4, 100))
    sums = values.columns(x)[:8].astype(np.int64).sum(1, keepdims=True) % values.points.moduli
    source, _ = values.find(sums, np.array([LOW]), np.array([HIGH]), make=True)
    element = values.define(source, made(values, 0, 2))
    return values, source, int(element[0])


@pytest.mark.parametrize(
    ("tail", "last", "exact", "near"),
    [
        (0, 2, True, True),
        (0, 3, False, True),
        (0, 6, False, True),  # everywhere one level off, but for the ends
        (1, 2, False, True),
        (-1, 2, False, True),
        (0, 7, False, False),  # two levels off where the sum ends with 3
        (2, 2, False, False),
        (-1, 1, False, False),
    ],
)
def test_one_level_is_near(tail: int, last: int, exact: bool, near: bool) -> None:
    for tolerance, wanted in ((0, exact), (1, near)):
        values, source, element = case(tolerance)
        stored = int(values.stored(source, made(values, tail, last))[0])
        assert (stored == element) is wanted


def test_an_element_is_one_function() -> None:
    """A second one, even the network's own, does not take the name: it stands for one value."""
    for first, second in ((3, 2), (2, 3), (3, 4)):
        values, source, element = case(1)
        assert values.stored(source, made(values, 0, first)).tolist() == [element]
        assert values.stored(source, made(values, 0, second)).tolist() != [element]
        assert values.stored(source, made(values, 0, first)).tolist() == [element]
        values.begin()
        assert values.stored(source, made(values, 0, second)).tolist() == [element]


def test_what_follows_counts_on_a_level_more() -> None:
    """The range of an element is what the artifact has, not what the network has."""
    for tolerance in (0, 1):
        values, _, element = case(tolerance)
        low, high = (int(a[0]) for a in values.limits(np.array([element])))
        assert (low, high) == (-100 - tolerance, 100 + tolerance)


def test_ranges_end_where_bytes_do() -> None:
    low, high = np.array([-128, -127, 5, -128]), np.array([-128, 5, 126, 127])
    near = [NearNames(Functions(), tolerance).limits(low, high) for tolerance in (0, 1, 2)]
    assert [[end.tolist() for end in ends] for ends in near] == [
        [low.tolist(), high.tolist()],
        [[-128, -128, 4, -128], [-127, 6, 127, 127]],
        [[-128, -128, 3, -128], [-126, 7, 127, 127]],
    ]


def test_many_bytes_at_once() -> None:
    """Exact, near and far ones of a sum: the exact one has the name, wherever it stands."""
    values, source, element = case(1)
    lasts = [7, 3, 2, 3, -9, 2]
    functions = made(values, 0, *lasts)
    stored = values.stored(np.repeat(source, len(lasts)), functions)
    assert (stored == element).tolist() == [False, False, True, False, False, True]
    values.begin()
    stored = values.stored(np.repeat(source, 3), functions[2:5])
    assert (stored == element).tolist() == [True, False, False]
    values.begin()
    stored = values.stored(np.repeat(source, 3), made(values, 0, -9, 3, 7))
    assert (stored == element).tolist() == [False, True, False]


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_an_exact_byte_keeps_its_name(order: tuple[int, int]) -> None:
    """Beside an element of the same sum that is near."""
    values = Values(1)
    x = values.opaque(np.full(4, -100), np.full(4, 100))
    sums = values.columns(x)[:8].astype(np.int64).sum(1, keepdims=True) % values.points.moduli
    source, _ = values.find(sums, np.array([LOW]), np.array([HIGH]), make=True)
    both = [int(values.define(source, made(values, 0, last))[0]) for last in order]
    assert both[0] != both[1]
    for last, element in reversed([*zip(order, both, strict=True)]):
        assert values.stored(source, made(values, 0, last)).tolist() == [element]


def test_what_was_near_is_counted() -> None:
    """However it was found: value by value, by pieces, and at the steps of what rises."""
    near = NearNames(Functions(), 1)
    equality = near._equality
    equality.at_steps, equality.by_pieces, equality.value_by_value = 1, 20, 300
    assert near.count == 321
