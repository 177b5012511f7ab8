# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits as int8: the numbers are those that the package gguf packed, and the levels are
within what the rounding of a group's scale and minimum allows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

import gguf

from loadstone.library.native import ffi, lib
from loadstone.relax.grid_weights import grid_levels, grid_numbers
from loadstone.relax.row_numerics import quantize_rows, row_scales

RNG = np.random.default_rng(3)
REAL = (RNG.standard_normal((48, 512)) * RNG.uniform(0.1, 3, (48, 1))).astype(np.float32)


def of_encoding(name: str) -> np.ndarray:
    """Float weights that a file of this encoding holds. gguf writes no Q4_K: bytes are drawn."""
    kind = gguf.GGMLQuantizationType[name]
    if name == "Q4_K":
        raw = RNG.integers(0, 256, (48, 2 * 144), np.uint8)
        for block in np.split(raw, 2, axis=1):
            block[:, :4] = np.array([[0.01, 0.02]], np.float16).view(np.uint8)
    else:
        raw = gguf.quants.quantize(REAL, kind)
    return np.asarray(gguf.quants.dequantize(raw, kind), np.float32)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q4_K"])
def test_numbers_steps_and_minima_are_the_weights(name: str) -> None:
    weights = of_encoding(name)
    found = grid_numbers(weights)
    assert found is not None
    numbers, steps, minima = found
    assert numbers.max() <= 15
    made = (numbers * steps[..., None] + minima[..., None]).reshape(weights.shape)
    assert np.abs(made - weights).max() <= 1e-3 * np.abs(weights).max()


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q4_K"])
def test_levels_are_near_the_weights_and_a_device_unpacks_them(name: str) -> None:
    weights = of_encoding(name)
    found = grid_levels(weights)
    assert found is not None
    scales, levels = found
    # A sixteenth of a level of the multiplier, times 15, half a level of each of two roundings.
    assert np.abs(levels * scales - weights).max() <= (15 / 16 + 1.01) * scales.max()
    error = float(np.sqrt(((levels * scales - weights) ** 2).mean() / (weights**2).mean()))
    plain = row_scales(weights)
    eight = quantize_rows(weights, plain) * plain
    assert error < 2.2 * float(np.sqrt(((eight - weights) ** 2).mean() / (weights**2).mean()))
    tiles = levels.reshape(3, 16, 16, 2, 16).transpose(0, 2, 3, 1, 4)
    whole, packed = np.ascontiguousarray(tiles), np.empty(48 * 288, np.uint8)
    status = lib().lds_weights4(
        ffi.from_buffer("int8_t[]", whole), 48, 16, ffi.from_buffer("uint8_t[]", packed)
    )
    assert status == lib().LDS_WEIGHTS4_OK


def test_what_has_no_such_groups_is_none() -> None:
    assert grid_levels(REAL) is None
    assert grid_levels(of_encoding("Q4_1")[:, :40]) is None
    almost = of_encoding("Q4_1")
    almost[5, 70] += np.float32(0.3 / 15) * np.ptp(almost[5, 64:96])
    assert grid_levels(almost) is None


def test_rows_of_zeros_and_of_two_values() -> None:
    weights = np.zeros((3, 32), np.float32)
    weights[1, ::2], weights[2] = 2, -1
    found = grid_levels(weights)
    assert found is not None
    scales, levels = found
    assert np.abs(levels * scales - weights).max() <= scales[1:].max() / 2
    assert not levels[0].any()


def test_an_output_whose_first_scale_leaves_a_level_of_128() -> None:
    """Alone, so that none is done in that turn."""
    weights = np.array([[-6.5] * 31 + [8.5]], np.float32)
    found = grid_levels(weights)
    assert found is not None
    scales, levels = found
    assert scales[0, 0] > 8.5 / 127
    assert np.abs(levels).max() <= 127
    assert np.abs(levels * scales - weights).max() < scales[0, 0]
