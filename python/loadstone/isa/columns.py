# SPDX-License-Identifier: Apache-2.0
"""Fields of many instructions at once: columns of values <-> words of 64 bits.

In:   words, one array for each 64 bits of an instruction; the bit where a field begins, its width.
Out:  a column of values; words with the values in them; which bits belong to no field.
Next: codec.py does it for a table, VTA's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Column", "Words", "put", "reserved_bits", "take", "words_of"]

#: Bits 64 k to 64 k + 63 of each instruction: (instructions,).
Words: TypeAlias = NDArray[np.uint64]
#: The values of one field: (instructions,).
Column: TypeAlias = NDArray[np.int64]

_WORD = 64


def words_of(rows: NDArray[np.uint8]) -> list[Words]:
    """The words of instructions of one length: rows (instructions, bytes)."""
    count, size = rows.shape
    whole = -(-size // 8) * 8
    if whole != size:
        rows = np.concatenate([rows, np.zeros((count, whole - size), np.uint8)], axis=1)
    words = np.ascontiguousarray(rows).view("<u8")
    return [words[:, k] for k in range(whole // 8)]


def take(words: Sequence[Words], start: int, width: int, *, signed: bool = False) -> Column:
    """A field's values: (instructions,), int64. Of 64 bits without a sign the large ones are
    negative."""
    word, shift = divmod(start, _WORD)
    bits = words[word] >> np.uint64(shift)
    if shift + width > _WORD:
        bits |= words[word + 1] << np.uint64(_WORD - shift)
    bits &= np.uint64((1 << width) - 1)
    values = bits.view(np.int64)
    if signed and width < _WORD:
        values -= (values >> (width - 1)) << width
    return values


def put(
    words: Sequence[Words], start: int, width: int, values: Column, *, fits: bool = False
) -> None:
    """Puts a field's values into words whose bits there are 0. What does not fit is cut off; fits:
    nothing is, all are known to be in [0, 2^width).

    values: (instructions,), int64, or uint64.
    """
    word, shift = divmod(start, _WORD)
    bits = values.view(np.uint64)
    if not fits:
        bits = bits & np.uint64((1 << width) - 1)
    into = words[word]
    into |= bits << np.uint64(shift)
    if shift + width > _WORD:
        above = words[word + 1]
        above |= bits >> np.uint64(_WORD - shift)


def reserved_bits(fields: Iterable[tuple[int, int]], size_bytes: int) -> list[int]:
    """By word, the bits that no field has. fields: (start, width) of each, the opcode's too."""
    left = (1 << _WORD * -(-size_bytes // 8)) - 1
    for start, width in fields:
        left &= ~(((1 << width) - 1) << start)
    return [left >> at & (1 << _WORD) - 1 for at in range(0, 8 * size_bytes, _WORD)]
