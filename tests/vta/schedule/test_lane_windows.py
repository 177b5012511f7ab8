# SPDX-License-Identifier: Apache-2.0
"""Rows that windows read, counted as the simulator counts them; what fields hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from loadstone.vta.schedule.lane_windows import micro_ops, row_strides_fit, rows_besides
from tests.simulated import TINY_WINDOWS


def loops(height: int, step: int, rows: int) -> SimpleNamespace:
    return SimpleNamespace(
        lane_rows=rows, height=height, step=(step, step), window=(rows, rows), taps=9
    )


@pytest.mark.parametrize(("rows", "step"), [(3, 1), (3, 2), (3, 3), (2, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_rows_are_those_of_windows_below_each_other(rows: int, step: int, turns: int) -> None:
    height, width = 8, 4
    counted = 0
    for _ in range(turns * width):
        held: set[int] = set()
        for output in range(height // turns):
            window = set(range(output * step, output * step + rows))
            counted += len(window - held)
            held = window
    found = rows_besides(height * width, loops(height, step, rows), np.array([turns]))
    assert found.tolist() == [counted - height * width]
    assert rows_besides(height * width, loops(height, step, 0), np.array([turns])).tolist() == [0]


def test_rows_are_listed_where_both_loops_are_taken() -> None:
    ones = [1, 1, 1]
    sizes = np.array([ones, [1, 2, 2], ones, [3, 3, 3], [5, 5, 5], [4, 4, 1]])
    assert micro_ops(sizes, loops(8, 1, 3)).tolist() == [1, 5, 1]
    assert micro_ops(sizes, loops(8, 1, 0)).tolist() == [27, 54, 27]


def test_rows_further_apart_than_a_field_holds_do_not_fit() -> None:
    most = (1 << TINY_WINDOWS.lw) - 1
    width = np.array([most - 2, most - 1])
    assert row_strides_fit(width, loops(8, 1, 3), TINY_WINDOWS).tolist() == [True, False]
    assert row_strides_fit(width, loops(8, 1, 0), TINY_WINDOWS).all()
