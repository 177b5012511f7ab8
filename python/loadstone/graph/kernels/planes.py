# SPDX-License-Identifier: Apache-2.0
"""What weighted sums are whose bytes leave a device in planes.

In:   an operator of graph/planes.py; its input as int8.
Out:  its output: int8, the bytes of the sums, lowest plane first.
Next: graph/reference.py; tests hold devices against it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.kernels.windows import convolve, matmul
from loadstone.graph.planes import PlaneConv2D, PlaneDense
from loadstone.numerics import Int32Array

__all__ = ["conv2d", "dense", "planes_of"]


def planes_of(sums: Int32Array, planes: int) -> NDArray[np.int8] | Int32Array:
    """(..., O) as (..., planes * O): the low byte of each, then the next one; one: themselves."""
    if planes == 1:
        return sums
    parts = [(sums >> 8 * plane).astype(np.uint8).view(np.int8) for plane in range(planes)]
    return np.concatenate(parts, axis=-1)


def dense(o: PlaneDense, x: NDArray[np.int8]) -> NDArray[np.int8] | Int32Array:
    """x (..., I). Returns (..., planes * O)."""
    return planes_of(matmul(x, o.weights.T), o.planes)


def conv2d(o: PlaneConv2D, x: NDArray[np.int8]) -> NDArray[np.int8] | Int32Array:
    """x (N, H, W, C). Returns (N, H', W', planes * O)."""
    sums = convolve(
        x,
        o.weights,
        strides=o.strides,
        padding=o.padding,
        dilation=o.dilation,
        groups=o.groups,
    )
    return planes_of(sums, o.planes)
