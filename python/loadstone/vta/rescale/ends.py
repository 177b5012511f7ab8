# SPDX-License-Identifier: Apache-2.0
"""The ends of runs at which a line of the real scale has least room: where candidates fail first.

In:   runs of a layer's channels (runs.py), once for all searches.
Out:  `TightEnds`: a few ends of each side and sign, and by how much the others are roomier.
Next: search.py and digit_search.py try candidates there.

    room at a first accumulator    scale * first - value          how far a line may be moved down
    room at a last one             value + 1 - scale * last       and how far up

A candidate that lies nowhere farther than d from the real line changes no end's room by more. So
what it leaves at the tightest end, with that end's constant, no end that is roomier by more than
2 d can take: such ends need not be looked at, and the window of constants is still exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ends", "Side", "TightEnds"]

IntArray = NDArray[np.int64]
Reals = NDArray[np.float64]
#: Ends that are kept of each side and sign.
_POINTS = 12
#: Far more than rooms, which are a few hundred outputs at most, lose in float64.
_ROUNDED = 1e-9


@dataclass(frozen=True)
class Ends:
    """Ends of one side, (C, 2, points): of runs below zero, and of those from zero on.

    acc: accumulators. level: outputs that the sum with its constant must reach there, or stay
    below. there: which exist.
    """

    acc: IntArray
    level: IntArray
    there: NDArray[np.bool_]

    @property
    def flat(self) -> IntArray:
        """(C, 2 * points): the accumulators."""
        count, signs, points = self.acc.shape
        return self.acc.reshape(count, signs * points)

    def take(self, channels: IntArray) -> Ends:
        """Some of the channels: their numbers, (n,)."""
        return Ends(self.acc[channels], self.level[channels], self.there[channels])


@dataclass(frozen=True)
class Side:
    """All ends of one side, (C, R) each: accumulators, levels, rooms in outputs, and which count of
    each sign."""

    acc: IntArray
    level: IntArray
    room: Reals
    signs: tuple[NDArray[np.bool_], NDArray[np.bool_]]

    def tightest(self) -> tuple[Ends, Reals, Reals]:
        """The ends that are kept; (C, 2) the room of the tightest, and what all others have."""
        count = self.acc.shape[1]
        points = min(_POINTS, count - 1)
        numbers, rooms = [], []
        for own in self.signs:
            room = np.where(own, self.room, np.inf)
            # One more than is kept: it says how much room the others have.
            number = np.argpartition(room, points, axis=1)[:, : points + 1]
            numbers.append(number)
            rooms.append(np.take_along_axis(room, number, axis=1))
        number, room = np.stack(numbers, axis=1), np.stack(rooms, axis=1)
        if count > _POINTS:
            number, others = number[:, :, :points], room[:, :, points]
            room = room[:, :, :points]
        else:
            others = np.full(room.shape[:2], np.inf)
        rows = np.arange(len(number))[:, None, None]
        ends = Ends(self.acc[rows, number], self.level[rows, number], np.isfinite(room))
        return ends, room.min(axis=2), others


@dataclass(frozen=True)
class TightEnds:
    """Of all channels. first, last: ends at which runs begin, and end. slack: (C,) room between the
    tightest of both; below zero, the real line is wrong. apart, sign_apart: (C,) by how many
    outputs all others are roomier than the tightest, of either sign and of their own."""

    first: Ends
    last: Ends
    slack: Reals
    apart: Reals
    sign_apart: Reals

    @classmethod
    def of(cls, first: Side, last: Side) -> TightEnds:
        """The tightest ends of all."""
        kept = [side.tightest() for side in (first, last)]
        slack = np.add(*(room.min(axis=1) for _, room, _ in kept))
        apart = [_apart(room.min(axis=1), others.min(axis=1)) for _, room, others in kept]
        sign_apart = [_apart(room, others).min(axis=1) for _, room, others in kept]
        begins, ends = (own for own, _, _ in kept)
        return cls(begins, ends, slack, np.minimum(*apart), np.minimum(*sign_apart))

    def take(self, channels: IntArray) -> TightEnds:
        """Some of the channels: their numbers, (n,)."""
        return TightEnds(
            self.first.take(channels),
            self.last.take(channels),
            self.slack[channels],
            self.apart[channels],
            self.sign_apart[channels],
        )

    def refuse(self, far: Reals) -> NDArray[np.bool_]:
        """(C,): whether no line that lies at most `far` (C,) outputs from the real one is right at
        all ends."""
        return np.asarray(self.slack + 2 * far < -_ROUNDED, np.bool_)

    def decide(self, far: Reals, *, signed: bool) -> NDArray[np.bool_]:
        """(C,): whether no other end can narrow the window of a candidate that lies at most `far`
        (C,) outputs from the real line. signed: each sign has a window of its own."""
        return np.asarray(2 * far < (self.sign_apart if signed else self.apart), np.bool_)


def _apart(room: Reals, others: Reals) -> Reals:
    """Infinite where there are no others."""
    there = np.isfinite(others)
    return np.where(there, np.where(there, others, 0) - np.where(there, room, 0) - _ROUNDED, np.inf)
