# SPDX-License-Identifier: Apache-2.0
"""vta/operators/layout.py: the blocked layout, element by element, and folded inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.vta.operators.layout import Blocked, Im2colLayout


@given(
    st.integers(1, 2),
    st.lists(st.integers(1, 5), max_size=2),
    st.integers(1, 40),
    st.sampled_from([1, 2]),
    st.sampled_from([4, 16]),
)
def test_every_element_has_its_place(
    groups: int, pixels: list[int], channels: int, batch: int, block: int
) -> None:
    shape = (groups * batch, *pixels, channels)
    layout = Blocked(shape, batch, block)
    array = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    tiles = layout.pack(array)
    assert tiles.shape == (layout.size_tiles, batch, block)
    flat = array.reshape(shape[0], -1, channels)
    for n, pixel, c in np.ndindex(flat.shape):
        tile = ((n // batch) * layout.channel_blocks + c // block) * layout.pixels + pixel
        assert tiles[tile, n % batch, c % block] == flat[n, pixel, c]
    np.testing.assert_array_equal(layout.unpack(tiles), array)


def test_lanes_beyond_the_last_channel_are_zero() -> None:
    tiles = Blocked((1, 2, 2, 5), 1, 16).pack(np.full((1, 2, 2, 5), 7, np.int8))
    assert not tiles[..., 5:].any()


def test_samples_that_fill_no_batch_are_our_mistake() -> None:
    with pytest.raises(AssertionError, match="N=3 is no multiple of the device's batch 4"):
        Blocked((3, 2, 2, 5), 4, 16)


@given(st.data())
def test_a_folded_input_holds_the_taps_of_every_output_pixel(data: Any) -> None:
    draw = data.draw
    kernel, strides = (tuple(draw(st.integers(1, 4)) for _ in range(2)) for _ in range(2))
    padding = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    shape = (1, draw(st.integers(4, 8)), draw(st.integers(4, 8)), draw(st.integers(1, 3)))
    size = tuple((shape[1 + a] + 2 * padding[a] - kernel[a]) // strides[a] + 1 for a in (0, 1))
    layout = Im2colLayout(shape, kernel, strides, padding, size, -7, 1, 16)
    array = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    folded = layout.gather(array)
    assert folded.shape == layout.blocked.shape
    for y, x, ky, kx in np.ndindex(*size, *kernel):
        row, column = y * strides[0] - padding[0] + ky, x * strides[1] - padding[1] + kx
        inside = 0 <= row < shape[1] and 0 <= column < shape[2]
        wanted = array[0, row, column] if inside else np.full(shape[3], -7)
        first = (ky * kernel[1] + kx) * shape[3]
        np.testing.assert_array_equal(folded[0, y, x, first : first + shape[3]], wanted)
    assert layout.pack(array).shape == (layout.size_tiles, 1, 16)
