# SPDX-License-Identifier: Apache-2.0
"""Integers that give a rule's outputs: what all searches share, and that of one multiplier.

In:   runs of channels (runs.py).
Out:  `Found`: per channel multipliers, the constant and the shift; `ConstantWindow`.
Next: digit_search.py looks for multipliers of digits; plan.py makes a block's plan of either.

The window of constants that multipliers leave is exact: from every run's first accumulator a lower
bound, from every last one an upper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.runs import IntArray, Runs

__all__ = [
    "FAR",
    "ConstantWindow",
    "Found",
    "digits_of",
    "needs_sign",
    "search_parts",
]

#: Slopes of lines are of so many bits, and these far from the nearest one are tried.
_LINE_BITS = 30
_LINES = (0, *(sign * distance for distance in (16, 48, 128, 400, 1200) for sign in (1, -1)))
#: Farther than any bound of a constant.
FAR = np.int64(1) << 60


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

    def take(self, channels: IntArray) -> Found:
        """Some of the channels: their numbers, (n,)."""
        return self._each(lambda array: array[..., channels])

    def updated(self, channels: IntArray, other: Found) -> Found:
        """With those of another search for some of the channels: their numbers, (n,)."""
        ok = self.ok.copy()
        ok[channels] = other.ok
        names = ("multipliers", "constant", "sign", "shift", "offset")
        changed = {}
        for name in names:
            changed[name] = getattr(self, name).copy()
            changed[name][..., channels] = getattr(other, name)
        return Found(ok, **changed)

    def _each(self, change: Callable[[IntArray], IntArray]) -> Found:
        ok = np.asarray(change(self.ok.astype(np.int64)), np.bool_)
        return Found(
            ok,
            change(self.multipliers),
            change(self.constant),
            change(self.sign),
            change(self.shift),
            change(self.offset),
        )


def digits_of(x: IntArray, count: int) -> list[IntArray]:
    """Signed base-256 digits of x, each of its shape, lowest first; the last takes the rest, held
    to a byte as the device does it with MIN and MAX."""
    digits = []
    for _ in range(count - 1):
        digits.append(((x + 128) & 255) - 128)
        x = (x + 128) >> 8
    # What np.clip does takes three times as long for a few values.
    return [*digits, np.minimum(np.maximum(x, -128), 127)]


@dataclass(frozen=True)
class ConstantWindow:
    """The constants that a candidate leaves: those in the middle, for acc < 0 and acc >= 0, and
    whether there are any."""

    open: NDArray[np.bool_]
    below: IntArray
    above: IntArray

    @classmethod
    def of(
        cls, runs: Runs, at_first: IntArray, at_last: IntArray, shift: IntArray, signed: bool
    ) -> ConstantWindow:
        """at_first, at_last: (C, R) sums of products at the ends of the runs."""
        least, most = runs.value - runs.tolerance, runs.value + runs.tolerance
        depth = shift[:, None]
        lower = np.where(least > runs.low, (least << depth) - at_first, -FAR)
        upper = np.where(most < runs.high, ((most + 1) << depth) - 1 - at_last, FAR)
        if not signed:
            return cls._middle(lower, upper)
        negative = runs.last < 0
        below = cls._middle(np.where(negative, lower, -FAR), np.where(negative, upper, FAR))
        above = cls._middle(np.where(negative, -FAR, lower), np.where(negative, FAR, upper))
        one_sided = [np.abs(side) >= FAR // 2 for side in (below.above, above.above)]
        return cls(
            below.open & above.open,
            np.where(one_sided[0], above.above, below.above),
            np.where(one_sided[1], below.above, above.above),
        )

    @classmethod
    def _middle(cls, lower: IntArray, upper: IntArray) -> ConstantWindow:
        least, most = lower.max(axis=1), upper.min(axis=1)
        middle = np.where(
            least <= -FAR // 2, most, np.where(most >= FAR // 2, least, (least + most) >> 1)
        )
        return cls(least <= most, middle, middle)


def needs_sign(runs: Runs) -> NDArray[np.bool_]:
    """(C,): whether some line is right at all ends of the runs of each sign, but none of both: so
    it is with TFLite's double rounding. Where even that is not (float32 products round before they
    are rounded), digits may still be."""
    live = ~runs.constant
    scale = np.where(live, runs.scale, 1.0)
    shift = np.clip(np.floor(_LINE_BITS - np.log2(scale)), 0, 46).astype(np.int64)
    nearest = np.round(scale * 2.0**shift).astype(np.int64)
    one, two = ~live, np.zeros(len(scale), np.bool_)
    for distance in _LINES:
        pending = np.flatnonzero(~one)
        if not pending.size:
            break
        slope = (nearest[pending] + distance)[:, None]
        subset = runs.take(pending)
        sums = subset.first * slope, subset.last * slope
        two[pending] |= ConstantWindow.of(subset, *sums, shift[pending], True).open
        one[pending] = ConstantWindow.of(subset, *sums, shift[pending], False).open
    return two & ~one


def search_parts(runs: Runs, limit: IntArray, shift_limit: int | IntArray) -> Found:
    """One multiplier for the whole accumulator: output = clamp((acc M + constant) >> shift). limit:
    (C,) the largest multiplier; shift_limit: the largest shift, of all or (C,)."""
    live = ~runs.constant
    scale = np.where(live, runs.scale, 1.0)
    exponent = np.clip(np.floor(np.log2(limit / scale)), 0, shift_limit).astype(np.int64)
    count = len(scale)
    ok = np.zeros(count, np.bool_)
    multiplier, constant, shift = np.zeros((3, count), np.int64)
    for finer in (0, 1, 2):
        for distance in (0, 1, -1, 2, -2):
            pending = np.flatnonzero(~ok & live)
            if not pending.size:
                break
            own = np.maximum(exponent[pending] - finer, 0)
            value = np.round(scale[pending] * 2.0**own).astype(np.int64) + distance
            subset = runs.take(pending)
            window = ConstantWindow.of(
                subset, subset.first * value[:, None], subset.last * value[:, None], own, False
            )
            good = window.open & (value > 0) & (value <= limit[pending])
            chosen = pending[good]
            ok[chosen] = True
            multiplier[chosen], constant[chosen], shift[chosen] = (
                value[good],
                window.above[good],
                own[good],
            )
    return Found(ok, multiplier[None], constant, 0 * constant, shift, 0 * constant)
