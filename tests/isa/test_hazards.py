# SPDX-License-Identifier: Apache-2.0
"""isa/hazards.py: against sets of places."""

from __future__ import annotations

import itertools

import numpy as np

from loadstone.isa.hazards import NONE, Touch, TouchHazards, TouchStep


def places(touch: Touch) -> set[int]:
    starts = [range(0, count * stride, stride) for count, stride in touch.loops]
    return {
        touch.first + sum(turn) + k
        for turn in itertools.product(*starts)
        for k in range(touch.extent)
    }


def test_conflicts_are_those_of_sets() -> None:
    rng = np.random.default_rng(1)

    def touch(grain: int) -> Touch:
        loops = tuple(
            (int(rng.integers(2, 4)), grain * int(rng.integers(1, 6)))
            for _ in range(int(rng.integers(3)))
        )
        first, extent = grain * int(rng.integers(40)), grain * int(rng.integers(1, 4))
        space = ("pad", ("dram", 1))[int(rng.integers(2))]
        return Touch(space, first, loops, extent, bool(rng.integers(2)))

    for grain in (1, 4):
        steps = [
            TouchStep(
                int(rng.integers(3)), "", tuple(touch(grain) for _ in range(int(rng.integers(4))))
            )
            for _ in range(120)
        ]
        hazards = TouchHazards(3, steps)
        for number, step in enumerate(steps):
            want = [NONE] * 3
            for before, other in enumerate(steps[:number]):
                meets = any(
                    a.space == b.space and (a.writes or b.writes) and places(a) & places(b)
                    for a in step.touches
                    for b in other.touches
                )
                if meets and other.unit != step.unit:
                    want[other.unit] = before
            assert hazards.conflicts(step, number) == want
