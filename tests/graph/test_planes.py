# SPDX-License-Identifier: Apache-2.0
"""graph/planes.py: how many planes hold every sum, and operators that contradict themselves."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.graph.planes import planes_needed


def test_three_planes_are_taken_where_they_are_proven() -> None:
    """The largest sum of 512 weights of 127 is 128 * 127 * 512 = 8,323,072; 2^23 is 65,536 more."""
    weights = np.full((2, 512), 127, np.int8)
    assert planes_needed(weights) == 3
    assert planes_needed(np.full((2, 516), 127, np.int8)) == 3
    assert planes_needed(np.full((2, 517), 127, np.int8)) == 4
    assert planes_needed(np.full((1, 512), -128, np.int8)) == 4  # 2^23 itself: -2^23 has a 24th bit
    assert planes_needed(np.zeros((1, 4), np.int8)) == 3


def dense(planes: int, channels: int, depth: int = 4) -> g.PlaneDense:
    return g.PlaneDense(
        name="y",
        inputs=(g.Tensor("x", (1, depth), "int8"),),
        outputs=(g.Tensor("y", (1, channels), "int8"),),
        weights=np.full((2, depth), 127, np.int8),
        planes=planes,
    )


def test_an_operator_that_contradicts_itself_is_a_mistake() -> None:
    assert dense(3, 6).macs == 8
    with pytest.raises(AssertionError, match="3 or 4 planes"):
        dense(2, 4)
    with pytest.raises(AssertionError, match="a channel for each byte"):
        dense(3, 8)
    with pytest.raises(AssertionError, match="planes that hold every sum"):
        dense(3, 6, 517)
