# SPDX-License-Identifier: Apache-2.0
"""counters.py: sums, field by field and place by place."""

from __future__ import annotations

from loadstone.runtime.counters import Counters, Totals


def test_sums_are_of_each_counter() -> None:
    assert Counters(1, 2, 3, 4, 5, 6) + Counters(10, 20, 30, 40, 50, 60) == Counters(
        11, 22, 33, 44, 55, 66
    )


def test_sums_keep_places_that_only_one_has() -> None:
    one = Totals(2, Counters(1, 0, 0, 0, 0, 0), {"host": 0.5, "npu": 1.0})
    both = one + Totals(1, Counters(2, 0, 0, 0, 0, 9), {"host": 0.25})
    assert both == Totals(3, Counters(3, 0, 0, 0, 0, 9), {"host": 0.75, "npu": 1.0})
    assert one + Totals() == one
