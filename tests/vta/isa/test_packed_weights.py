# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: each by the formula of the instruction set, in the place that it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.isa.packed_weights import (
    expanded,
    group_bytes,
    group_tiles,
    packed,
    parts,
    weights_of,
)

BLOCKS = (4, 8, 16, 32)


@given(st.integers(0, 15), st.integers(0, 255), st.integers(-128, 127))
def test_a_weight_is_the_low_byte_of_the_formula(q: int, m: int, z: int) -> None:
    made = weights_of(np.array([[q]], np.uint8), np.array([m], np.uint8), np.array([z], np.int8))
    whole = z + (q * m + 4) // 8
    assert int(made[0, 0]) == (whole + 128) % 256 - 128


@pytest.mark.parametrize("block", BLOCKS)
def test_each_weight_of_a_group_stands_where_the_page_says(block: int) -> None:
    rng = np.random.default_rng(block)
    groups = rng.integers(0, 256, (3, group_bytes(block)), np.uint8)
    tiles = expanded(groups, block)
    assert tiles.shape == (3 * group_tiles(block), block, block)
    assert group_bytes(block) == 18 * block
    for _ in range(200):
        group, output, k = (int(rng.integers(n)) for n in (3, block, 32))
        own = groups[group].astype(int)
        tile, lane = divmod(k, block)
        place = tile * block * block + output * block + lane
        q = own[2 * block + place // 2] >> 4 * (place % 2) & 15
        whole = own[block + output] + (q * own[output] + 4 >> 3)
        assert tiles[group * group_tiles(block) + tile, output, lane] == np.uint8(
            whole & 255
        ).astype(np.int8)


@pytest.mark.parametrize("block", BLOCKS)
def test_parts_are_what_was_packed(block: int) -> None:
    rng = np.random.default_rng(block)
    numbers = rng.integers(0, 16, (2, group_tiles(block), block, block)).astype(np.uint8)
    multipliers = rng.integers(0, 256, (2, block)).astype(np.uint8)
    minima = rng.integers(-128, 128, (2, block)).astype(np.int8)
    found = parts(packed(numbers, multipliers, minima), block)
    for mine, theirs in zip(found, (numbers, multipliers, minima), strict=True):
        assert np.array_equal(mine, theirs)
