# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/windows.py: sums over windows are those of loops over scalars."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.graph.kernels.windows import convolve, matmul, windows


@pytest.mark.parametrize("seed", range(12))
def test_a_convolution_is_its_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, per_group, out_per_group = (int(n) for n in rng.integers(1, 4, 3))
    kernel, strides, dilation = (tuple(int(n) for n in rng.integers(1, 3, 2)) for _ in range(3))
    padding = tuple(int(n) for n in rng.integers(0, 3, 4))
    x = rng.integers(-255, 256, (2, 6, 5, groups * per_group))
    weights = rng.integers(-128, 128, (groups * out_per_group, *kernel, per_group))
    got = convolve(x, weights, strides=strides, padding=padding, dilation=dilation, groups=groups)
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    for n, i, j, o in np.ndindex(got.shape):
        first = o // out_per_group * per_group
        total = sum(
            int(
                padded[
                    n, i * strides[0] + a * dilation[0], j * strides[1] + b * dilation[1], first + c
                ]
            )
            * int(weights[o, a, b, c])
            for a, b, c in np.ndindex(*kernel, per_group)
        )
        assert got[n, i, j, o] == total


def test_sums_wrap_as_32_bits_do() -> None:
    x = np.full((1, 2**17), 255)
    assert matmul(x, np.full((2**17, 1), 127)).tolist() == [
        [(255 * 127 * 2**17 + 2**31) % 2**32 - 2**31]
    ]


def test_windows_hold_what_lies_under_them_and_the_fill() -> None:
    x = np.arange(9).reshape(1, 3, 3, 1)
    view = windows(x, (2, 2), (2, 2), (0, 0, 1, 1), fill=-1)
    assert view.shape == (1, 2, 2, 1, 2, 2)
    assert view[0, 0, 0, 0].tolist() == [[0, 1], [3, 4]]
    assert view[0, 1, 1, 0].tolist() == [[8, -1], [-1, -1]]
