# SPDX-License-Identifier: Apache-2.0
"""Integers that give a rule's outputs: what all searches share, and that of one multiplier.

In:   runs of channels (runs.py).
Out:  `Found`: per channel multipliers, the constant and the shift.
Next: digit_search.py looks for multipliers of digits; plan.py makes a block's plan of either.

The window of constants that multipliers leave is exact: from every run's first accumulator a lower
bound, from every last one an upper (native/channel_runs.h).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.native_runs import NativeRuns
from loadstone.vta.integers.runs import IntArray, Runs

__all__ = ["Found", "needs_sign", "search_parts"]

#: Slopes of lines are of so many bits, and these far from the nearest one are tried.
_LINE_BITS = 30
_LINES = np.array([0, *(sign * far for far in (16, 48, 128, 400, 1200) for sign in (1, -1))])


@dataclass(frozen=True)
class Found:
    """Per channel: ok, multipliers (digits, C), constant where acc >= 0, what the sign digit (-1)
    multiplies, shift, offset."""

    ok: NDArray[np.bool_]
    multipliers: IntArray
    constant: IntArray
    sign: IntArray
    shift: IntArray
    offset: IntArray

    @classmethod
    def of(cls, rows: IntArray, count: int) -> Found:
        """rows: (C, 8) of lds_rescale_found. count: of multipliers."""
        columns = np.ascontiguousarray(rows.T)
        return cls(columns[0] != 0, columns[1 : 1 + count], *columns[4:])

    def take(self, channels: IntArray | slice) -> Found:
        """Some of the channels: their numbers, (n,)."""
        return Found(**{name: side[..., channels] for name, side in vars(self).items()})

    def updated(self, channels: IntArray, other: Found) -> Found:
        """With those of another search for some of the channels: their numbers, (n,)."""
        changed = {name: side.copy() for name, side in vars(self).items()}
        for name, side in vars(other).items():
            changed[name][..., channels] = side
        return Found(**changed)


def needs_sign(runs: Runs, channels: IntArray | None = None) -> NDArray[np.bool_]:
    """Of some channels, all where None: whether some line is right at all ends of the runs of each
    sign, but none of both: so it is with TFLite's double rounding. Where even that is not (float32
    products round before they are rounded), digits may still be. channels: (channels,) numbers."""
    channels = np.arange(len(runs.scale)) if channels is None else channels
    scale = np.where(runs.constant[channels], 1.0, runs.scale[channels])
    shift = np.clip(np.floor(_LINE_BITS - np.log2(scale)), 0, 46).astype(np.int64)
    nearest = np.round(scale * 2.0**shift).astype(np.int64)
    return NativeRuns(runs, channels).needs_sign(nearest, shift, _LINES)


def search_parts(
    runs: Runs, limit: IntArray, shift_limit: int | IntArray, channels: IntArray | None = None
) -> Found:
    """One multiplier for the whole accumulator: output = clamp((acc M + constant) >> shift), of
    some channels (n,), all where None. limit: (n,) the largest multiplier; shift_limit: the largest
    shift, of all or (n,)."""
    channels = np.arange(len(runs.scale)) if channels is None else channels
    scale = np.where(runs.constant[channels], 1.0, runs.scale[channels])
    shift = np.clip(np.floor(np.log2(limit / scale)), 0, shift_limit).astype(np.int64)
    return Found.of(NativeRuns(runs, channels).parts(shift, limit), 1)
