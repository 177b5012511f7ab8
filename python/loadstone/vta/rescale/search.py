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

from loadstone.vta.rescale.ends import TightEnds
from loadstone.vta.rescale.runs import IntArray, Runs

__all__ = [
    "FAR",
    "ConstantWindow",
    "Found",
    "Trial",
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
    def between(cls, least: IntArray, most: IntArray, *, signed: bool) -> ConstantWindow:
        """least, most: (C, 2) bounds of the constant below zero and from zero on; FAR where none
        is. signed: each has its own."""
        if not signed:
            return cls._middle(least.max(axis=1), most.min(axis=1))
        below, above = (cls._middle(least[:, sign], most[:, sign]) for sign in (0, 1))
        one_sided = [np.abs(side) >= FAR // 2 for side in (below.above, above.above)]
        return cls(
            below.open & above.open,
            np.where(one_sided[0], above.above, below.above),
            np.where(one_sided[1], below.above, above.above),
        )

    @classmethod
    def _middle(cls, least: IntArray, most: IntArray) -> ConstantWindow:
        middle = np.where(
            least <= -FAR // 2, most, np.where(most >= FAR // 2, least, (least + most) >> 1)
        )
        return cls(least <= most, middle, middle)


@dataclass(frozen=True)
class Trial:
    """One candidate for each of some channels.

    channels: their numbers, (n,). sums: from positions in these, (m,), and accumulators of each,
    (m, ends), to sums of products. shift: (n,). far: (n,) by how much a sum may lie off the real
    line.
    """

    channels: IntArray
    sums: Callable[[IntArray, IntArray], IntArray]
    shift: IntArray
    far: NDArray[np.float64]

    def window(self, runs: Runs, *, signed: bool) -> ConstantWindow:
        """The constants that are right at all ends: most candidates show at the tightest ones that
        there are none, or that no other end matters."""
        ends = runs.tight.take(self.channels)
        least, most = self._tight_bounds(ends)
        window = ConstantWindow.between(least, most, signed=signed)
        decided = ends.decide(self.far * 2.0**-self.shift, signed=signed)
        unsure = np.flatnonzero(window.open & ~decided)
        if not unsure.size:
            return window
        least[unsure], most[unsure] = self._bounds(runs, unsure)
        return ConstantWindow.between(least, most, signed=signed)

    def _tight_bounds(self, ends: TightEnds) -> tuple[IntArray, IntArray]:
        rows = np.arange(len(self.channels))
        depth = self.shift[:, None, None]
        first, last = (
            (side.level << depth) - self.sums(rows, side.flat).reshape(side.acc.shape)
            for side in (ends.first, ends.last)
        )
        least = np.where(ends.first.there, first, -FAR).max(axis=2)
        return least, np.where(ends.last.there, last - 1, FAR).min(axis=2)

    def _bounds(self, runs: Runs, rows: IntArray) -> tuple[IntArray, IntArray]:
        """At all ends, of some channels."""
        runs, depth = runs.take(self.channels[rows]), self.shift[rows, None]
        least, most = runs.value - runs.tolerance, runs.value + runs.tolerance
        lower = (least << depth) - self.sums(rows, runs.first)
        lower = np.where(least > runs.low, lower, -FAR)
        upper = ((most + 1) << depth) - 1 - self.sums(rows, runs.last)
        upper = np.where(most < runs.high, upper, FAR)
        signs = runs.last < 0, runs.last >= 0
        return (
            np.stack([np.where(own, lower, -FAR).max(axis=1) for own in signs], axis=1),
            np.stack([np.where(own, upper, FAR).min(axis=1) for own in signs], axis=1),
        )


def _line(runs: Runs, channels: IntArray, slope: IntArray, shift: IntArray) -> Trial:
    """One multiplier for the whole accumulator."""
    low, high = (side[channels] for side in runs.changing)
    apart = np.abs(slope - runs.scale[channels] * 2.0**shift)
    return Trial(
        channels,
        lambda rows, acc: acc * slope[rows, None],
        shift,
        apart * np.maximum(np.abs(low), np.abs(high)),
    )


def needs_sign(runs: Runs, channels: IntArray | None = None) -> NDArray[np.bool_]:
    """Of some channels, all where None: whether some line is right at all ends of the runs of each
    sign, but none of both: so it is with TFLite's double rounding. Where even that is not (float32
    products round before they are rounded), digits may still be. channels: (channels,) numbers."""
    channels = np.arange(len(runs.scale)) if channels is None else channels
    live = ~runs.constant[channels]
    scale = np.where(live, runs.scale[channels], 1.0)
    shift = np.clip(np.floor(_LINE_BITS - np.log2(scale)), 0, 46).astype(np.int64)
    nearest = np.round(scale * 2.0**shift).astype(np.int64)
    one, two = ~live, np.zeros(len(scale), np.bool_)
    farthest = _line(runs, channels, nearest + max(_LINES) + 1, shift).far * 2.0**-shift
    refused = runs.tight.take(channels).refuse(farthest)

    def open_at(pending: IntArray, distance: int, *, signed: bool) -> NDArray[np.bool_]:
        slope = nearest[pending] + distance
        trial = _line(runs, channels[pending], slope, shift[pending])
        return trial.window(runs, signed=signed).open

    for distance in _LINES:
        if (pending := np.flatnonzero(~(one | refused))).size:
            one[pending] = open_at(pending, distance, signed=False)
        if (pending := np.flatnonzero(~(one | two))).size:
            two[pending] = open_at(pending, distance, signed=True)
    return two & ~one


def search_parts(
    runs: Runs, limit: IntArray, shift_limit: int | IntArray, channels: IntArray | None = None
) -> Found:
    """One multiplier for the whole accumulator: output = clamp((acc M + constant) >> shift), of
    some channels (n,), all where None. limit: (n,) the largest multiplier; shift_limit: the largest
    shift, of all or (n,)."""
    channels = np.arange(len(runs.scale)) if channels is None else channels
    live = ~runs.constant[channels]
    scale = np.where(live, runs.scale[channels], 1.0)
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
            window = _line(runs, channels[pending], value, own).window(runs, signed=False)
            good = window.open & (value > 0) & (value <= limit[pending])
            chosen = pending[good]
            ok[chosen] = True
            multiplier[chosen], constant[chosen], shift[chosen] = (
                value[good],
                window.above[good],
                own[good],
            )
    return Found(ok, multiplier[None], constant, 0 * constant, shift, 0 * constant)
