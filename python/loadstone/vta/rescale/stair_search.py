# SPDX-License-Identifier: Apache-2.0
"""Integers for sums of floors: offsets, multipliers, and a constant for each stair.

In:   runs of the channels of some blocks (runs.py), and where constants change.
Out:  `StairSearch`: of each channel the first candidate that is right at all ends of runs.
Next: stairs.py makes plans of what was found, and says what a stair is.

A candidate is an offset and a bend: how far each multiplier lies from the nearest. Most are wrong
at the ends of runs that leave a line of the real scale least room: many candidates are tried there
at once, and what is left at all ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import digits_of

__all__ = [
    "DIGITS",
    "HALF",
    "LAST_SHIFT",
    "LOST",
    "Division",
    "StairRange",
    "StairSearch",
    "divisions",
]

#: Digits; where the top one becomes negative; what all three hold, whatever the lower two are.
DIGITS, HALF, _ROOM = 3, 128 + 128 * 256, 127 * 65536 - 128 * 257
#: Bits of the sum that the lowest level loses.
LOST = 8
LAST_SHIFT = 15
#: The largest lowest multiplier: y and its constants stay below 2^31.
_TOP = 1 << 14
_OFFSETS = 31
#: Bits that a block may give up to be like the rest of its layer.
_NEAR = 1
#: Distances from the nearest multipliers: of M0 (the other neighbour), M1, M2.
_BENDS = [(a, b, c) for a in (0, 1) for b in (0, -1, 1, -2, 2, -4) for c in (0, 4, -4)]
#: Tightest ends that are looked at first, of each side and stair; sums that are made at once.
_POINTS, _AT_ONCE = 8, 1 << 15
#: After so many offsets a block that lacks more lanes than this wants another division.
_PATIENCE, _LACKING = 4, 2
_FAR = np.int64(1) << 60


@dataclass(frozen=True)
class Division:
    """Outputs at which constants change. edges: by stairs of their own; sign: by the sign digit,
    or None. fine: the accumulator goes to the left as far as its digits have room."""

    edges: tuple[int, ...]
    sign: int | None
    fine: bool = False


def divisions(runs: Runs) -> Iterator[Division]:
    """From the cheapest: at more and more powers of two of the output less its zero point."""
    yield Division((), None)
    yield Division((), None, fine=True)
    most = max(runs.high - runs.zero_point, runs.zero_point - runs.low)
    power = 1 << max(0, most - 1).bit_length() - 1
    found: list[int] = []
    for _ in range(4):
        for edge in (runs.zero_point + power, runs.zero_point - power):
            if runs.low < edge < runs.high:
                found.append(edge)
        if found:
            division = Division(tuple(sorted(found[1:])), found[0])
            yield division
            yield replace(division, fine=True)
        power >>= 1


@dataclass(frozen=True)
class StairRange:
    """Where one stair counts: outputs above `low` up to `high`, of one parity."""

    low: int
    high: int
    parity: int


def _steps(runs: Runs, division: Division) -> list[StairRange]:
    edges = (runs.low, *division.edges, runs.high)
    return [StairRange(a, b, p) for a, b in pairwise(edges) for p in (1, 0)]


@dataclass(frozen=True)
class _Points:
    """Ends of runs, (C, stairs, points): their numbers, and which there are."""

    number: IntArray
    there: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        room: NDArray[np.float64],
        stairs: Sequence[NDArray[np.bool_]],
        channels: IntArray,
        count: int,
    ) -> _Points:
        """The greatest of `room` (n, R) in each stair's own (n, R). channels: whose they are, of
        `count`."""
        points = min(_POINTS, room.shape[1])
        number = np.zeros((count, len(stairs), points), np.int64)
        there = np.zeros(number.shape, np.bool_)
        for stair, own in enumerate(stairs):
            order = np.argpartition(np.where(own, -room, np.inf), points - 1, axis=1)[:, :points]
            number[channels, stair] = order
            there[channels, stair] = np.take_along_axis(own, order, axis=1)
        return cls(number, there)


def _never_falls(multipliers: Sequence[IntArray]) -> NDArray[np.bool_]:
    """Whether the sum never decreases: each digit is worth what all below it can lose."""
    lowest, second, third = multipliers
    return np.asarray(
        (lowest > 0) & (second >= 255 * lowest) & (third >= 255 * (lowest + second)), np.bool_
    )


class StairSearch:
    """What is known so far of each channel.

    constants: (stairs, C), where the sign digit is 0; sign:
    (stairs, C), what it multiplies.
    """

    def __init__(self, runs: Runs, blocks: Sequence[IntArray], division: Division) -> None:
        self.runs, self.blocks, self.division = runs, blocks, division
        self.steps = _steps(runs, division)
        count, live = len(runs.scale), ~runs.constant
        self.ok = np.zeros(count, np.bool_)
        self.open = np.zeros(count, np.bool_)
        for channels in blocks:
            self.open[channels] = live[channels]
        # The last accumulator before each change of the output, the first behind it.
        self.before, self.behind = runs.last[:, :-1], runs.first[:, 1:]
        self.value = runs.value[:, 1:]
        change = self.value - runs.value[:, :-1]
        self.rises = change > 0
        self.left, self.bits = np.zeros((2, count), np.int64)
        # (C,): the accumulators of the first and the last change.
        self.least = np.where(self.rises, self.before, _FAR).min(axis=1, initial=_FAR)
        self.most = np.where(self.rises, self.behind, -_FAR).max(axis=1, initial=-_FAR)
        low, high = self._ends()
        for channels in blocks:
            if not live[channels].any():
                continue
            if division.fine:
                span = int((high - low)[channels].max()) + 2
                self.left[channels] = max(0, (2 * _ROOM // span).bit_length() - 1)
            own, layer = (
                int(np.floor(np.log2((_TOP - 1) / runs.scale[some].max())))
                for some in (channels[live[channels]], live)
            )
            # One spacing for blocks whose scales are near, so that one kernel does them.
            self.bits[channels] = self.left[channels] + (layer if own - layer <= _NEAR else own)
        self.real = runs.scale * 2.0 ** (self.bits - self.left)
        self.open &= (change <= 1).all(axis=1) & (self.bits - LOST >= 1)
        self.open &= self.bits - LOST <= 2 * LAST_SHIFT - 1
        self.offset = np.zeros(count, np.int64)
        self.multipliers = np.zeros((DIGITS, count), np.int64)
        self.constants = np.zeros((len(self.steps), count), np.int64)
        self.sign = np.zeros((len(self.steps), count), np.int64)
        self.points = self._points()

    @property
    def unit(self) -> IntArray:
        """(C,): bits of y below one output."""
        return self.bits - LOST

    def run(self, patient: bool) -> None:
        """All offsets and bends, for the channels that lack one."""
        for number, offsets in enumerate(self._offsets()):
            if number == _PATIENCE and not patient:
                self._give_up()
            pending = np.flatnonzero(self.open & ~self.ok)
            pending = pending[self._fits(pending, offsets[pending])]
            if not pending.size:
                continue
            at = 0
            while pending.size and at < len(_BENDS):
                count = max(1, _AT_ONCE // (len(pending) * self.points[0].number[0].size))
                bends = _BENDS[at : at + count]
                for bend, plausible in zip(
                    bends, self._plausible(pending, offsets, bends), strict=True
                ):
                    chosen = pending[plausible & ~self.ok[pending]]
                    if chosen.size:
                        self._attempt(chosen, offsets, bend)
                pending = pending[~self.ok[pending]]
                at += count

    def _give_up(self) -> None:
        for channels in self.blocks:
            if (self.open & ~self.ok)[channels].sum() > _LACKING:
                self.open[channels] = False

    def _ends(self) -> tuple[IntArray, IntArray]:
        """(C,): the accumulators of the first and the last change of channels that are open."""
        return np.where(self.open, self.least, 0), np.where(self.open, self.most, 0)

    def _fits(self, channels: IntArray, offset: IntArray) -> NDArray[np.bool_]:
        room = _ROOM >> self.left[channels]
        low, high = self.least[channels] + offset, self.most[channels] + offset
        return np.asarray((low > -room) & (high < room))

    def _offsets(self) -> Iterator[IntArray]:
        """(C,) each: what is added to the accumulator."""
        low, high = self._ends()
        edge = self.division.sign
        if edge is None:
            room = np.maximum((_ROOM >> self.left) - 2 - ((high - low) >> 1), 0)
            # As near to 0 as the digits allow: the bias takes a step for every 242,000.
            near = np.clip(0, -room - ((low + high) >> 1), room - ((low + high) >> 1))
            for base, count in ((near, _OFFSETS), (-((low + high) >> 1), _OFFSETS // 2)):
                for number in range(count):
                    step = np.minimum(97 * number * number, room)
                    yield base + np.where(base > 0, -step, step)
            return
        # The sign changes behind the accumulator of the edge, before that of the next output.
        at_edge = np.where(self.rises & (self.value <= edge), self.behind, -_FAR).max(axis=1)
        at_next = np.where(self.rises & (self.value > edge), self.behind, _FAR).min(axis=1)
        at_edge = np.where(at_edge <= -_FAR, low - 1, at_edge)
        at_next = np.where(at_next >= _FAR, high + 1, at_next)
        width = np.maximum(at_next - at_edge - 2, 0)
        for number in range(_OFFSETS):
            change = at_next - 1 - number * width // _OFFSETS
            yield np.where(self.open, -(HALF >> self.left) - change, 0)

    def _points(self) -> list[_Points]:
        """Of each stair, and each value of the sign digit, the ends that leave a line of the real
        scale least room: those behind changes, and those before them."""
        channels = np.flatnonzero(self.open)
        value, rises = self.value[channels], self.rises[channels]
        slope = (self.runs.scale[channels] * 2.0 ** self.unit[channels])[:, None]
        level = (value << self.unit[channels, None]).astype(np.float64)
        least = level - slope * self.behind[channels]
        most = slope * self.before[channels] - level
        edge = self.division.sign
        own = [
            rises & (value > step.low) & (value <= step.high) & ((value & 1) == step.parity) & side
            for step in self.steps
            for side in ([rises] if edge is None else [value > edge, value <= edge])
        ]
        return [_Points.of(room, own, channels, len(self.open)) for room in (least, most)]

    def _plausible(
        self, channels: IntArray, offset: IntArray, bends: Sequence[tuple[int, int, int]]
    ) -> NDArray[np.bool_]:
        """(bends, channels): whether some constants are right at the tightest ends."""
        multipliers = self._multipliers(channels, bends)
        good = _never_falls(multipliers)
        shape = (len(channels), -1)
        bounds = []
        for points, ends, last in zip(self.points, (self.behind, self.before), (0, 1), strict=True):
            numbers, there = points.number[channels], points.there[channels]
            flat = numbers.reshape(shape)
            rows = channels[:, None]
            x = (ends[rows, flat] + offset[channels, None]) << self.left[channels, None]
            sums = self._sums(digits_of(x, DIGITS), [m[:, :, None] for m in multipliers])
            level = (self.value[rows, flat] << self.unit[channels, None]) - last
            bound = (level - sums).reshape(len(bends), *numbers.shape)
            bounds.append(np.where(there, bound, _FAR if last else -_FAR))
        fits = bounds[0].max(axis=3) <= bounds[1].min(axis=3)
        return np.asarray(good & fits.all(axis=2))

    def _multipliers(
        self, channels: IntArray, bends: Sequence[tuple[int, int, int]]
    ) -> list[IntArray]:
        """(bends, channels) of each digit, from the lowest."""
        real, far = self.real[channels], np.array(bends, np.int64)[:, :, None]
        lowest = np.round(real).astype(np.int64)
        beside = np.where(real >= lowest, lowest + 1, lowest - 1)
        found = [np.where(far[:, 0] != 0, beside, lowest)]
        for position in (1, 2):
            nearest = np.round(real * 256.0**position).astype(np.int64)
            found.append(nearest + far[:, position])
        return found

    def _attempt(self, channels: IntArray, offset: IntArray, bend: tuple[int, int, int]) -> None:
        """One candidate for some channels, at all ends."""
        multipliers = [own[0] for own in self._multipliers(channels, [bend])]
        x0, left = offset[channels, None], self.left[channels, None]
        before, behind = (
            self._sums(
                digits_of((side[channels] + x0) << left, DIGITS), [m[:, None] for m in multipliers]
            )
            for side in (self.before, self.behind)
        )
        value, rises = self.value[channels], self.rises[channels]
        # y + constant is at least value << unit from the accumulator of the change on.
        level = value << self.unit[channels, None]
        lower = np.where(rises, level - behind, -_FAR)
        upper = np.where(rises, level - 1 - before, _FAR)
        good, found = np.ones(len(channels), np.bool_), []
        for step in self.steps:
            own = (value > step.low) & (value <= step.high) & ((value & 1) == step.parity)
            above, below = self._windows(own, value, lower, upper)
            good &= (above[0] <= above[1]) & (below[0] <= below[1])
            if not good.any():
                return
            found.append((above, below))
        chosen = channels[good]
        self.ok[chosen] = True
        self.offset[chosen] = offset[chosen]
        for row, multiplier in zip(self.multipliers, multipliers, strict=True):
            row[chosen] = multiplier[good]
        self._choose(chosen, [[[b[good] for b in side] for side in pair] for pair in found])

    def _sums(self, digits: list[IntArray], multipliers: list[IntArray]) -> IntArray:
        """y without its constant, as the device makes it: with the sign digit, which still stands
        in the accumulator, in the lowest level."""
        total = sum(m * d for m, d in zip(multipliers, digits, strict=True))
        if self.division.sign is not None:
            total = total + (digits[-1] >> 8)
        return np.asarray(total >> LOST, np.int64)

    def _windows(
        self, own: NDArray[np.bool_], value: IntArray, lower: IntArray, upper: IntArray
    ) -> tuple[list[IntArray], list[IntArray]]:
        """The least and the greatest constant of a stair where the sign digit is 0, and -1."""
        edge = self.division.sign
        high = np.ones_like(own) if edge is None else value > edge
        above, below = (
            [
                np.where(there, lower, -_FAR).max(axis=1),
                np.where(there, upper, _FAR).min(axis=1),
            ]
            for there in (own & high, own & ~high)
        )
        return above, below

    def _choose(self, channels: IntArray, found: list[list[list[IntArray]]]) -> None:
        """Constants from windows that are not empty: the middle of the one above the edge, and the
        nearest below."""
        for number, (above, below) in enumerate(found):
            wide = above[1] - above[0] >= _FAR
            least, most = (np.where(wide, b, a) for a, b in zip(above, below, strict=True))
            wide = most - least >= _FAR
            constant = np.where(wide, 0, (np.where(wide, 0, least) + np.where(wide, 0, most)) >> 1)
            self.constants[number, channels] = constant
            self.sign[number, channels] = constant - np.clip(constant, below[0], below[1])
