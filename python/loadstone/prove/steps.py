# SPDX-License-Identifier: Apache-2.0
"""The steps of products, in parts that are one product of matrices each.

In:   dst, src, wgt of all steps of a GEMM or DEPTHWISE, in their order.
Out:  `sums`: steps of equally many terms that meet the same weights; `windows`: steps of one weight
      tile whose accumulators differ; `Taps`, what a window reads.
Next: machine.py multiplies them.

The order of sums is free, so those of one tile are one product, and those of all tiles that meet
the same weights too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.vta.isa.insn import Depthwise, Gemm
from loadstone.vta.isa.spec import WIDE_FACTOR, WINDOW_PITCH, window_rows

__all__ = ["Taps", "sums", "windows"]

#: Columns of products that are summed exactly in float64: 2^31 * 2^8 * 2^14 = 2^53.
_EXACT_COLUMNS = 1 << 14
_CHUNK = 1 << 18


class Taps(NamedTuple):
    """Of each tap (taps,): its tile, from the first one on; where its weight is in those of a
    lane; what the product counts."""

    tiles: Integers
    weights: Integers
    factors: Integers

    @classmethod
    def of(cls, i: Gemm | Depthwise, block: int) -> Taps:
        """A GEMM reads a single tile. block: lanes of the device's tiles."""
        if isinstance(i, Gemm):
            return cls(*np.zeros((3, 1), np.int64))  # it has weights for every lane
        r, c = np.divmod(np.arange(i.rows * i.columns), i.columns)
        first = window_rows(block) - i.rows
        tiles, weights = r * i.row_stride + c, WINDOW_PITCH * (first + r) + c
        if not i.wide:
            return cls(tiles, weights, np.ones_like(tiles))
        own = (tiles[-i.columns], WINDOW_PITCH * (first + i.rows) - 1)
        factors = np.append(np.ones_like(tiles), WIDE_FACTOR)
        return cls(np.append(tiles, own[0]), np.append(weights, own[1]), factors)

    def matrix(self, weights: NDArray[np.int8]) -> NDArray[np.float64]:
        """What takes the lanes of all taps (taps * block) to sums. weights: of a tile (block,
        block). Returns (block, taps * block), in which each lane meets its own."""
        own = weights[:, self.weights].astype(np.float64) * self.factors
        block = len(weights)
        return (own[:, :, None] * np.eye(block)[:, None, :]).reshape(block, -1)


def sums(
    dst: Integers, src: Integers, wgt: Integers, lanes: tuple[int, int]
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """lanes: batch and block of a tile. Yields tiles dst (n,), and the tiles of their terms: src
    (n, m), wgt (m,)."""
    order = np.argsort(dst, kind="stable")
    dst, src, wgt = dst[order], src[order], wgt[order]
    begins = np.flatnonzero(np.append(True, dst[1:] != dst[:-1]))
    sizes = np.diff(np.append(begins, len(dst)))
    batch, block = lanes
    most = max(_EXACT_COLUMNS // block, 1)
    for size in np.unique(sizes).tolist():
        rows = begins[sizes == size]
        for first in range(0, size, most):
            at = rows[:, None] + np.arange(first, min(first + most, size))
            shared, which = np.unique(wgt[at], axis=0, return_inverse=True)
            for k, tiles in enumerate(shared):
                chosen = at[which.reshape(-1) == k]
                step = max(_CHUNK // (len(tiles) * batch * block), 1)
                for begin in range(0, len(chosen), step):
                    part = chosen[begin : begin + step]
                    yield dst[part[:, 0]], src[part], tiles


def windows(
    dst: Integers, src: Integers, wgt: Integers, lanes: int
) -> Iterator[tuple[Integers, Integers, int]]:
    """lanes: that a step reads. Yields tiles dst (n,), all different, the first tiles of their
    windows (n,), and the weight tile."""
    order = np.argsort(dst, kind="stable")
    begins = np.flatnonzero(np.append(True, dst[order][1:] != dst[order][:-1]))
    sizes = np.diff(np.append(begins, len(dst)))
    turn = np.empty(len(dst), np.int64)  # how many steps before write the same tile
    turn[order] = np.arange(len(dst)) - np.repeat(begins, sizes)
    step = max(_CHUNK // lanes, 1)
    for key in np.unique(np.stack([turn, wgt]), axis=1).T:
        chosen = np.flatnonzero((turn == key[0]) & (wgt == key[1]))
        for begin in range(0, len(chosen), step):
            part = chosen[begin : begin + step]
            yield dst[part], src[part], int(key[1])
