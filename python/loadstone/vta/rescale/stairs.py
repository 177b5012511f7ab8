# SPDX-License-Identifier: Apache-2.0
"""Forms that round half to even in float32: a sum of several floors of one fine sum.

In:   runs of the channels of some blocks (runs.py).
Out:  `DigitPlan`s whose chains end in stairs, not yet proven.
Next: plan.py proves them and compares their costs.

float32(acc * scale) falls onto a tie wherever the product is within half a place of it, and a tie
goes to the even side. So the accumulator at which the output becomes n is that of a straight line,
moved up where n is odd... by what a place of float32 is worth between two powers of two. No line
gives both. But

    y = d0 M0 + d1 M1 + d2 M2 + constant        as fine as 32 bits allow
    output = (y >> u + 1) + (y + d + 2^u >> u + 1)     even and odd outputs each have a floor

and d is free for each channel. Where a place changes (at 64, 32, 16 ...) the constants do: at one
of these by the sign digit, which is -1 below, at the others by a stair on each side, held to its
own outputs. The lower part of y is summed from the lowest digit up, the rest from the highest down:

    S0 >> 8                              exactly floor((S0 + 256 S1 + 65536 S2 + 2^24 S3) / 256)
    ((S3 << 8) + S2 << 8) + S1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.rescale.levels import constant_limit, split_constant, split_levels
from loadstone.vta.rescale.proof import Chain, DigitPlan, Level, Stair
from loadstone.vta.rescale.runs import IntArray, Runs
from loadstone.vta.rescale.search import digits_of

__all__ = ["Division", "divisions", "stair_plans"]

#: The largest lowest multiplier: y and its constants stay below 2^31.
_TOP = 1 << 14
#: Digits; where the top one becomes negative; what all three hold, whatever the lower two are.
_COUNT, _HALF, _ROOM = 3, 128 + 128 * 256, 127 * 65536 - 128 * 257
#: Bits of the sum that the lowest level loses.
_LOST = 8
_LEVELS = (0, 8, 16, 24)
_LAST_SHIFT, _LARGEST_IMMEDIATE = 15, (1 << 15) - 1
_OFFSETS = 31
#: Bits that a block may give up to be like the rest of its layer.
_NEAR = 1
#: Distances from the nearest multipliers: of M0 (the other neighbour), M1, M2.
_BENDS = [(a, b, c) for a in (0, 1) for b in (0, -1, 1, -2, 2, -4) for c in (0, 4, -4)]
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


def stair_plans(
    runs: Runs, blocks: Sequence[IntArray], division: Division, block: int, *, patient: bool = False
) -> list[DigitPlan | None]:
    """A plan for each block of channels, of their numbers (lanes,); None where none was found.

    block: lanes of the device. patient: no block is given up early.
    """
    search = _Search(runs, blocks, division)
    search.run(patient)
    return [
        _plan(search, channels, block) if (search.ok | runs.constant)[channels].all() else None
        for channels in blocks
    ]


@dataclass(frozen=True)
class _Step:
    """One stair: outputs above `low` up to `high`, of one parity."""

    low: int
    high: int
    parity: int


def _steps(runs: Runs, division: Division) -> list[_Step]:
    edges = (runs.low, *division.edges, runs.high)
    return [_Step(a, b, p) for a, b in pairwise(edges) for p in (1, 0)]


class _Search:
    """What is known so far of each channel.

    unit: (C,) bits of y below one output. constants: (stairs, C), where the sign digit is 0; sign:
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
        self.open &= (change <= 1).all(axis=1) & (self.bits - _LOST >= 1)
        self.open &= self.bits - _LOST <= 2 * _LAST_SHIFT - 1
        self.offset = np.zeros(count, np.int64)
        self.multipliers = np.zeros((_COUNT, count), np.int64)
        self.constants = np.zeros((len(self.steps), count), np.int64)
        self.sign = np.zeros((len(self.steps), count), np.int64)

    @property
    def unit(self) -> IntArray:
        return self.bits - _LOST

    def run(self, patient: bool) -> None:
        """All offsets and bends, for the channels that lack one."""
        for number, offsets in enumerate(self._offsets()):
            if number == _PATIENCE and not patient:
                self._give_up()
            pending = np.flatnonzero(self.open & ~self.ok)
            pending = pending[self._fits(pending, offsets[pending])]
            if not pending.size:
                continue
            left = self.left[pending, None]
            sides = [
                digits_of((side[pending] + offsets[pending, None]) << left, _COUNT)
                for side in (self.before, self.behind)
            ]
            for bend in _BENDS:
                good = self._attempt(pending, offsets, sides, bend)
                if good.any():
                    pending = pending[~good]
                    sides = [[digit[~good] for digit in digits] for digits in sides]
                if not pending.size:
                    break

    def _give_up(self) -> None:
        for channels in self.blocks:
            if (self.open & ~self.ok)[channels].sum() > _LACKING:
                self.open[channels] = False

    def _ends(self) -> tuple[IntArray, IntArray]:
        """(C,): the accumulators of the first and the last change."""
        low = np.where(self.rises, self.before, _FAR).min(axis=1, initial=_FAR)
        high = np.where(self.rises, self.behind, -_FAR).max(axis=1, initial=-_FAR)
        return np.where(self.open, low, 0), np.where(self.open, high, 0)

    def _fits(self, channels: IntArray, offset: IntArray) -> NDArray[np.bool_]:
        low, high = (side[channels] for side in self._ends())
        room = _ROOM >> self.left[channels]
        return np.asarray((low + offset > -room) & (high + offset < room))

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
            yield np.where(self.open, -(_HALF >> self.left) - change, 0)

    def _attempt(
        self,
        channels: IntArray,
        offset: IntArray,
        sides: list[list[IntArray]],
        bend: tuple[int, int, int],
    ) -> NDArray[np.bool_]:
        """One candidate for some channels: which of them it is right for."""
        real = self.real[channels]
        lowest = np.round(real).astype(np.int64)
        if bend[0]:
            lowest = np.where(real >= lowest, lowest + 1, lowest - 1)
        multipliers = [lowest]
        for position in (1, 2):
            nearest = np.round(real * 256.0**position).astype(np.int64)
            multipliers.append(nearest + bend[position])
        good = (lowest > 0) & (multipliers[1] >= 255 * lowest)
        good &= multipliers[2] >= 255 * (lowest + multipliers[1])
        if not good.any():
            return good
        before, behind = (self._sums(digits, multipliers) for digits in sides)
        value, rises = self.value[channels], self.rises[channels]
        # y + constant is at least value << unit from the accumulator of the change on.
        level = value << self.unit[channels, None]
        lower = np.where(rises, level - behind, -_FAR)
        upper = np.where(rises, level - 1 - before, _FAR)
        found = []
        for step in self.steps:
            own = (value > step.low) & (value <= step.high) & ((value & 1) == step.parity)
            above, below = self._windows(own, value, lower, upper)
            good &= (above[0] <= above[1]) & (below[0] <= below[1])
            if not good.any():  # of most candidates after a stair or two
                return good
            found.append((above, below))
        chosen = channels[good]
        self.ok[chosen] = True
        self.offset[chosen] = offset[chosen]
        for row, multiplier in zip(self.multipliers, multipliers, strict=True):
            row[chosen] = multiplier[good]
        self._choose(chosen, [[[b[good] for b in side] for side in pair] for pair in found])
        return good

    def _sums(self, digits: list[IntArray], multipliers: list[IntArray]) -> IntArray:
        """y without its constant, as the device makes it: with the sign digit, which still stands
        in the accumulator, in the lowest level."""
        total = sum(m[:, None] * d for m, d in zip(multipliers, digits, strict=True))
        if self.division.sign is not None:
            total = total + (digits[-1] >> 8)
        return np.asarray(total >> _LOST, np.int64)

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


def _plan(search: _Search, channels: IntArray, block: int) -> DigitPlan | None:
    """The plan of one block."""
    runs = search.runs.take(channels)
    dead, unit = runs.constant, int(search.unit[channels].max())
    signed = search.division.sign is not None
    last = np.where(dead, runs.value[:, 0] << unit, search.constants[-1, channels])
    parts = [np.where(dead, 0, row) for row in search.multipliers[:, channels]]
    if not signed:
        parts[-1] = parts[-1] - 1  # the last digit still stands in the accumulator
    split = [split_levels(part, _LEVELS) for part in parts]
    products = [
        tuple((digit, step) for digit, own in enumerate(split) for step in own[position])
        for position in range(len(_LEVELS))
    ]
    limit = constant_limit(block)
    constants = [
        (value,) if value is not None else () for value in split_constant(last, _LEVELS[:-1], block)
    ]
    if any(np.abs(value).max() > limit for own in constants for value in own):
        return None
    stairs = _stairs(search, channels, last, limit)
    if stairs is None:
        return None
    offset = np.where(dead, 0, search.offset[channels])
    x = np.concatenate([runs.first[:, :1], runs.last[:, -1:]], axis=1) + offset[:, None]
    left = int(search.left[channels].max())
    x = ((np.where(dead[:, None], 0, x) << left) + _HALF) >> 16
    lowest, *upper = products
    chain = Chain(
        (Level(0, lowest, ()), Level(_LOST, (), ())),
        np.zeros(len(channels), np.int64),
        runs.low,
        runs.high,
        tuple(
            Level(8 if position < 2 else 0, own, added)
            for position, (own, added) in reversed(
                list(enumerate(zip(upper, constants, strict=True)))
            )
        ),
        stairs,
    )
    clamped = bool(np.any((x < -128) | (x > 127)))
    return DigitPlan(offset, left, 0 * offset, _COUNT, clamped, signed, dead, chain)


def _stairs(
    search: _Search, channels: IntArray, last: IntArray, limit: int
) -> tuple[Stair, ...] | None:
    """The stairs of one block; None where a constant is none that one step can add. last: (lanes,)
    the constant of the last one, which is in the sum. limit: what one product of constants adds."""
    runs = search.runs.take(channels)
    dead, unit = runs.constant, int(search.unit[channels].max())
    signed = search.division.sign is not None
    stairs = []
    for number, step in enumerate(search.steps):
        difference = np.where(dead, 0, search.constants[number, channels] - last)
        sign = np.where(dead, 0, search.sign[number, channels])
        stair = _stair(step, runs, unit, (difference, sign if signed else None))
        held = np.abs(difference).max() <= limit and np.abs(sign).max() <= 127
        if not held or abs(stair.add) > _LARGEST_IMMEDIATE:
            return None
        stairs.append(stair)
    return tuple(stairs)


def _stair(step: _Step, runs: Runs, unit: int, lanes: tuple[IntArray, IntArray | None]) -> Stair:
    """lanes: what is added to y in this stair alone, and what the sign digit is multiplied by."""
    difference, sign = lanes
    first = min(_LAST_SHIFT, unit)
    below = (step.low + step.parity) >> 1  # what the stair has at its lower edge
    inner = step.low > runs.low
    base = below if inner else 0
    return Stair(
        (difference,) if difference.any() else (),
        None if sign is None else sign.astype(np.int8),
        (first, unit + 1 - first),
        (step.parity << unit - first) - (base << unit + 1 - first),
        0 if inner else None,
        None if step.high == runs.high else ((step.high + step.parity) >> 1) - base,
    )
