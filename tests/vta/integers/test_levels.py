# SPDX-License-Identifier: Apache-2.0
"""vta/integers/levels.py: what is split adds up, and each piece is what one GEMM step can do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.integers.levels import (
    constant_limit,
    constant_steps,
    constant_tile,
    split_constant,
    split_levels,
)

quick = settings(max_examples=60, deadline=None, derandomize=True)
exponents = st.sampled_from([(0,), (0, 8), (0, 8, 16), (0, 8, 11), (0, 8, 16, 24), (0, 8, 16, 22)])


@given(st.lists(st.integers(-(2**33), 2**33), min_size=1, max_size=16), exponents)
@quick
def test_multipliers_add_up(values: list[int], levels: tuple[int, ...]) -> None:
    scale = 1 if len(levels) > 3 else 1 << 16  # else the last level has millions of steps
    wanted = np.array(values, np.int64) // scale
    split = split_levels(wanted, levels)
    total = np.zeros(len(values), np.int64)
    for steps, exponent in zip(split, levels, strict=True):
        for step in steps:
            assert step.dtype == np.int8
            total += step.astype(np.int64) << exponent
    np.testing.assert_array_equal(total, wanted)


def test_the_rest_of_a_lane_is_one_step_as_soon_as_it_is_a_weight() -> None:
    """Levels 6 bits apart: a digit of 6 bits at the third would leave one more for the last."""
    values = np.array([100 << 16, -(100 << 16), 3])
    steps = [len(own) for own in split_levels(values, (0, 8, 16, 22))]
    assert steps == [1, 0, 1, 0]


@given(st.lists(st.integers(-(2**38), 2**38), min_size=1, max_size=16), exponents)
@quick
def test_constants_add_up(values: list[int], levels: tuple[int, ...]) -> None:
    wanted = np.array(values, np.int64)
    split = split_constant(wanted, levels, 16)
    total = sum(
        (
            level << exponent
            for level, exponent in zip(split, levels, strict=True)
            if level is not None
        ),
        np.zeros(len(values), np.int64),
    )
    np.testing.assert_array_equal(total, wanted)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=16))
@quick
def test_a_weight_tile_times_the_constant_tile_is_the_constant(values: list[int]) -> None:
    wanted = np.array(values, np.int64)
    tiles = constant_steps(wanted, 16)
    lanes = constant_tile(16).astype(np.int64)
    np.testing.assert_array_equal(sum((tile @ lanes for tile in tiles), 0 * wanted), wanted)
    assert len(tiles) == -(-int(np.abs(wanted).max()) // constant_limit(16))


def test_the_limit_is_one_step() -> None:
    limit = constant_limit(16)
    assert limit == 241_935
    assert len(constant_steps(np.array([limit, -limit]), 16)) == 1
    assert len(constant_steps(np.array([limit + 1]), 16)) == 2
