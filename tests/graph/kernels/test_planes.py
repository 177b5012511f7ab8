# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/planes.py: bytes of sums, which join to the sums again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.graph import reference
from loadstone.graph.kernels.planes import planes_of
from loadstone.numerics import Array, Int32Array


def joined(planes: Array, count: int) -> Int32Array:
    """Of (..., count * O): the lowest first, the highest with its sign."""
    *low, high = np.split(planes, count, axis=-1)
    sums = high.astype(np.int32)
    for plane in reversed(low):
        sums = (sums << 8) | plane.view(np.uint8)
    return sums


def test_planes_are_bytes_from_the_lowest() -> None:
    sums = np.array([[0x01020304, -1]], np.int32)
    assert planes_of(sums, 4).tolist() == [[4, -1, 3, -1, 2, -1, 1, -1]]


def test_three_planes_hold_24_bits_and_four_all_of_them() -> None:
    ends = np.array([-(2**23), 2**23 - 1, 0, -1, 255, -256], np.int32)
    np.testing.assert_array_equal(joined(planes_of(ends, 3), 3), ends)
    ends = np.array([-(2**31), 2**31 - 1, 2**23, -1], np.int32)
    np.testing.assert_array_equal(joined(planes_of(ends, 4), 4), ends)


def test_a_convolution_s_planes_join_to_its_sums() -> None:
    rng = np.random.default_rng(3)
    op = g.PlaneConv2D(
        name="y",
        inputs=(g.Tensor("x", (2, 5, 6, 4), "int8"),),
        outputs=(g.Tensor("y", (2, 3, 3, 24), "int8"),),
        weights=rng.integers(-128, 128, (8, 3, 2, 2)).astype(np.int8),
        planes=3,
        strides=(2, 2),
        dilation=(1, 1),
        padding=(1, 0, 1, 1),
        groups=2,
    )
    x = rng.integers(-128, 128, (2, 5, 6, 4)).astype(np.int8)
    (planes,) = reference.run_operator(op, [x])
    padded = np.pad(x.astype(np.int32), ((0, 0), (1, 1), (0, 1), (0, 0)))
    for n, row, column, o in np.ndindex(2, 3, 3, 8):
        first = o // 4 * 2
        window = padded[n, 2 * row : 2 * row + 3, 2 * column : 2 * column + 2, first : first + 2]
        want = int((window * op.weights[o]).sum())
        assert joined(planes, 3)[n, row, column, o] == want
    assert replace(op, name="z").macs == 2 * 3 * 3 * 8 * 3 * 2 * 2
