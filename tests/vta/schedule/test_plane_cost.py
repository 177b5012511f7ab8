# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/plane_cost.py: what nothing hides when bytes leave in planes."""

from __future__ import annotations

import numpy as np

from loadstone.vta.schedule.plane_cost import cycles_of_planes


def cycles(load: int, compute: int, store: int, turns: int, chunks: int = 1) -> int:
    stages = np.array([[load], [compute], [store]])
    first = np.array([10]), np.array([100])
    return int(cycles_of_planes(stages, first, np.array([turns]), np.array([chunks]))[0])


def test_behind_a_long_load_come_the_last_products_and_planes() -> None:
    assert cycles(1000, 300, 400, 10) == 1000 + 10 + 30 + 40
    assert cycles(1000, 300, 400, 1, 10) == 1000 + 10 + 30 + 400


def test_in_front_of_long_products_come_the_first_loads() -> None:
    assert cycles(500, 900, 400, 10) == 900 + 110 + 40
