# SPDX-License-Identifier: Apache-2.0
"""vta/integers/digit_search.py: what it finds, and how it says that there is nothing."""

from __future__ import annotations

import numpy as np

from loadstone.vta.integers.digit_search import DigitForm, held, search_digits
from loadstone.vta.integers.search import needs_sign
from tests.vta.integers.made import made_runs


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
