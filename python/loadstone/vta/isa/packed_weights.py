# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits as LOAD of memory WGT_4BIT reads them.

In:   of each group a multiplier and a minimum for each output, and a number of 4 bits a weight.
Out:  the bytes of groups in DRAM, and the weight tiles that they become.
Next: meaning/reference.py executes it; region/pack_weights.py looks for weights that are such.

    tile[t][o][k] = low 8 bits of  minima[o] + (numbers[t][o][k] * multipliers[o] + 4 >> 3)

A group is 32 weights along K of the outputs of a block: with blocks of 16 two tiles, with blocks of
8 four. It has 4.5 bits a weight; three bits of the product are a fraction, because a multiplier
without one moves the numbers of a language model too far.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.values import GROUP_WEIGHTS

__all__ = ["GROUPS", "expanded", "group_bytes", "group_tiles", "packed", "parts", "weights_of"]

#: What the instruction set says of them.
GROUPS = (
    "WGT_4BIT has no pads, not even in a no-op. It fills WGT with groups of weights of 4 bits: "
    "x_size and x_stride count groups, sram_base counts tiles of WGT, and dram_base counts "
    f"2*BLOCK bytes. A group is {GROUP_WEIGHTS} weights along K of BLOCK outputs, and fills "
    f"{GROUP_WEIGHTS}/BLOCK tiles. In DRAM it has {2 + GROUP_WEIGHTS // 2}*BLOCK bytes: BLOCK "
    "multipliers m (8 bits), BLOCK minima z (int8), then a number q of 4 bits for each weight in "
    "the order of the tiles, the first in the low half of a byte. A weight is the low 8 bits of "
    "z + (q*m + 4 >> 3)."
)

Bytes: TypeAlias = NDArray[np.uint8]
Weights: TypeAlias = NDArray[np.int8]


def group_tiles(block: int) -> int:
    """Weight tiles that a group fills; 1 for blocks that no group fits."""
    return max(1, GROUP_WEIGHTS // block)


def group_bytes(block: int) -> int:
    """Bytes of a group in DRAM: a multiplier and a minimum for each output, and half a byte for
    each weight."""
    return (2 + GROUP_WEIGHTS // 2) * block


def weights_of(numbers: Bytes, multipliers: Bytes, minima: Weights) -> Weights:
    """int8 of numbers (..., n), 0 to 15, with multipliers and minima (...,) of each n."""
    product = numbers.astype(np.int32) * multipliers[..., None].astype(np.int32)
    return (minima[..., None].astype(np.int32) + (product + 4 >> 3)).astype(np.int8)


def packed(numbers: Bytes, multipliers: Bytes, minima: Weights) -> Bytes:
    """The bytes of groups: uint8 (groups, 18 * block). numbers (groups, tiles, block, block), 0 to
    15; multipliers, minima (groups, block)."""
    flat = numbers.reshape(len(numbers), -1)
    halves = flat[:, ::2] | flat[:, 1::2] << 4
    return np.concatenate([multipliers, minima.view(np.uint8), halves], axis=1)


def parts(groups: Bytes, block: int) -> tuple[Bytes, Bytes, Weights]:
    """What `packed` was given. groups: bytes; numbers (groups, tiles, block, block),
    multipliers and minima (groups, block)."""
    multipliers, minima, halves = np.split(
        groups.reshape(-1, group_bytes(block)), [block, 2 * block], 1
    )
    numbers = np.stack([halves & 15, halves >> 4], -1)
    return numbers.reshape(len(halves), -1, block, block), multipliers, minima.view(np.int8)


def expanded(groups: Bytes, block: int) -> Weights:
    """The weight tiles of groups (any shape of whole groups): int8 (tiles, block, block)."""
    numbers, multipliers, minima = parts(groups, block)
    tiles = weights_of(numbers, multipliers[:, None], np.ascontiguousarray(minima)[:, None])
    return tiles.reshape(-1, block, block)
