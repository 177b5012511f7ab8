# SPDX-License-Identifier: Apache-2.0
"""Multipliers of digits that give a rule's outputs: a search, whose results proof.py judges.

In:   runs of channels (runs.py), how many digits.
Out:  `Found`: per channel the multipliers of the digits, the constant and the shift.
Next: plan.py makes a block's plan of them.

    x = (acc + offset) << left = d0 + 256 d1 (+ 65536 d2)        digits in [-128, 127]
    output = clamp((d0 M0 + d1 M1 (+ d2 M2) + constant) >> shift)

M1 near 256 M0 and M2 near 256 M1, but not equal: M0 has 15 bits, and what it lacks in precision the
others have. Of all candidates near the real scale, each channel gets the first that leaves it a
constant; the nearest come first.

Most candidates fail at one of the few ends of runs that lie nearest to the next output (ends.py).
So many candidates at once are tried at these, and only what passes there at all ends.

With a sign digit, -1 where the accumulator is negative, both signs have a constant of their own:
TFLite's double rounding moves its grid by one between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.ends import Ends
from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import Found, Trial, digits_of

__all__ = ["LARGEST_LOWEST", "DigitForm", "held", "search_digits"]

#: The largest lowest multiplier: two signed digits.
LARGEST_LOWEST = 127 * 256 + 127
#: Distances of M2 with a sign digit: so far the line may lie from the real scale where the first
#: and the last breakpoints of one sign leave it most room, parts of a million.
_TILTS = sorted((sign * far for far in range(120, 1201, 120) for sign in (1, -1)), key=abs)
#: Distances of M1 that are tried where M2 is coarse.
_COARSE = 9
#: A shift of all levels but the last, and a last one by a tile.
_LAST_SHIFT = 15
#: Sums that are made at once.
_AT_ONCE = 1 << 15
#: In outputs, farther than any sum: a bound where no end is.
_NOWHERE = 2.0**61


@dataclass(frozen=True)
class DigitForm:
    """count: digits without the sign digit. signed: with it. left: shift of x before it is split,
    per channel. shift: the last one, per channel; None: what leaves most bits, or a few less."""

    count: int
    signed: bool
    left: IntArray
    shift: IntArray | None = None


def search_digits(runs: Runs, form: DigitForm, channels: IntArray | None = None) -> Found:
    """Every channel of `runs` on its own, or some: their numbers, (n,), which `form` is of, too. A
    channel with one output is never ok."""
    search = _DigitSearch(runs, np.arange(len(runs.scale)) if channels is None else channels, form)
    for ring in _rings(form.count, form.signed, form.shift is not None):
        search.attempt(ring)
    return search.found()


def held(runs: Runs, count: int) -> NDArray[np.bool_]:
    """(C,): whether so many digits of accumulators hold all between which a channel's output
    changes: where they do not, a search finds nothing."""
    low, high = runs.changing
    return np.asarray(high - low <= _most(count) - _least(count), np.bool_)


def _least(count: int) -> int:
    """x of the lowest top digit with the greatest of the others."""
    return int(-128 * 256 ** (count - 1) + 127 * ((256 ** (count - 1) - 1) // 255))


def _most(count: int) -> int:
    return int(127 * 256 ** (count - 1) - 128 * ((256 ** (count - 1) - 1) // 255))


class _Candidate(NamedTuple):
    """Distances from the nearest: of the shift, and each multiplier. other: take the second nearest
    M0. coarse: M2 has no product at the lowest level, where the top digit stands in the accumulator
    as it is."""

    finer: int
    other: bool
    second: int
    third: int
    coarse: bool = False


@dataclass(frozen=True)
class _Ring:
    """Offsets, of each of which all candidates are tried in their order: each field (candidates,
    1)."""

    offsets: IntArray
    finer: IntArray
    other: NDArray[np.bool_]
    second: IntArray
    third: IntArray
    coarse: NDArray[np.bool_]

    @classmethod
    def of(cls, offsets: Iterable[int], candidates: Iterable[_Candidate]) -> _Ring:
        """All of these with all of those."""
        fields = np.array(list(candidates), np.int64).T[:, :, None]
        finer, other, second, third, coarse = fields
        distances = np.array(list(offsets), np.int64)
        return cls(distances, finer, other != 0, second, third, coarse != 0)

    def __len__(self) -> int:
        return len(self.finer)

    def part(self, first: int, count: int) -> _Ring:
        """Some of the candidates."""
        these = slice(first, first + count)
        return _Ring(
            self.offsets,
            self.finer[these],
            self.other[these],
            self.second[these],
            self.third[these],
            self.coarse[these],
        )


@lru_cache(maxsize=16)
def _rings(count: int, signed: bool, one_shift: bool) -> tuple[_Ring, ...]:
    """Nearest first. one_shift: the last one is given."""
    near = [(0, 0)]
    seconds, thirds = range(-3, 4), range(-6, 7, 3) if count == 3 else range(1)
    near += sorted(
        ((a, b) for a in seconds for b in thirds if (a, b) != (0, 0)),
        key=lambda pair: abs(pair[0]) * 2 + abs(pair[1]),
    )
    offsets = (0,) if signed else (0, 1, -1, 2, -2)
    ring = 9  # of the nearest multipliers, every offset is tried before the others

    def around(part: Sequence[tuple[int, int]], bits: int) -> Iterator[_Candidate]:
        for finer, other, (second, third) in product(range(bits), (False, True), part):
            yield _Candidate(finer, other, second, third)

    if one_shift:
        rings = [_Ring.of(offsets, around(near[:ring], 1))]
        return (_Ring.of(offsets, _coarse()), *rings) if count == 3 else tuple(rings)
    rings = [_Ring.of(offsets, around(near[:ring], 2))]
    if near[ring:]:
        rings.append(_Ring.of(offsets, around(near[ring:], 2)))
    if not signed:
        rings.append(_Ring.of(range(-126, 127, 36), around(near[:ring], 3)))
    elif count == 3:
        rings.append(_Ring.of(offsets, _tilted()))
    return tuple(rings)


def _coarse() -> Iterator[_Candidate]:
    for other, second in product((False, True), range(-_COARSE, _COARSE + 1)):
        yield _Candidate(0, other, second, 0, coarse=True)


def _tilted() -> Iterator[_Candidate]:
    """Lines that lie off the real scale; in most forms they gain nothing."""
    for third, finer, other, second in product(_TILTS, range(2), (False, True), range(-3, 4)):
        yield _Candidate(finer, other, second, third)


class _Lanes(NamedTuple):
    """Channels that are tried with an offset each: (n,) of both."""

    channels: IntArray
    offset: IntArray

    def take(self, some: IntArray | NDArray[np.bool_]) -> _Lanes:
        """Some of them: their numbers, or which."""
        return _Lanes(self.channels[some], self.offset[some])


class _DigitSearch:
    """What is known so far of each channel."""

    def __init__(self, runs: Runs, channels: IntArray, form: DigitForm) -> None:
        self.runs, self.channels, self.form = runs, channels, form
        count = len(channels)
        self.ok = np.zeros(count, np.bool_)
        self.dead = runs.constant[channels]
        self.multipliers = np.zeros((form.count, count), np.int64)
        self.constant, self.sign, self.shift, self.offset = np.zeros((4, count), np.int64)
        self.scale = runs.scale[channels] / 2.0**form.left
        largest = 8 * form.count + _LAST_SHIFT
        with np.errstate(divide="ignore"):
            exponent = np.floor(np.log2(LARGEST_LOWEST / np.where(self.dead, 1.0, self.scale)))
        self.exponent = np.clip(exponent, 0, largest).astype(np.int64)
        if form.shift is not None:
            self.exponent = form.shift
        low, high = self.bounds = runs.changing[0][channels], runs.changing[1][channels]
        self.centre = self._offsets()
        room = _most(form.count) - _least(form.count)
        self.hopeful = ~self.dead & ((high - low) << form.left <= room)

    def found(self) -> Found:
        return Found(self.ok, self.multipliers, self.constant, self.sign, self.shift, self.offset)

    def _offsets(self) -> IntArray:
        """Offsets that put the output 0 at x = 0; where x would then not fit the digits, the middle
        of what changes the output."""
        runs, form = self.runs, self.form
        if form.signed:  # the top digit is negative where the accumulator is
            return np.asarray(-((128 * (256 ** (form.count - 1) - 1) // 255) >> form.left))
        scale = np.where(self.dead, 1.0, runs.scale[self.channels])
        with np.errstate(divide="ignore", over="ignore"):
            zero = np.round((runs.zero_point + 0.5) / scale)
        zero_at: IntArray = np.clip(zero, -(2.0**40), 2.0**40).astype(np.int64)
        low, high = self.bounds
        second = min(1, runs.first.shape[1] - 1)
        centre = -((runs.first[self.channels, second] + runs.first[self.channels, -1]) >> 1)
        centre = centre if second else 0 * zero_at
        return np.where(self._fits(low + zero_at, high + zero_at, form.left), zero_at, centre)

    def _fits(self, low: IntArray, high: IntArray, left: IntArray) -> NDArray[np.bool_]:
        """Whether digits hold these, which have their offset."""
        count = self.form.count
        return (low << left >= _least(count)) & (high << left <= _most(count))

    def attempt(self, ring: _Ring) -> None:
        """Some candidates for every channel that has none yet and may get one: of few channels
        several offsets at once."""
        at = 0
        while at < len(ring.offsets):
            pending = np.flatnonzero(~self.ok & self.hopeful)
            if not pending.size:
                return
            points = self.runs.tight.first.flat.shape[1]
            count = max(1, _AT_ONCE // (pending.size * points * len(ring)))
            offsets = ring.offsets[at : at + count]
            lanes = np.tile(pending, len(offsets))
            self._attempt_at(ring, lanes, self.centre[lanes] + np.repeat(offsets, pending.size))
            at += count

    def _attempt_at(self, ring: _Ring, channels: IntArray, offset: IntArray) -> None:
        """All candidates for some channels, each with some offsets: the first of these first."""
        (low, high), left = (side[channels] for side in self.bounds), self.form.left[channels]
        fits = self._fits(low + offset, high + offset, left)
        lanes = _Lanes(channels[fits], offset[fits])
        ends, at = self._at_ends(lanes), 0
        while lanes.channels.size and at < len(ring):
            count = max(1, _AT_ONCE // ends[0][:, 0].size)
            self._attempt_some(ring.part(at, count), lanes, ends)
            missed = ~self.ok[lanes.channels]
            lanes, ends = lanes.take(missed), [side[missed] for side in ends]
            at += count

    def _attempt_some(
        self, ring: _Ring, lanes: _Lanes, ends: Sequence[NDArray[np.float64]]
    ) -> None:
        """For each channel the first candidate that is right at all ends of runs."""
        shift = self.exponent[lanes.channels] - ring.finer
        multipliers = self._multipliers(ring, lanes.channels, shift)
        good = (shift >= 0) & (multipliers[1] >= 255 * multipliers[0])
        if self.form.count == 3:
            good &= multipliers[2] >= 255 * (multipliers[1] + multipliers[0])
        if not good.any():
            return
        good &= self._plausible(ends, shift, multipliers)
        while good.any():
            some = np.flatnonzero(good.any(axis=0))
            # The first offset of each channel that has a candidate.
            some = some[np.unique(lanes.channels[some], return_index=True)[1]]
            first = good[:, some].argmax(axis=0)
            own = [multiplier[first, some] for multiplier in multipliers]
            self._settle(lanes.take(some), own, shift[first, some])
            good[first, some] = False
            good[:, self.ok[lanes.channels]] = False

    def _multipliers(self, ring: _Ring, channels: IntArray, shift: IntArray) -> list[IntArray]:
        """(candidates, channels) of each digit."""
        real = self.scale[channels] * 2.0**shift
        lowest = np.floor(real + 0.5).astype(np.int64)
        beside = np.where(real >= lowest, lowest + 1, lowest - 1)
        multipliers = [np.clip(np.where(ring.other, beside, lowest), 1, LARGEST_LOWEST)]
        multipliers.append(np.round(real * 256).astype(np.int64) + ring.second)
        if self.form.count == 3:
            step = np.where(ring.coarse, 256, 1)
            third = np.round((real * 65536 - 1) / step).astype(np.int64) * step + 1
            multipliers.append(third + ring.third)
        return multipliers

    def _digits(self, acc: IntArray, lanes: _Lanes) -> list[IntArray]:
        """Of accumulators (lanes, n)."""
        x = (acc + lanes.offset[:, None]) << self.form.left[lanes.channels, None]
        return digits_of(x, self.form.count)

    def _at_ends(self, lanes: _Lanes) -> list[NDArray[np.float64]]:
        """(lanes, level and digits, signs * points), of first accumulators and of last ones: with a
        candidate's 2^shift and its multipliers, negative, they are what its constant must reach, or
        not pass. In float64, which holds these integers and is multiplied faster."""

        def rows(side: Ends, nowhere: float) -> NDArray[np.float64]:
            level = np.where(side.there, side.level, nowhere).reshape(side.flat.shape)
            return np.stack([level, *self._digits(side.flat, lanes)], axis=1).astype(np.float64)

        tight = self.runs.tight.take(self.channels[lanes.channels])
        return [rows(tight.first, -_NOWHERE), rows(tight.last, _NOWHERE)]

    def _plausible(
        self,
        ends: Sequence[NDArray[np.float64]],
        shift: IntArray,
        multipliers: Sequence[IntArray],
    ) -> NDArray[np.bool_]:
        """(candidates, channels): whether some constant is right at the tightest ends."""
        factors = np.stack([2.0**shift, *(-m for m in multipliers)], axis=-1).swapaxes(0, 1)
        shape = (*factors.shape[:2], 2, -1)
        least, most = ((factors @ side).reshape(shape) for side in ends)
        # By sign: (channels, candidates, 2).
        lower, upper = least.max(axis=3), most.min(axis=3)
        if self.form.signed:
            return np.asarray((lower < upper).all(axis=2).T)
        return np.asarray((lower.max(axis=2) < upper.min(axis=2)).T)

    def _settle(self, lanes: _Lanes, multipliers: list[IntArray], shift: IntArray) -> None:
        """One candidate for each of some channels, at all ends: those it is right for are done."""
        channels = lanes.channels
        real = self.scale[channels] * 2.0**shift
        apart = [np.abs(m - real * 256.0**place) for place, m in enumerate(multipliers)]

        def sums(rows: IntArray, acc: IntArray) -> IntArray:
            digits = self._digits(acc, lanes.take(rows))
            return _total([m[rows, None] for m in multipliers], digits)

        # No digit is larger than 128.
        trial = Trial(self.channels[channels], sums, shift, 128 * np.sum(apart, axis=0))
        window = trial.window(self.runs, signed=self.form.signed)
        right, chosen = window.open, channels[window.open]
        self.ok[chosen] = True
        for row, multiplier in zip(self.multipliers, multipliers, strict=True):
            row[chosen] = multiplier[right]
        self.constant[chosen] = window.above[right]
        self.sign[chosen] = (window.above - window.below)[right]
        self.shift[chosen] = shift[right]
        self.offset[chosen] = lanes.offset[right]


def _total(multipliers: list[IntArray], digits: list[IntArray]) -> IntArray:
    total = multipliers[0] * digits[0]
    for multiplier, digit in zip(multipliers[1:], digits[1:], strict=True):
        total = total + multiplier * digit
    return total
