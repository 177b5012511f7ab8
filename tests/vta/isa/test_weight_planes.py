# SPDX-License-Identifier: Apache-2.0
"""Weights in bit planes: each where the instruction set says, and no weight lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.isa.weight_planes import coded, decoded_rows, rows_of_tile
from tests.vta.isa.planes_by_hand import rows_by_hand


def drawn(block: int, seed: int, tiles: int = 5) -> np.ndarray:
    """Tiles whose rows are of every width."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(-128, 128, (tiles, block, block)) >> rng.integers(0, 9, (tiles, block, 1))
    return whole.astype(np.int8)


@given(st.sampled_from([16, 32]), st.integers(0, 1 << 30))
def test_a_code_is_decoded_to_its_weights(block: int, seed: int) -> None:
    tiles = drawn(block, seed)
    words, first = coded(tiles)
    assert words.dtype == np.uint8
    assert words.shape == (first[-1], 8)
    assert len(first) == len(tiles) + 1
    for low, high in ((0, 5), (1, 4), (3, 3)):
        rows = decoded_rows(words[first[low] : first[high]], (high - low) * rows_of_tile(block))
        assert np.array_equal(rows.reshape(-1, block, block), tiles[low:high])


def test_a_row_by_hand() -> None:
    """Weights -8 to 7 are four planes, and the sign's comes first; -9 needs a fifth."""
    tile = np.zeros((1, 16, 16), np.int8)
    tile[0, 0] = np.arange(-8, 8)
    tile[0, 1, 3] = -9
    words, first = coded(tile)
    assert first.tolist() == [0, 1 + (4 + 5 + 14 * 4 + 3) // 4]
    numbers = words.view("<u8").reshape(-1).tolist()
    assert numbers[0] == 0x10
    assert numbers[1] == 0x00FF | 0xF0F0 << 16 | 0xCCCC << 32 | 0xAAAA << 48
    assert numbers[2] == 8 * (1 | 0 << 16 | 1 << 32 | 1 << 48)
    assert numbers[3] == 8


@pytest.mark.parametrize(
    ("weights", "planes"), [((-8, 7), 4), ((0, 8), 5), ((-17, 0), 6), ((127, -128), 8), ((0, 0), 4)]
)
def test_rows_have_the_planes_that_their_largest_weight_needs(
    weights: tuple[int, int], planes: int
) -> None:
    tile = np.zeros((1, 16, 16), np.int8)
    tile[0, 7, 2:4] = weights
    words, _ = coded(tile)
    assert len(words) == 1 + -(-(15 * 4 + planes) // 4)


@given(st.integers(0, 1 << 30), st.integers(1, 90), st.integers(1, 70))
def test_any_words_are_a_code(seed: int, count: int, rows: int) -> None:
    """What a program meets need be no code of ours: more rows than it says are not taken, and fewer
    are what there is."""
    words = np.random.default_rng(seed).integers(0, 256, (count, 8)).astype(np.uint8)
    wanted = rows_by_hand(words.tobytes(), rows)
    found = decoded_rows(words, rows)
    assert found.dtype == np.int8
    assert found.tolist() == wanted
