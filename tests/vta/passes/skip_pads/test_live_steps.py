# SPDX-License-Identifier: Apache-2.0
"""live_steps.py: boxes hold every step that does something, and leave padding out where it pays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.passes.skip_pads.live_steps import Box, fewest_steps

#: Of a GEMM, in cycles.
_OVERHEAD = 9


def cost(boxes: Sequence[Box]) -> int:
    return sum(_OVERHEAD + box.steps for box in boxes)


def window(size: int, taps: int, pad: int, stride: int = 1) -> NDArray[np.bool_]:
    """(ky, i, kx, j): whether a tap of a convolution is inside the picture."""
    turns = (size + 2 * pad - taps) // stride + 1
    places = np.arange(taps)[:, None] + stride * np.arange(turns) - pad
    inside = (places >= 0) & (places < size)
    return inside[:, :, None, None] & inside[None, None]


def covered(live: NDArray[np.bool_], boxes: Sequence[Box]) -> NDArray[np.int64]:
    """How many boxes hold each step."""
    count = np.zeros(live.shape, np.int64)
    for box in boxes:
        ranges = zip(box.first, box.extents, strict=True)
        count[tuple(slice(first, first + extent) for first, extent in ranges)] += 1
    return count


def test_a_kernel_of_three_by_three_is_nine_boxes_without_padding() -> None:
    live = window(16, 3, 1)
    boxes = fewest_steps(live, (0, 2), cost)
    assert len(boxes) == 9
    assert sum(box.steps for box in boxes) == live.sum() == 46**2
    assert np.array_equal(covered(live, boxes), live)


def test_random_windows_keep_every_live_step_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        taps, stride = rng.integers(1, 6), rng.integers(1, 3)
        live = window(int(rng.integers(taps, 12)), int(taps), int(rng.integers(0, 4)), int(stride))
        boxes = fewest_steps(live, (0, 2), cost)
        count = covered(live, boxes)
        assert (count[live] == 1).all()
        assert count.max() <= 1
        assert cost(boxes) <= _OVERHEAD + live.size


def test_taps_that_are_bounded_alike_stay_together() -> None:
    live = np.ones((5, 40), bool)
    live[0, :20] = live[4, :20] = False
    assert fewest_steps(live, (0,), cost) == [
        Box((0, 20), (1, 20)),
        Box((1, 0), (3, 40)),
        Box((4, 20), (1, 20)),
    ]


def test_what_does_not_pay_is_not_cut() -> None:
    live = window(3, 3, 1)
    whole = [Box((0, 0, 0, 0), live.shape)]
    assert fewest_steps(live, (0, 2), lambda boxes: 90 * len(boxes)) == whole
    assert fewest_steps(np.ones((3, 3), bool), (0, 1), cost) == [Box((0, 0), (3, 3))]


def test_only_reductions_are_cut_and_borders_of_all_loops_go() -> None:
    live = np.zeros((3, 6), bool)
    live[1, 2:5] = True
    assert fewest_steps(live, (), cost) == [Box((1, 2), (1, 3))]
    assert fewest_steps(np.zeros((2, 2), bool), (0,), cost) == []
