# SPDX-License-Identifier: Apache-2.0
"""Whether a device's function is the network's, on all values that can occur.

In:   functions (functions.py) and the intervals of the sums that they are functions of.
Out:  Equality: verdicts, and the range of a function.
Next: values.py asks it for each byte that a device stores.

A function of few values is compared on all of them. One of a long interval is cut into *pieces* in
each of which it never decreases, by construction: a requantization is one piece, a digit of a sum
has a piece for every 256. The network's function never decreases either. So where both have one
value at the ends of a stretch they are equal in all of it, and it is enough to compare them at the
ends of the pieces and wherever the network's function steps, of which there are at most 255.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FIRST, FunctionKind, Functions, distinct
from loadstone.prove.requantize import Average, Away, Double, Float32, Scaling

__all__ = ["INT32", "Equality"]

INT32 = (-(1 << 31), (1 << 31) - 1)
_BYTE = (-128, 127)
_FEW, _MANY = 1 << 10, 1 << 22  # values: compared one by one, at once; at all
_ROWS = 256  # functions that are evaluated side by side
_PROBES = 33
Mask = NDArray[np.bool_]


class Equality:
    """Verdicts, each reached once."""

    def __init__(self, functions: Functions, tolerance: int = 0) -> None:
        """tolerance: by how much functions may differ that are called equal. Where neither
        decreases, a bound on the difference holds between two values if it holds at both and the
        network's function has no step between them."""
        self.functions, self.tolerance = functions, tolerance
        self._verdicts: dict[tuple[int, ...], bool] = {}
        self._ranges: dict[tuple[int, ...], tuple[int, int]] = {}
        self._first_reached: dict[tuple[int, int, int, bytes], Integers] = {}
        #: How many equalities were proved in which way.
        self.at_steps = self.by_pieces = self.value_by_value = 0

    # --- of one sum -------------------------------------------------------------------------------
    def equal(self, device: Integers, network: Integers, low: Integers, high: Integers) -> Mask:
        """Whether functions (n,) are equal on all integers of [low, high] (n,); False also where
        that cannot be decided."""
        first, inverse = distinct(np.stack([device, network, low, high], 1))
        keys = list(zip(*(a[first].tolist() for a in (device, network, low, high)), strict=True))
        todo = first[[key not in self._verdicts and key[0] != key[1] for key in keys]]
        shapes = np.stack(
            [self.functions.shapes(device[todo]), self.functions.shapes(network[todo])]
        )
        for shape in np.unique(shapes, axis=1).T if len(todo) else ():
            rows = todo[(shapes == shape[:, None]).all(0)]
            for begin in range(0, len(rows), _ROWS):
                at = rows[begin : begin + _ROWS]
                asked = device[at], network[at], low[at], high[at]
                named = zip(*(a.tolist() for a in asked), strict=True)
                self._verdicts.update(zip(named, self._compared(*asked).tolist(), strict=True))
        found = [key[0] == key[1] or self._verdicts[key] for key in keys]
        return np.array(found, bool)[inverse]

    def _compared(self, f: Integers, g: Integers, low: Integers, high: Integers) -> Mask:
        verdict = np.zeros(len(f), bool)
        few = high - low < _FEW
        if few.any():
            verdict[few] = self._on_all(f[few], g[few], low[few], high[few])
            self.value_by_value += int(verdict[few].sum())
        probes = low[:, None] + (high - low)[:, None] * np.arange(_PROBES) // (_PROBES - 1)
        left = np.flatnonzero(~few & self._same_at(f, g, probes))
        if not len(left):
            return verdict
        rises, first, last = self.monotone(g[left], low[left], high[left])
        plain = self.monotone(f[left], low[left], high[left])[0]
        fast = left[rises & plain]
        if len(fast):
            steps = self._steps(
                g[fast], low[fast], high[fast], first[rises & plain], last[rises & plain]
            )
            verdict[fast] = self._same_at(f[fast], g[fast], steps)
            self.at_steps += int(verdict[fast].sum())
        for k, row in enumerate(left.tolist()):
            if rises[k] and plain[k]:
                continue
            one = slice(row, row + 1)
            starts = self._pieces(int(f[row]), int(low[row]), int(high[row])) if rises[k] else None
            if starts is not None:
                ends = np.append(starts[1:] - 1, high[row])
                steps = self._steps(g[one], low[one], high[one], first[k : k + 1], last[k : k + 1])
                where = np.concatenate([starts, ends, steps[0]])[None]
                verdict[row] = self._same_at(f[one], g[one], where)[0]
                self.by_pieces += int(verdict[row])
            elif high[row] - low[row] < _MANY:
                verdict[row] = self._on_all(f[one], g[one], low[one], high[one])[0]
                self.value_by_value += int(verdict[row])
        return verdict

    def _same_at(self, f: Integers, g: Integers, where: Integers) -> Mask:
        theirs, ours = (self.functions.evaluate(one, where) for one in (f, g))
        return np.asarray((np.abs(theirs - ours) <= self.tolerance).all(1))

    def _on_all(self, f: Integers, g: Integers, low: Integers, high: Integers) -> Mask:
        same = np.ones(len(f), bool)
        longest = int((high - low).max()) + 1
        for begin in range(0, longest, 1 << 16):
            offsets = np.arange(begin, min(begin + (1 << 16), longest))
            same &= self._same_at(f, g, np.minimum(low[:, None] + offsets, high[:, None]))
        return same

    # --- what is known of a function --------------------------------------------------------------
    def monotone(
        self, f: Integers, low: Integers, high: Integers
    ) -> tuple[Mask, Integers, Integers]:
        """Which functions (n,) of one shape never decrease on [low, high], by construction; their
        values at low and at high."""
        functions = self.functions
        kind, p = functions.kind(int(f[0])), functions.parameters(f)
        if kind == FunctionKind.INPUT:
            return np.full(len(f), int(p[0, 0]) == FIRST), low, high
        kids = functions.arguments(f)
        inner = [self.monotone(kid, low, high) for kid in kids]
        rises = np.logical_and.reduce([one[0] for one in inner])
        first, last = inner[0][1:]
        if kind == FunctionKind.SUM:
            first = sum(c * one[1] for c, one in zip(p[2:], inner, strict=True)) + p[0] >> p[1]
            last = sum(c * one[2] for c, one in zip(p[2:], inner, strict=True)) + p[0] >> p[1]
            rises &= (p[2:] >= 0).all(0)
            return rises & _inside(first, last, INT32), first, last
        rises &= self._keeps_order(kind, p, first, last)
        ends = functions.apply(kind, p[..., None], [np.stack(one[1:], 1) for one in inner])
        return rises, ends[:, 0], ends[:, 1]

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
                return _inside(first, last, _BYTE)
            case FunctionKind.RQ:
                return _requantizes_in_order(p, first + p[0], last + p[0])
            case FunctionKind.RULE:
                scaling = self.functions.rules[int(p[0, 0])][0].scaling
                return _scales_in_order(scaling, p[1], first, last)
            case _:
                return np.zeros(len(first), bool)

    def _steps(
        self, g: Integers, low: Integers, high: Integers, first: Integers, last: Integers
    ) -> Integers:
        """(n, points) around all steps of functions (n,) of one shape that rise from first at low
        to last at high: the last value below each level, and the first that reaches it."""
        levels = first[:, None] + 1 + np.arange(max(int((last - first).max()), 0))
        levels = np.minimum(levels, last[:, None])
        below = np.broadcast_to(low[:, None], levels.shape).copy()
        reached = np.broadcast_to(high[:, None], levels.shape).copy()
        guess = self._guess(g, levels, low, high)
        if guess is not None:
            for offset in (-2, 2):
                tried = np.clip(guess + offset, low[:, None], high[:, None])
                enough = self.functions.evaluate(g, tried) >= levels
                reached = np.where(enough, np.minimum(reached, tried), reached)
                below = np.where(enough, below, np.maximum(below, tried))
        while (reached - below > 1).any():
            middle = (below + reached) >> 1
            enough = self.functions.evaluate(g, middle) >= levels
            reached, below = np.where(enough, middle, reached), np.where(enough, below, middle)
        return np.concatenate([low[:, None], below, reached, high[:, None]], 1)

    def _guess(
        self, g: Integers, levels: Integers, low: Integers, high: Integers
    ) -> Integers | None:
        """Where a requantization of a multiple of the sum reaches levels, nearly; None where it
        is none."""
        functions = self.functions
        if functions.kind(int(g[0])) != FunctionKind.RULE:
            return None
        p, kid = functions.parameters(g), functions.arguments(g)[0]
        requantization, taken = functions.rules[int(p[0, 0])]
        wanted = levels + taken - requantization.zero_point - 0.5
        with np.errstate(all="ignore"):
            guess = wanted / _slope(requantization.scaling, p[1])[:, None]
            if functions.kind(int(kid[0])) == FunctionKind.SUM:
                inner = functions.parameters(kid)
                if len(inner) != 3 or inner[1].any():
                    return None
                guess = (guess - inner[0][:, None]) / inner[2][:, None]
            guess = np.clip(np.nan_to_num(guess), low[:, None], high[:, None])
        return np.rint(guess).astype(np.int64)

    def _pieces(self, f: int, low: int, high: int) -> Integers | None:
        """Where the pieces of [low, high] begin in each of which f never decreases; None where its
        form does not say it."""
        one, ends = np.array([f]), (np.array([low]), np.array([high]))
        rises, first, last = self.monotone(one, *ends)
        if rises[0]:
            return np.array([low], np.int64)
        functions = self.functions
        kind, p = functions.kind(f), functions.parameters(one)[:, 0]
        if kind == FunctionKind.BYTE:
            kid = int(functions.arguments(one)[0, 0])
            rises, first, last = self.monotone(np.array([kid]), *ends)
            if not rises[0]:
                return None
            begin = ((int(first[0]) + 128) // 256 + 1) * 256 - 128
            levels = np.arange(begin, int(last[0]) + 1, 256)
            return np.unique(np.append(low, self._reached(kid, levels, low, high)))
        if kind in (FunctionKind.MIN, FunctionKind.MAX) or (
            kind == FunctionKind.SHIFT and p[0] >= 0
        ):
            return self._pieces(int(functions.arguments(one)[0, 0]), low, high)
        if kind == FunctionKind.SUM:
            return self._pieces_of_sum(p, functions.arguments(one)[:, 0], low, high)
        return None

    def _pieces_of_sum(self, p: Integers, kids: Integers, low: int, high: int) -> Integers | None:
        starts = [np.array([low], np.int64)]
        least = most = int(p[0])
        for coefficient, kid in zip(p[2:].tolist(), kids.tolist(), strict=True):
            one = np.array([kid])
            rises, first, last = self.monotone(one, np.array([low]), np.array([high]))
            ends = int(first[0]), int(last[0])
            if not rises[0]:
                if self.functions.kind(kid) != FunctionKind.BYTE:
                    return None
                ends = _BYTE
            if coefficient < 0:  # pieces in which it does not move at all
                if not rises[0] or ends[1] - ends[0] > 512:
                    return None
                levels = np.arange(ends[0] + 1, ends[1] + 1)
                part: Integers | None = self._reached(kid, levels, low, high)
            else:
                part = self._pieces(kid, low, high)
            if part is None:
                return None
            starts.append(part)
            least += min(coefficient * ends[0], coefficient * ends[1])
            most += max(coefficient * ends[0], coefficient * ends[1])
        if least >> p[1] < INT32[0] or most >> p[1] > INT32[1]:
            return None
        return np.unique(np.concatenate(starts))

    def _reached(self, f: int, levels: Integers, low: int, high: int) -> Integers:
        """The first values at which the non-decreasing f reaches levels, all of which it does."""
        key = f, low, high, levels.tobytes()
        if key not in self._first_reached:
            below, reached = np.full(levels.shape, low - 1), np.full(levels.shape, high)
            one = np.array([f])
            while (reached - below > 1).any():
                middle = (below + reached) >> 1
                enough = self.functions.evaluate(one, middle[None])[0] >= levels
                reached, below = np.where(enough, middle, reached), np.where(enough, below, middle)
            self._first_reached[key] = reached
        return self._first_reached[key]

    def ranges(self, f: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of functions (n,) on [low, high]; those of 32 bits
        where that is not known."""
        first, inverse = distinct(np.stack([f, low, high], 1))
        keys = list(zip(*(a[first].tolist() for a in (f, low, high)), strict=True))
        todo = first[[key not in self._ranges for key in keys]]
        shapes = self.functions.shapes(f[todo]) if len(todo) else np.zeros(0, np.int64)
        for shape in np.unique(shapes):
            rows = todo[shapes == shape]
            rises, least, most = self.monotone(f[rows], low[rows], high[rows])
            for k, row in enumerate(rows.tolist()):
                key = int(f[row]), int(low[row]), int(high[row])
                ends = int(least[k]), int(most[k])
                self._ranges[key] = ends if rises[k] else self._range(*key)
        found = np.array([self._ranges[key] for key in keys], np.int64).reshape(-1, 2)[inverse]
        return found[:, 0], found[:, 1]

    def _range(self, f: int, low: int, high: int) -> tuple[int, int]:
        one = np.array([f])
        if high - low < _FEW:
            y = self.functions.evaluate(one, np.arange(low, high + 1)[None])
            return int(y.min()), int(y.max())
        starts = self._pieces(f, low, high)
        if starts is None:
            return _BYTE if self.functions.kind(f) == FunctionKind.BYTE else INT32
        y = self.functions.evaluate(one, np.concatenate([starts, starts[1:] - 1, [high]])[None])
        return int(y.min()), int(y.max())

    # --- of two bytes -----------------------------------------------------------------------------
    def equal_of_two(self, f: int, g: int, ranges: tuple[int, int, int, int]) -> bool:
        """Whether functions of two bytes are equal on all pairs; ranges: low, high of the first,
        low, high of the second."""
        key = f, g, *ranges
        if key not in self._verdicts:
            pairs = all_pairs(ranges)
            same = [self.functions.evaluate(np.array([one]), *pairs) for one in (f, g)]
            self._verdicts[key] = bool((np.abs(same[0] - same[1]) <= self.tolerance).all())
            self.value_by_value += int(self._verdicts[key])
        return f == g or self._verdicts[key]

    def range_of_two(self, f: int, ranges: tuple[int, int, int, int]) -> tuple[int, int]:
        """The least and the greatest value on all pairs."""
        key = f, *ranges
        if key not in self._ranges:
            y = self.functions.evaluate(np.array([f]), *all_pairs(ranges))
            self._ranges[key] = int(y.min()), int(y.max())
        return self._ranges[key]


def all_pairs(ranges: tuple[int, int, int, int]) -> tuple[Integers, Integers]:
    """All pairs of two bytes, as two arrays (1, pairs)."""
    a, b = np.arange(ranges[0], ranges[1] + 1), np.arange(ranges[2], ranges[3] + 1)
    return np.repeat(a, len(b))[None], np.tile(b, len(a))[None]


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
