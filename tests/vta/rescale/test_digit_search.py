# SPDX-License-Identifier: Apache-2.0
"""vta/rescale/digit_search.py: what it finds, and how it says that there is nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from loadstone.vta.rescale import digit_search, ends
from loadstone.vta.rescale.digit_search import DigitForm, held, search_digits
from loadstone.vta.rescale.search import needs_sign
from tests.vta.rescale.made import made_runs


def test_both_signs_of_the_double_rounding_have_no_line() -> None:
    both = made_runs(np.array([0.0017, 0.0023]), (-200_000, 200_000), "double", 0)
    one = made_runs(np.array([0.0017, 0.0023]), (-200_000, 200_000), "double", -128)
    assert needs_sign(both).all()
    assert not needs_sign(one).any()
    form = DigitForm(3, False, np.zeros(2, np.int64))
    assert not search_digits(both, form).ok.any()
    assert search_digits(one, form).ok.all()
    assert search_digits(both, DigitForm(3, True, form.left)).ok.all()


def test_a_line_may_lie_a_little_off_the_real_scale() -> None:
    """A channel of MobileNetV2's last layer: at the scale itself the line has a tenth of the room
    that it has at a slope of half a millionth more."""
    runs = made_runs(np.array([0.0003072007910940142]), (-5_194_306, 5_275_229), "double", -53)
    assert search_digits(runs, DigitForm(3, True, np.zeros(1, np.int64))).ok.all()


def test_two_digits_do_not_hold_a_long_range() -> None:
    runs = made_runs(np.array([0.001]), (-400_000, 400_000), "double", -128)
    assert not search_digits(runs, DigitForm(2, False, np.zeros(1, np.int64))).ok.any()
    assert not held(runs, 2).any()
    assert held(runs, 3).all()
    assert held(made_runs(np.array([0.001]), (-20_000, 20_000), "double", -128), 2).all()


@pytest.mark.parametrize(
    ("count", "signed", "shift"), [(2, False, None), (3, True, None), (3, False, 24)]
)
def test_looking_at_few_ends_first_changes_nothing(
    count: int, signed: bool, shift: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The few tightest ends only pass over candidates that fail: where all ends are looked at, of
    one candidate after the other, the same is found."""
    scale = np.array([0.0017, 0.0023, 0.00191, 0.0029, 0.0021, 0.00247])
    reach = (-120_000, 90_000) if count == 3 else (-20_000, 20_000)
    runs = made_runs(scale, reach, "double", -128 if not signed else 0)
    left = np.zeros(len(scale), np.int64)
    last = None if shift is None else left + shift
    form = DigitForm(count, signed, left, last)
    found = search_digits(runs, form)
    monkeypatch.setattr(ends, "_POINTS", 1000)
    monkeypatch.setattr(digit_search, "_AT_ONCE", 1)
    plain = search_digits(replace(runs), form)  # a copy that knows no ends yet
    for field in fields(found):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(plain, field.name))
    assert found.ok.any()
