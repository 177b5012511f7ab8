# SPDX-License-Identifier: Apache-2.0
"""Integers that give a rule's outputs: a search, whose results proof.py judges.

In:   runs of channels (runs.py).
Out:  `Found`: per channel the multipliers of the digits, the constant and the shift.
Next: plan.py makes a block's plan of them.

    x = (acc + offset) << left = d0 + 256 d1 (+ 65536 d2)        digits in [-128, 127]
    output = clamp((d0 M0 + d1 M1 (+ d2 M2) + constant) >> shift)

M1 near 256 M0 and M2 near 256 M1, but not equal: M0 has 15 bits, and what it lacks in precision the
others have. All candidates near the real scale are tried on all channels that still lack one, the
nearest first. The window of constants that a candidate leaves is exact: from every run's first
accumulator a lower bound, from every last one an upper.

With a sign digit, -1 where the accumulator is negative, both signs have a constant of their own:
TFLite's double rounding moves its grid by one between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.runs import IntArray, Runs

__all__ = [
    "LARGEST_LOWEST",
    "DigitForm",
    "Found",
    "digits_of",
    "needs_sign",
    "search_digits",
    "search_parts",
]

#: The largest lowest multiplier: two signed digits.
LARGEST_LOWEST = 127 * 256 + 127
#: Slopes of lines are of so many bits, and these far from the nearest one are tried.
_LINE_BITS = 30
_LINES = (0, *(sign * distance for distance in (16, 48, 128, 400, 1200) for sign in (1, -1)))
#: Farther than any bound of a constant.
_FAR = np.int64(1) << 60
#: Distances of M2 with a sign digit: so far the line may lie from the real scale where the first
#: and the last breakpoints of one sign leave it most room, parts of a million.
_TILTS = sorted((sign * far for far in range(120, 1201, 120) for sign in (1, -1)), key=abs)
#: Distances of M1 that are tried where M2 is coarse.
_COARSE = 9
#: A shift of all levels but the last, and a last one by a tile.
_LAST_SHIFT = 15


@dataclass(frozen=True)
class DigitForm:
    """count: digits without the sign digit. signed: with it. left: shift of x before it is split,
    per channel. shift: the last one, per channel; None: what leaves most bits, or a few less."""

    count: int
    signed: bool
    left: IntArray
    shift: IntArray | None = None


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
    return [*digits, np.clip(x, -128, 127)]


def search_digits(runs: Runs, form: DigitForm) -> Found:
    """Every channel of `runs` on its own; a channel with one output is never ok."""
    search = _DigitSearch(runs, form)
    for candidate in _candidates(form):
        if form.shift is not None and (candidate.finer or candidate.far):
            continue
        if not search.wanted():
            break
        search.attempt(candidate)
    return search.found()


@dataclass(frozen=True)
class _Candidate:
    """Distances from the nearest: of the offset, the shift, and each multiplier. other: take the
    second nearest M0. coarse: M2 has no product at the lowest level, where the top digit stands in
    the accumulator as it is."""

    offset: int
    finer: int
    other: bool
    second: int
    third: int
    far: bool
    coarse: bool = False


def _coarse(form: DigitForm, offsets: Sequence[int]) -> Iterator[_Candidate]:
    """Of three digits with a shift of their own."""
    if form.count == 3 and form.shift is not None:
        for offset, other, second in product(offsets, (False, True), range(-_COARSE, _COARSE + 1)):
            yield _Candidate(offset, 0, other, second, 0, far=False, coarse=True)


def _candidates(form: DigitForm) -> Iterator[_Candidate]:
    """Nearest first."""
    near = [(0, 0)]
    seconds, thirds = range(-3, 4), range(-6, 7, 3) if form.count == 3 else range(1)
    near += sorted(
        ((a, b) for a in seconds for b in thirds if (a, b) != (0, 0)),
        key=lambda pair: abs(pair[0]) * 2 + abs(pair[1]),
    )
    offsets = (0,) if form.signed else (0, 1, -1, 2, -2)
    yield from _coarse(form, offsets)
    ring = 9  # of the nearest multipliers, every offset is tried before the others
    near_ring = near[:ring]
    for part, apart, bits in (
        (near_ring, offsets, 2),
        (near[ring:], offsets, 2),
        (near_ring, () if form.signed else range(-126, 127, 36), 3),
    ):
        for offset in apart:
            for finer in range(bits):
                for other in (False, True):
                    for second, third in part:
                        far = part is not near_ring or bits > 2
                        yield _Candidate(offset, finer, other, second, third, far)
    yield from _tilted(form)


def _tilted(form: DigitForm) -> Iterator[_Candidate]:
    """Lines that lie off the real scale; in most forms they gain nothing."""
    if form.count == 3 and form.signed:
        for third, finer, other, second in product(_TILTS, range(2), (False, True), range(-3, 4)):
            yield _Candidate(0, finer, other, second, third, far=True)


class _DigitSearch:
    """What is known so far of each channel."""

    def __init__(self, runs: Runs, form: DigitForm) -> None:
        self.runs, self.form = runs, form
        count = len(runs.scale)
        self.ok = np.zeros(count, np.bool_)
        self.dead = runs.constant
        self.multipliers = np.zeros((form.count, count), np.int64)
        self.constant, self.sign, self.shift, self.offset = np.zeros((4, count), np.int64)
        self.scale = runs.scale / 2.0**form.left
        largest = 8 * form.count + _LAST_SHIFT
        with np.errstate(divide="ignore"):
            exponent = np.floor(np.log2(LARGEST_LOWEST / np.where(self.dead, 1.0, self.scale)))
        self.exponent = np.clip(exponent, 0, largest).astype(np.int64)
        if form.shift is not None:
            self.exponent = form.shift
        self.centre = self._offsets()
        low, high = self._bounds()
        room = self._most() - self._least()
        self.hopeful = ~self.dead & ((high - low) << form.left <= room)
        self.cached: tuple[tuple[object, ...], IntArray, list[IntArray], list[IntArray]] | None
        self.cached = None

    def wanted(self) -> bool:
        """Whether some block still lacks some of its lanes and may get all of them."""
        return bool(np.any(~self.ok & self.hopeful))

    def found(self) -> Found:
        return Found(self.ok, self.multipliers, self.constant, self.sign, self.shift, self.offset)

    def _offsets(self) -> IntArray:
        """Offsets that put the output 0 at x = 0; where x would then not fit the digits, the middle
        of what changes the output."""
        runs, form = self.runs, self.form
        if form.signed:  # the top digit is negative where the accumulator is
            return np.asarray(-((128 * (256 ** (form.count - 1) - 1) // 255) >> form.left))
        with np.errstate(divide="ignore", over="ignore"):
            zero = np.round((runs.zero_point + 0.5) / np.where(self.dead, 1.0, runs.scale))
        zero_at: IntArray = np.clip(zero, -(2.0**40), 2.0**40).astype(np.int64)
        low, high = self._bounds()
        centre = (
            -((runs.first[:, 1:2].min(axis=1) + runs.first[:, -1]) >> 1)
            if (runs.first.shape[1] > 1)
            else 0 * zero_at
        )
        fits = ((low + zero_at) << form.left >= self._least()) & (
            (high + zero_at) << form.left <= self._most()
        )
        return np.where(fits, zero_at, centre)

    def _bounds(self) -> tuple[IntArray, IntArray]:
        """The accumulators between which digits must not be clamped."""
        runs = self.runs
        saturated_low = runs.value[:, 0] == runs.low
        saturated_high = runs.value[:, -1] == runs.high
        first_of_last = np.where(runs.value == runs.value[:, -1:], runs.first, _FAR).min(axis=1)
        last_of_first = np.where(runs.value == runs.value[:, :1], runs.last, -_FAR).max(axis=1)
        low = np.where(saturated_low, last_of_first, runs.first[:, 0])
        high = np.where(saturated_high, first_of_last, runs.last[:, -1])
        return low, high

    def _least(self) -> int:
        """x of the lowest top digit with the greatest of the others."""
        lower = 127 * ((256 ** (self.form.count - 1) - 1) // 255)
        return int(-128 * 256 ** (self.form.count - 1) + lower)

    def _most(self) -> int:
        lower = 128 * ((256 ** (self.form.count - 1) - 1) // 255)
        return int(127 * 256 ** (self.form.count - 1) - lower)

    def attempt(self, candidate: _Candidate) -> None:
        """One candidate for every channel that has none yet."""
        pending, first, last = self._split(candidate.offset)
        if not pending.size:
            return
        shift = self.exponent[pending] - candidate.finer
        real = self.scale[pending] * 2.0**shift
        lowest = np.floor(real + 0.5).astype(np.int64)
        if candidate.other:
            lowest = np.where(real >= lowest, lowest + 1, lowest - 1)
        multipliers = [np.clip(lowest, 1, LARGEST_LOWEST)]
        multipliers.append(np.round(real * 256).astype(np.int64) + candidate.second)
        if self.form.count == 3:
            step = 256 if candidate.coarse else 1
            third = np.round((real * 65536 - 1) / step).astype(np.int64) * step + 1
            multipliers.append(third + candidate.third)
        monotone = (shift >= 0) & (multipliers[1] >= 255 * multipliers[0])
        if self.form.count == 3:
            monotone &= multipliers[2] >= 255 * (multipliers[1] + multipliers[0])
        sums = [
            sum(m[:, None] * d for m, d in zip(multipliers, digits, strict=True))
            for digits in (first, last)
        ]
        window = _Window.of(self.runs.take(pending), sums[0], sums[1], shift, self.form.signed)
        good = monotone & window.open
        chosen = pending[good]
        self.ok[chosen] = True
        for row, multiplier in zip(self.multipliers, multipliers, strict=True):
            row[chosen] = multiplier[good]
        self.constant[chosen] = window.above[good]
        self.sign[chosen] = (window.above - window.below)[good]
        self.shift[chosen] = shift[good]
        self.offset[chosen] = (self.centre + candidate.offset)[chosen]

    def _split(self, offset: int) -> tuple[IntArray, list[IntArray], list[IntArray]]:
        """The channels that are left and fit, and the digits of their runs' ends."""
        key = (offset, int(self.ok.sum()))
        if self.cached is not None and self.cached[0] == key:
            return self.cached[1:]
        low, high = self._bounds()
        x0, left = self.centre + offset, self.form.left
        fits = ((low + x0) << left >= self._least()) & ((high + x0) << left <= self._most())
        pending = np.flatnonzero(~self.ok & self.hopeful & fits)
        runs = self.runs
        sides = [
            digits_of((side[pending] + x0[pending, None]) << left[pending, None], self.form.count)
            for side in (runs.first, runs.last)
        ]
        self.cached = (key, pending, sides[0], sides[1])
        return pending, sides[0], sides[1]


@dataclass(frozen=True)
class _Window:
    """The constants that a candidate leaves: those in the middle, for acc < 0 and acc >= 0, and
    whether there are any."""

    open: NDArray[np.bool_]
    below: IntArray
    above: IntArray

    @classmethod
    def of(
        cls, runs: Runs, at_first: IntArray, at_last: IntArray, shift: IntArray, signed: bool
    ) -> _Window:
        """at_first, at_last: (C, R) sums of products at the ends of the runs."""
        base = runs.value << shift[:, None]
        step = (np.int64(1) << shift)[:, None]
        lower = np.where(runs.value > runs.low, base - at_first, -_FAR)
        upper = np.where(runs.value < runs.high, base + step - 1 - at_last, _FAR)
        if not signed:
            return cls._middle(lower, upper)
        negative = runs.last < 0
        below = cls._middle(np.where(negative, lower, -_FAR), np.where(negative, upper, _FAR))
        above = cls._middle(np.where(negative, -_FAR, lower), np.where(negative, _FAR, upper))
        one_sided = [np.abs(side) >= _FAR // 2 for side in (below.above, above.above)]
        return cls(
            below.open & above.open,
            np.where(one_sided[0], above.above, below.above),
            np.where(one_sided[1], below.above, above.above),
        )

    @classmethod
    def _middle(cls, lower: IntArray, upper: IntArray) -> _Window:
        least, most = lower.max(axis=1), upper.min(axis=1)
        middle = np.where(
            least <= -_FAR // 2, most, np.where(most >= _FAR // 2, least, (least + most) >> 1)
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
        two[pending] |= _Window.of(subset, *sums, shift[pending], True).open
        one[pending] = _Window.of(subset, *sums, shift[pending], False).open
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
            window = _Window.of(
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
