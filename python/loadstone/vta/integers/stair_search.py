# SPDX-License-Identifier: Apache-2.0
"""Integers for sums of floors: offsets, multipliers, and a constant for each stair.

In:   runs of the channels of some blocks (runs.py), and where constants change.
Out:  `StairSearch`: of each channel the first candidate that is right at all ends of runs.
Next: stairs.py makes plans of what was found, and says what a stair is.

A candidate is an offset and a bend: how far each multiplier lies from the nearest. Each channel
gets the first that leaves every stair a constant, or one of each sign (native/rescale_stairs.cc).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.native_runs import NativeRuns, NativeStairs
from loadstone.vta.integers.runs import IntArray, Runs

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
_BENDS = np.array(
    [(a, b, c) for a in (0, 1) for b in (0, -1, 1, -2, 2, -4) for c in (0, 4, -4)], np.int64
)
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


class StairSearch:
    """What is known so far of each channel.

    constants: (stairs, C), where the sign digit is 0; sign: (stairs, C), what it multiplies.
    """

    def __init__(
        self,
        runs: Runs,
        blocks: Sequence[IntArray],
        division: Division,
        largest: float | None = None,
    ) -> None:
        """largest: scale of the layer; None: that of the runs."""
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
        if largest is None:
            largest = float(runs.scale[live].max(initial=0.0))
        low, high = self._ends()
        for channels in blocks:
            if not live[channels].any():
                continue
            if division.fine:
                span = int((high - low)[channels].max()) + 2
                self.left[channels] = max(0, (2 * _ROOM // span).bit_length() - 1)
            own, layer = (
                int(np.floor(np.log2((_TOP - 1) / scale)))
                for scale in (runs.scale[channels[live[channels]]].max(), largest)
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

    @property
    def unit(self) -> IntArray:
        """(C,): bits of y below one output."""
        return self.bits - LOST

    def run(self, patient: bool) -> None:
        """All offsets and bends, for the channels that lack one."""
        offsets = np.stack(list(self._offsets()))
        self._attempt(offsets[:_PATIENCE])
        if not patient:
            self._give_up()
        self._attempt(offsets[_PATIENCE:])

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

    def _attempt(self, offsets: IntArray) -> None:
        """Some offsets, (n, C): the first candidate of each channel that lacks one."""
        channels = np.flatnonzero(self.open & ~self.ok)
        offsets = offsets[:, channels]
        form = NativeStairs(
            self.division.sign is not None,
            self.left[channels],
            self.unit[channels],
            self.real[channels],
            self._window_of(),
            2 * len(self.steps),
            _BENDS,
        )
        native = NativeRuns(self.runs, channels)
        rows, windows = native.stairs(form, offsets, self._fits(channels, offsets))
        good = rows[:, 0] != 0
        chosen = channels[good]
        self.ok[chosen] = True
        self.multipliers[:, chosen] = rows[good, 1 : 1 + DIGITS].T
        self.offset[chosen] = rows[good, -1]
        self._choose(chosen, windows[good].reshape(-1, len(self.steps), 2, 2))

    def _window_of(self) -> IntArray:
        """Of each output from the lowest: the number of its stair, twice, and one more where the
        sign digit is -1."""
        value = np.arange(self.runs.low, self.runs.high + 1)
        number = np.zeros(len(value), np.int64)
        for at, step in enumerate(self.steps):
            own = (value > step.low) & (value <= step.high) & ((value & 1) == step.parity)
            number[own] = 2 * at
        edge = self.division.sign
        return number if edge is None else number + (value <= edge)

    def _choose(self, channels: IntArray, windows: IntArray) -> None:
        """Constants from windows (channels, stairs, 2, 2) that are not empty: the middle of the one
        above the edge, and the nearest below."""
        above, below = (windows[:, :, side].T for side in (0, 1))
        wide = above[1] - above[0] >= _FAR
        least, most = (np.where(wide, b, a) for a, b in zip(above, below, strict=True))
        wide = most - least >= _FAR
        constant = np.where(wide, 0, (np.where(wide, 0, least) + np.where(wide, 0, most)) >> 1)
        self.constants[:, channels] = constant
        self.sign[:, channels] = constant - np.clip(constant, below[0], below[1])
