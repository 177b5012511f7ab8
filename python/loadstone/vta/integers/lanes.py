# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels whose lanes stand side by side, so that one call of NumPy is for all of them.

In:   numbers of blocks; arrays with a value for each lane.
Out:  `Lanes`: a value for each block from those of its lanes, or for each lane from its block's.
Next: block_plan.py, joined.py and plan.py do with many blocks at once what each could do alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array
from loadstone.vta.integers.runs import IntArray

__all__ = ["Lanes"]


@dataclass(frozen=True, eq=False)
class Lanes:
    """numbers: of the blocks. channels: (lanes,) number of each lane's. ends: (blocks + 1,) the
    first lane of each block, and the end."""

    numbers: Sequence[int]
    channels: IntArray
    ends: IntArray

    @classmethod
    def of(cls, numbers: Sequence[int], block: int, count: int) -> Lanes:
        """Blocks of so many channels, of `count` in all."""
        first = np.array(numbers, np.int64) * block
        return cls(numbers, *_ranges(first, np.minimum(first + block, count) - first))

    @cached_property
    def starts(self) -> IntArray:
        """(blocks,)."""
        return self.ends[:-1]

    @cached_property
    def lengths(self) -> IntArray:
        """(blocks,): how many lanes each has."""
        return self.ends[1:] - self.starts

    def some(self, places: Sequence[int] | IntArray) -> tuple[Lanes, IntArray | slice]:
        """The blocks in some places, ascending; and (lanes,) which of the lanes are theirs."""
        if len(places) == len(self.numbers):
            return self, slice(None)
        numbers = [self.numbers[place] for place in places]
        own, ends = _ranges(self.starts[places], self.lengths[places])
        return Lanes(numbers, self.channels[own], ends), own

    def any(self, flags: Array) -> NDArray[np.bool_]:
        """(..., blocks): whether a lane of the block has it. flags: (..., lanes)."""
        return np.logical_or.reduceat(flags, self.starts, axis=-1)

    def least(self, values: Array) -> Array:
        """(blocks,): of the lanes."""
        return np.minimum.reduceat(values, self.starts)

    def most(self, values: Array) -> Array:
        """(blocks,): of the lanes."""
        return np.maximum.reduceat(values, self.starts)

    def each(self, values: Array) -> Array:
        """(lanes,): that of its block. values: (blocks,)."""
        return np.repeat(values, self.lengths)


def _ranges(first: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """(n,) the numbers of all ranges; (ranges + 1,) where each begins among them, and the end."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return np.repeat(first - ends[:-1], lengths) + np.arange(ends[-1]), ends
