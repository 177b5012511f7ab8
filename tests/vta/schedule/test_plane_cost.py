# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/plane_cost.py: what waits for what when bytes leave in planes."""

from __future__ import annotations

import numpy as np

from loadstone.vta.schedule.plane_cost import cycles_of_planes


def cycles(load: int, compute: int, store: int, turns: int, planes: int = 4) -> int:
    stages = np.array([[load], [compute], [store]])
    first = np.array([10]), np.array([100])
    return int(cycles_of_planes(planes, stages, first, np.array([turns]))[0])


def test_a_long_load_hides_all_but_the_last_turn() -> None:
    """compute 300 and three of four planes of 400: 600 busy cycles in 10 turns."""
    assert cycles(1000, 300, 400, 10) == 1000 + 10 + (600 + 400) // 10


def test_compute_waits_for_all_planes_but_the_last() -> None:
    assert cycles(500, 300, 400, 10) == 600 + 10 + 100 + 40
