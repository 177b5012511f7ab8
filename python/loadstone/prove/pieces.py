# SPDX-License-Identifier: Apache-2.0
"""Where a function of one integer rises: pieces in each of which it never decreases, and its steps.

In:   functions (functions.py) of one shape, and an interval for each.
Out:  Pieces: where their pieces begin, where they reach levels; by construction, not by trial.
Next: equality.py compares functions at these places alone.

All functions of one shape, which those of a layer's channels mostly have, are looked at side by
side. What is guessed here is only where to look first: a place counts when the function itself,
evaluated there and just before, says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FIRST, FunctionKind, Functions
from loadstone.prove.requantize import Average, Away, Double, Float32, Scaling

__all__ = ["BYTE", "INT32", "Mask", "Pieces", "Rise", "chunks"]

BYTE, INT32 = (-128, 127), (-(1 << 31), (1 << 31) - 1)
#: Levels of a part that is subtracted: it has a piece for each.
_LEVELS = 512
#: Where levels are looked for that are not where they were guessed.
_OFFSETS = (-4, 4, -64, 64)
_POINTS = 1 << 15  # values that are looked at side by side, which caches hold
Mask = NDArray[np.bool_]
#: Which functions (n,) never decrease on their intervals, by construction; values at both ends.
Rise = tuple[Mask, Integers, Integers]


class Pieces:
    """Of functions (n,) of one shape, on all integers of [low, high] (n,)."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    # --- what rises -------------------------------------------------------------------------------
    def rise(self, f: Integers, low: Integers, high: Integers) -> Rise:
        """Which of the functions (n,) never decrease, by construction; their values (n,) at low and
        at high."""
        return self._rise(f, low, high, {})

    def _rise(self, f: Integers, low: Integers, high: Integers, known: dict[bytes, Rise]) -> Rise:
        key = f.tobytes()
        if key not in known:
            kind, p = self.functions.kind(int(f[0])), self.functions.parameters(f)
            if kind == FunctionKind.INPUT:
                return np.full(len(f), int(p[0, 0]) == FIRST), low, high
            inner = [self._rise(kid, low, high, known) for kid in self.functions.arguments(f)]
            known[key] = self._risen(kind, p, inner)
        return known[key]

    def _risen(self, kind: FunctionKind, p: Integers, inner: list[Rise]) -> Rise:
        """One step of parameters (p, n) behind its arguments."""
        rises = np.logical_and.reduce([one[0] for one in inner])
        first, last = inner[0][1:]
        if kind == FunctionKind.SUM:
            first = sum(c * one[1] for c, one in zip(p[2:], inner, strict=True)) + p[0] >> p[1]
            last = sum(c * one[2] for c, one in zip(p[2:], inner, strict=True)) + p[0] >> p[1]
            rises &= (p[2:] >= 0).all(0)
            return rises & _inside(first, last, INT32), first, last
        rises &= self._keeps_order(kind, p, first, last)
        ends = [np.stack(one[1:], 1) for one in inner]
        made = self.functions.apply(kind, p[..., None], ends)
        return rises, made[:, 0], made[:, 1]

    def _keeps_order(
        self, kind: FunctionKind, p: Integers, first: Integers, last: Integers
    ) -> Mask:
        """Whether a step leaves a non-decreasing argument non-decreasing between these ends."""
        match kind:
            case FunctionKind.MIN | FunctionKind.MAX:
                return np.ones(len(first), bool)
            case FunctionKind.SHIFT:
                left = np.clip(-p[0], 0, 31)
                return np.asarray((p[0] >= -31) & _inside(first << left, last << left, INT32))
            case FunctionKind.PRODUCT:
                return np.asarray((p[0] >= 0) & _inside(first * p[0], last * p[0], INT32))
            case FunctionKind.BYTE:
                return _inside(first, last, BYTE)
            case FunctionKind.RQ:
                return _requantizes_in_order(p, first + p[0], last + p[0])
            case FunctionKind.RULE:
                scaling = self.functions.rules[int(p[0, 0])][0].scaling
                return _scales_in_order(scaling, p[1], first, last)
            case _:
                return np.zeros(len(first), bool)

    # --- what bounds it ---------------------------------------------------------------------------
    def bounds(self, f: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Between which the values of functions (n,) are on [low, high] (n,): the values at the
        ends of what rises, and what steps of others make of such bounds; those of 32 bits where
        nothing else is known."""
        return self._bounds(f, low, high, {})

    def _bounds(
        self, f: Integers, low: Integers, high: Integers, known: dict[bytes, Rise]
    ) -> tuple[Integers, Integers]:
        rises, first, last = self._rise(f, low, high, known)
        if rises.all():
            return first, last
        functions = self.functions
        kind, p = functions.kind(int(f[0])), functions.parameters(f)
        least, most = np.full(len(f), INT32[0]), np.full(len(f), INT32[1])
        match kind:
            case FunctionKind.BYTE:
                least, most = np.full(len(f), BYTE[0]), np.full(len(f), BYTE[1])
            case FunctionKind.RULE:
                rule, taken = functions.rules[int(p[0, 0])]
                least, most = (np.full(len(f), end - taken) for end in (rule.low, rule.high))
            case FunctionKind.MIN | FunctionKind.MAX | FunctionKind.SHIFT:
                inner = self._bounds(functions.arguments(f)[0], low, high, known)
                ends = functions.apply(kind, p[..., None], [np.stack(inner, 1)])
                keeps = self._keeps_order(kind, p, *inner)
                least, most = (np.where(keeps, ends[:, k], INT32[k]) for k in (0, 1))
            case FunctionKind.SUM:
                inner_ = [self._bounds(kid, low, high, known) for kid in functions.arguments(f)]
                least, most = _bounds_of_sum(p, inner_)
        return np.where(rises, first, least), np.where(rises, last, most)

    # --- where pieces begin -----------------------------------------------------------------------
    def starts(self, f: Integers, low: Integers, high: Integers) -> tuple[Mask, Integers]:
        """Which functions are cut into pieces by their form, and where these begin, (n, pieces):
        in no order, each as often as rows of one length need, low among them."""
        rises, _, _ = self.rise(f, low, high)
        cut, starts = rises.copy(), low[:, None]
        rest = np.flatnonzero(~rises)
        if len(rest):
            cut[rest], there = self._starts(f[rest], low[rest], high[rest])
            starts = _rows(low, rest, np.concatenate([low[rest, None], there], 1))
        return cut, starts

    def _starts(self, f: Integers, low: Integers, high: Integers) -> tuple[Mask, Integers]:
        """The same of functions that do not rise all along; low may be missing."""
        functions = self.functions
        kind, p = functions.kind(int(f[0])), functions.parameters(f)
        none = np.zeros(len(f), bool), low[:, None]
        match kind:
            case FunctionKind.BYTE:
                return self._starts_of_byte(functions.arguments(f)[0], low, high)
            case FunctionKind.MIN | FunctionKind.MAX:
                return self.starts(functions.arguments(f)[0], low, high)
            case FunctionKind.SHIFT:
                cut, starts = self.starts(functions.arguments(f)[0], low, high)
                return cut & (p[0] >= 0), starts
            case FunctionKind.SUM:
                return self._starts_of_sum(p, functions.arguments(f), low, high)
            case _:
                return none

    def _starts_of_byte(
        self, kid: Integers, low: Integers, high: Integers
    ) -> tuple[Mask, Integers]:
        """The low byte of what rises falls where that reaches 128 more than a multiple of 256."""
        rises, first, last = self.rise(kid, low, high)
        begin = ((first + 128) // 256 + 1) * 256 - 128
        count = int(np.maximum((last - begin)[rises] // 256 + 1, 0).max(initial=0))
        levels = begin[:, None] + 256 * np.arange(count)
        levels = np.where(levels <= last[:, None], levels, first[:, None])
        at = np.flatnonzero(rises)
        starts = np.repeat(low[:, None], max(count, 1), 1)
        if count and len(at):
            starts[at] = self.reached(kid[at], levels[at], low[at], high[at])
        return rises, starts

    def _starts_of_sum(
        self, p: Integers, kids: Integers, low: Integers, high: Integers
    ) -> tuple[Mask, Integers]:
        """Where all parts rise or, with a coefficient below 0, do not move at all; the sum must
        not wrap."""
        cut, starts = np.ones(len(low), bool), [low[:, None]]
        least, most = p[0], p[0]
        for coefficient, kid in zip(p[2:], kids, strict=True):
            rises, first, last = self.rise(kid, low, high)
            if self.functions.kind(int(kid[0])) == FunctionKind.BYTE:
                first, last = np.where(rises, first, BYTE[0]), np.where(rises, last, BYTE[1])
            else:
                cut &= rises
            products = coefficient * first, coefficient * last
            least, most = least + np.minimum(*products), most + np.maximum(*products)
            falls = coefficient < 0
            cut &= ~falls | (rises & (last - first <= _LEVELS))
            at = np.flatnonzero(cut & falls)
            if len(at):
                levels = first[at, None] + np.arange(int((last - first)[at].max()) + 1)
                levels = np.minimum(levels, last[at, None])
                starts.append(_rows(low, at, self.reached(kid[at], levels, low[at], high[at])))
            at = np.flatnonzero(cut & ~falls & ~rises)
            if len(at):
                cut[at], part = self.starts(kid[at], low[at], high[at])
                starts.append(_rows(low, at, part))
        cut &= (least >> p[1] >= INT32[0]) & (most >> p[1] <= INT32[1])
        return cut, np.concatenate(starts, 1)

    # --- where levels are reached -----------------------------------------------------------------
    def steps(self, g: Integers, low: Integers, high: Integers, rise: Rise) -> Integers:
        """(n, points) around all steps of functions that rise: the last value below each level,
        and the first that reaches it; and both ends."""
        _, first, last = rise
        levels = first[:, None] + 1 + np.arange(max(int((last - first).max()), 0))
        levels = np.minimum(levels, last[:, None])
        reached = self.reached(g, levels, low, high)
        before = np.maximum(reached - 1, low[:, None])
        return np.concatenate([low[:, None], before, reached, high[:, None]], 1)

    def reached(self, f: Integers, levels: Integers, low: Integers, high: Integers) -> Integers:
        """The first values at which functions that rise reach levels (n, k), none of which is
        above their value at high."""
        found = [self._reached(f[at], levels[at], low[at], high[at]) for at in chunks(levels)]
        return np.concatenate(found)

    def _reached(self, f: Integers, levels: Integers, low: Integers, high: Integers) -> Integers:
        below = np.repeat(low[:, None] - 1, levels.shape[1], 1)
        reached = np.repeat(high[:, None], levels.shape[1], 1)
        guesses = self._guess(f, levels.astype(np.float64))
        if guesses is not None:
            with np.errstate(invalid="ignore"):
                guess = np.ceil(np.clip(guesses, low[:, None], high[:, None])).astype(np.int64)
            # Most of what is guessed is right, or one too high or too low.
            self._try(f, levels, guess, below, reached)
            self._try(f, levels, guess - 1, below, reached)
        row, column = np.nonzero(reached - below > 1)
        if not len(row):
            return reached
        some = [one[row, column][:, None] for one in (levels, below, reached)]
        if guesses is not None:
            near = guess[row, column][:, None]
            for offset in _OFFSETS:
                self._try(f[row], some[0], near + offset, *some[1:])
        left = np.arange(len(row))
        while len(left):
            ends = some[1][left], some[2][left]
            self._try(f[row[left]], some[0][left], ends[0] + ends[1] >> 1, *ends)
            some[1][left], some[2][left] = ends
            left = left[(ends[1] - ends[0] > 1)[:, 0]]
        reached[row, column] = some[2][:, 0]
        return reached

    def _try(
        self, f: Integers, levels: Integers, at: Integers, below: Integers, reached: Integers
    ) -> None:
        """Narrows (below, reached] by what the functions are at places between: below they do not
        reach the levels, at reached they do."""
        at = np.minimum(np.maximum(at, below + 1), reached)
        enough = self.functions.evaluate(f, at) >= levels
        np.copyto(reached, at, where=enough)
        np.copyto(below, at, where=~enough)

    def _guess(self, f: Integers, levels: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Where functions that rise reach levels (n, k), nearly; None where nothing says it."""
        functions = self.functions
        kind, p = functions.kind(int(f[0])), functions.parameters(f)[..., None]
        match kind:
            case FunctionKind.INPUT:
                return levels
            case FunctionKind.MIN | FunctionKind.MAX:
                guess = levels
            case FunctionKind.SHIFT:
                guess = np.ceil(levels) * np.exp2(p[0])
            case FunctionKind.SUM if len(p) == 3:
                with np.errstate(all="ignore"):
                    guess = (np.ceil(levels) * np.exp2(p[1]) - p[0]) / p[2]
            case FunctionKind.RULE:
                rule, taken = functions.rules[int(p[0, 0, 0])]
                wanted = levels + taken - rule.zero_point - 0.5
                with np.errstate(all="ignore"):
                    guess = wanted / _slope(rule.scaling, p[1, :, 0])[:, None]
            case _:
                return None
        return self._guess(functions.arguments(f)[0], guess)


def _bounds_of_sum(
    p: Integers, inner: list[tuple[Integers, Integers]]
) -> tuple[Integers, Integers]:
    """Of (x coefficient + ... + c) >> s with parameters p; INT32 where it may wrap."""
    least = most = p[0]
    for coefficient, ends in zip(p[2:], inner, strict=True):
        products = coefficient * ends[0], coefficient * ends[1]
        least, most = least + np.minimum(*products), most + np.maximum(*products)
    least, most = least >> p[1], most >> p[1]
    inside = _inside(least, most, INT32)
    return np.where(inside, least, INT32[0]), np.where(inside, most, INT32[1])


def chunks(where: Integers) -> Iterator[slice]:
    """Rows of where (n, points) with no more points than caches hold."""
    step = max(_POINTS // max(where.shape[1], 1), 1)
    for begin in range(0, len(where), step):
        yield slice(begin, begin + step)


def _rows(low: Integers, at: Integers, starts: Integers) -> Integers:
    """Starts (n, k) of which the rows `at` are these, and the others low."""
    made = np.repeat(low[:, None], starts.shape[1], 1)
    made[at] = starts
    return made


def _inside(first: Integers, last: Integers, limits: tuple[int, int]) -> Mask:
    return np.asarray((first >= limits[0]) & (last <= limits[1]))


def _slope(scaling: Scaling, channel: Integers) -> NDArray[np.float64]:
    """Levels for one of the sum, nearly."""
    match scaling:
        case Double():
            shifts = scaling.shifts[channel] - 31
            return np.asarray(np.ldexp(scaling.multipliers[channel].astype(np.float64), shifts))
        case Average():
            return np.full(len(channel), 1 / scaling.count)
        case _:
            return scaling.reals[channel]


def _scales_in_order(scaling: Scaling, channel: Integers, first: Integers, last: Integers) -> Mask:
    match scaling:
        case Double():
            left = np.maximum(scaling.shifts[channel], 0)
            inside = _inside(first << left, last << left, INT32)
            return inside & (scaling.multipliers[channel] >= 0)
        case Average():
            return np.ones(len(first), bool)
        case Away() | Float32():
            return np.asarray(scaling.reals[channel] >= 0)


def _requantizes_in_order(p: Integers, first: Integers, last: Integers) -> Mask:
    """RQ; first, last: with the bias."""
    _, multiplier, lane, _, _, _, rounding = p
    inside = _inside(first, last, INT32)
    if int(rounding[0]) > 1:
        return np.asarray(inside & (multiplier.astype(np.int32).view(np.float32) > 0))
    shift = np.clip(((lane & 255) ^ 128) - 128, -31, 30)
    left = (lane >> 8 & 31) + (np.maximum(shift, 0) if int(rounding[0]) == 0 else 0)
    ends = (np.ldexp(end.astype(np.float64), left) for end in (first, last))
    inside &= np.logical_and.reduce([(end >= INT32[0]) & (end <= INT32[1]) for end in ends])
    return np.asarray(inside & (multiplier >= 0))
