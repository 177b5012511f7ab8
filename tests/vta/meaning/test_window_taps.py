# SPDX-License-Identifier: Apache-2.0
"""Taps of windows: where they are, and what is refused."""

from __future__ import annotations

import pytest

from loadstone.errors import SimulationError
from loadstone.vta.isa.insn import Depthwise
from loadstone.vta.meaning.window_taps import window_taps


def test_the_last_row_has_the_same_weights_in_every_window() -> None:
    assert window_taps(Depthwise(rows=3, columns=3, row_stride=10), 16) == [
        *((0, 0, 1), (1, 1, 1), (2, 2, 1)),
        *((10, 4, 1), (11, 5, 1), (12, 6, 1)),
        *((20, 8, 1), (21, 9, 1), (22, 10, 1)),
    ]
    two = Depthwise(rows=2, columns=1, row_stride=9)
    assert window_taps(two, 16) == [(0, 4, 1), (9, 8, 1)]
    assert window_taps(Depthwise(rows=1, columns=2), 32) == [(0, 8, 1), (1, 9, 1)]
    assert window_taps(two, 8) == [(0, 0, 1), (9, 4, 1)]
    assert window_taps(Depthwise(rows=1, columns=1), 4) == [(0, 0, 1)]


def test_a_wide_window_has_one_tap_more() -> None:
    one = Depthwise(rows=1, columns=1, wide=1)
    assert [window_taps(one, block) for block in (4, 8, 16, 32)] == [
        [(0, first, 1), (0, first + 3, 128)] for first in (0, 4, 8, 8)
    ]
    assert window_taps(Depthwise(rows=3, columns=2, row_stride=9, wide=1), 16) == [
        *((0, 0, 1), (1, 1, 1), (9, 4, 1), (10, 5, 1), (18, 8, 1), (19, 9, 1), (18, 11, 128)),
    ]


@pytest.mark.parametrize(
    ("insn", "block"),
    [
        (Depthwise(rows=0, columns=1), 16),
        (Depthwise(rows=1, columns=0), 16),
        (Depthwise(rows=3, columns=1), 8),
        (Depthwise(rows=2, columns=1), 4),
        (Depthwise(rows=1, columns=1), 2),
    ],
)
def test_a_window_that_the_device_has_not_is_refused(insn: Depthwise, block: int) -> None:
    with pytest.raises(SimulationError, match="DEPTHWISE"):
        window_taps(insn, block)
