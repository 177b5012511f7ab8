# SPDX-License-Identifier: Apache-2.0
"""tests/padding.py: which sides SAME pads."""

from __future__ import annotations

import pytest

from tests.padding import same_padding


@pytest.mark.parametrize(
    ("size", "kernel", "strides", "padding"),
    [
        ((8, 8), (3, 3), (1, 1), (1, 1, 1, 1)),
        ((8, 8), (3, 3), (2, 2), (0, 0, 1, 1)),  # what is odd stands below and to the right
        ((7, 8), (1, 1), (2, 2), (0, 0, 0, 0)),
        ((5, 5), (2, 4), (1, 1), (0, 1, 1, 2)),
    ],
)
def test_same_padding_is_tensorflows(
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> None:
    assert same_padding(size, kernel, strides) == padding
