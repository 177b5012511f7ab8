# SPDX-License-Identifier: Apache-2.0
"""Weights as bit planes, a code without loss, as LOAD of memory WGT_PLANES reads them.

In:   weight tiles, int8; or the words of their code.
Out:  the words, and where each tile's begin; or the weights again.
Next: meaning/reference.py executes it; region/pack_weights.py takes it where it is shorter.

Sixteen weights side by side of a tile have as many bit planes as the largest of them needs, four at
least: then no word of the bus holds planes of more than two such rows, and a decoder that takes a
word a cycle completes one row in it. What a network trained has few large weights in few rows; a
code of single weights (Huffman) is 5 % shorter, and its decoder many times as large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.values import LEAST_PLANES, PLANE_WEIGHTS, PLANE_WORD_BYTES

__all__ = ["PLANES", "PackedConstants", "coded", "decoded_rows", "rows_of_tile"]

#: What the instruction set says of them.
PLANES = (
    f"WGT_PLANES reads one row of x_size words of {PLANE_WORD_BYTES} bytes, which are the code of "
    "y_size tiles of WGT; dram_base counts such words, and x_stride and the pads are 0. A group of "
    f"{PLANE_WEIGHTS**2} weights, {PLANE_WEIGHTS} rows of {PLANE_WEIGHTS} that stand side by side "
    "in a tile, is a word of 4 bits n for each row, the first row's lowest, then the rows' bit "
    f"planes: {LEAST_PLANES} + min(n mod 8, 4) for each row, the highest first, which is the sign. "
    f"A plane has {PLANE_WEIGHTS} bits, the first weight's lowest; a word holds four, the first "
    "lowest. The next group begins with a word. Rows behind the last tile are read and not "
    "written; where the code has fewer, the other weights stay as they are."
)

Bytes: TypeAlias = NDArray[np.uint8]
Weights: TypeAlias = NDArray[np.int8]

#: Constants of weights that do not stand in DRAM as tiles: as groups of 4 bits (None); or as bit
#: planes, and then (tiles + 1,), the word where each tile's code begins, and the end.
PackedConstants: TypeAlias = Mapping[str, NDArray[np.int64] | None]

_PLANES = 8
_WORD_PLANES = PLANE_WORD_BYTES // 2
_HEAD = np.arange(PLANE_WEIGHTS, dtype=np.uint64) * np.uint64(4)


def rows_of_tile(block: int) -> int:
    """Rows of weights that share their number of planes, in a tile of block x block."""
    return block * block // PLANE_WEIGHTS


def coded(tiles: Weights) -> tuple[Bytes, NDArray[np.int64]]:
    """uint8 (words, 8), and (tiles + 1,) the word where each tile's code begins, the last one's
    end. tiles: (tiles, block, block), block 16 or 32."""
    rows = tiles.reshape(-1, PLANE_WEIGHTS)
    most = np.maximum(rows.max(1), ~rows.min(1)).astype(np.int64)
    more = np.maximum(np.ceil(np.log2(most + 1)).astype(np.int64) + 1 - LEAST_PLANES, 0)
    heads = (more.reshape(-1, PLANE_WEIGHTS).astype(np.uint64) << _HEAD).sum(1, dtype=np.uint64)
    planes = (LEAST_PLANES + more).reshape(-1, PLANE_WEIGHTS)
    words = 1 + -(-planes.sum(1) // _WORD_PLANES)
    first = np.concatenate([[0], np.cumsum(words)])
    made = np.zeros(int(first[-1]) * _WORD_PLANES, np.uint16)
    each = rows_of_tile(tiles.shape[-1]) // PLANE_WEIGHTS
    # Where each plane stands: behind the head, those of the rows before, and the higher ones.
    begins = (first[:-1, None] + 1) * _WORD_PLANES + np.cumsum(planes, 1) - planes
    level = np.arange(_PLANES)
    own = level < planes.reshape(-1, 1)
    bit = planes.reshape(-1, 1) - 1 - level
    bits = rows[:, None, :].astype(np.int64) >> np.maximum(bit, 0)[..., None] & 1
    values = (bits << np.arange(PLANE_WEIGHTS)).sum(2).astype(np.uint16)
    made[(begins.reshape(-1, 1) + level)[own]] = values[own]
    made.view("<u8")[first[:-1]] = heads
    return made.view(np.uint8).reshape(-1, PLANE_WORD_BYTES), first[::each]


def decoded_rows(words: Bytes, rows: int) -> Weights:
    """The rows that a code holds, `rows` at most: int8 (found, 16). words: uint8 (words, 8), any
    bytes."""
    numbers = np.ascontiguousarray(words).view("<u8").reshape(-1)
    planes = np.ascontiguousarray(words).view("<u2").reshape(-1)
    more = (numbers[:, None] >> _HEAD & np.uint64(7)).astype(np.int64)
    each = LEAST_PLANES + np.minimum(more, _PLANES - LEAST_PLANES)  # were every word a head
    steps = (1 - -each.sum(1) // _WORD_PLANES).tolist()
    heads, at = list[int](), 0
    while at < len(numbers) and len(heads) * PLANE_WEIGHTS < rows:
        heads.append(at)
        at += steps[at]
    counts = each[heads]
    ends = (np.array(heads, np.int64)[:, None] + 1) * _WORD_PLANES + np.cumsum(counts, 1)
    found = min(rows, int(np.count_nonzero(ends <= len(planes))))
    counts, ends = counts.reshape(-1, 1)[:found], ends.reshape(-1, 1)[:found]
    level = np.arange(_PLANES)  # of a plane's bits
    held = planes[np.maximum(ends - 1 - level, 0)].astype(np.int64)
    weighs = np.where(level < counts - 1, 1 << level, np.where(level < counts, -1 << level, 0))
    bits = held[:, :, None] >> np.arange(PLANE_WEIGHTS) & 1
    weights: Weights = (bits * weighs[:, :, None]).sum(1).astype(np.int8)
    return weights
