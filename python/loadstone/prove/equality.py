# SPDX-License-Identifier: Apache-2.0
"""Whether a device's function is the network's, on all values that can occur.

In:   functions (functions.py), the intervals of the sums that they are functions of, and their
      pieces (pieces.py).
Out:  Equality: verdicts, and the range of a function.
Next: values.py asks it for each byte that a device stores.

A function of few values is compared on all of them. One of a long interval is cut into *pieces* in
each of which it never decreases, by construction: a requantization is one piece, a digit of a sum
has a piece for every 256. The network's function never decreases either. So where both have one
value at the ends of a stretch they are equal in all of it, and it is enough to compare them at the
ends of the pieces and wherever the network's function steps, of which there are at most 255.
Before the first of these and behind the last one the device's function mostly has one value, too,
as bounds of its parts say: what they say it of is not cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import Functions
from loadstone.prove.keys import distinct
from loadstone.prove.pieces import INT32, Mask, Pieces, chunks

__all__ = ["INT32", "Equality", "Mask"]

_FEW, _MANY = 1 << 10, 1 << 23  # values: compared one by one, at once; at all
_ROWS = 64  # functions that are looked at side by side
_PROBES = 33
_MARGIN = 1 << 10  # sums before the first step, behind the last one: a few pieces


class Equality:
    """Verdicts, each reached once."""

    def __init__(self, functions: Functions, tolerance: int = 0) -> None:
        """tolerance: by how much functions may differ that are called equal. Where neither
        decreases, a bound on the difference holds between two values if it holds at both and the
        network's function has no step between them."""
        self.functions, self.tolerance = functions, tolerance
        self.pieces = Pieces(functions)
        self._verdicts: dict[tuple[int, ...], bool] = {}
        self._ranges: dict[tuple[int, ...], tuple[int, int]] = {}
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
        for at in _side_by_side(shapes, todo, high - low):
            asked = device[at], network[at], low[at], high[at]
            named = zip(*(a.tolist() for a in asked), strict=True)
            self._verdicts.update(zip(named, self._compared(*asked).tolist(), strict=True))
        found = [key[0] == key[1] or self._verdicts[key] for key in keys]
        return np.array(found, bool)[inverse]

    def _compared(self, f: Integers, g: Integers, low: Integers, high: Integers) -> Mask:
        """Of functions (n,) of one shape."""
        verdict = np.zeros(len(f), bool)
        few = high - low < _FEW
        if few.any():
            verdict[few] = self._on_all(f[few], g[few], low[few], high[few])
            self.value_by_value += int(verdict[few].sum())
        probes = low[:, None] + (high - low)[:, None] * np.arange(_PROBES) // (_PROBES - 1)
        left = np.flatnonzero(~few & self._same_at(f, g, probes))
        if not len(left):
            return verdict
        cut = self.pieces.rise(g[left], low[left], high[left])[0]
        at = left[cut]
        if len(at):
            cut[cut], verdict[at] = self._by_pieces(f[at], g[at], low[at], high[at])
        for row in left[~cut & (high - low < _MANY)[left]].tolist():
            one = slice(row, row + 1)
            verdict[row] = self._on_all(f[one], g[one], low[one], high[one])[0]
            self.value_by_value += int(verdict[row])
        return verdict

    def _by_pieces(
        self, f: Integers, g: Integers, low: Integers, high: Integers
    ) -> tuple[Mask, Mask]:
        """Which functions (n,) are cut into pieces by their form, and which of these are equal to
        functions that rise."""
        same = np.zeros(len(f), bool)
        rise = self.pieces.rise(g, low, high)
        plain = self.pieces.rise(f, low, high)[0]
        steps = self.pieces.steps(g, low, high, rise)
        begin, end = self._unsaturated(f, steps, (low, high), rise[1:])
        cut, starts = self.pieces.starts(f, begin, end)
        where = np.concatenate([_ends(starts, begin, end), steps], 1)
        at = np.flatnonzero(cut)
        same[at] = self._same_at(f[at], g[at], where[at])
        self.at_steps += int((same & plain).sum())
        self.by_pieces += int((same & ~plain).sum())
        return cut, same

    def _unsaturated(
        self,
        f: Integers,
        steps: Integers,
        limits: tuple[Integers, Integers],
        values: tuple[Integers, Integers],
    ) -> tuple[Integers, Integers]:
        """What remains of intervals (n,) without the stretches before all steps of the network's
        function and behind them, as far as bounds say that the device's has one value there: that
        of the network's at this end."""
        low, high = limits
        begin, end = low.copy(), high.copy()
        first, last = steps[:, 1], steps[:, -2]
        for margin in (high - low >> 4, _MARGIN):
            to = np.maximum(first - margin, low)
            least, most = self.pieces.bounds(f, low, to)
            begin = np.where((least == values[0]) & (most == values[0]), to, begin)
            since = np.minimum(last + margin, high)
            least, most = self.pieces.bounds(f, since, high)
            end = np.where((least == values[1]) & (most == values[1]), since, end)
        return begin, np.maximum(begin, end)

    def _same_at(self, f: Integers, g: Integers, where: Integers) -> Mask:
        """Which functions (n,) are equal at all of where (n, points)."""
        same = np.ones(len(f), bool)
        for at in chunks(where):
            theirs, ours = (self.functions.evaluate(one[at], where[at]) for one in (f, g))
            same[at] = (np.abs(theirs - ours) <= self.tolerance).all(1)
        return same

    def _on_all(self, f: Integers, g: Integers, low: Integers, high: Integers) -> Mask:
        same = np.ones(len(f), bool)
        longest = int((high - low).max()) + 1
        for begin in range(0, longest, 1 << 16):
            offsets = np.arange(begin, min(begin + (1 << 16), longest))
            same &= self._same_at(f, g, np.minimum(low[:, None] + offsets, high[:, None]))
        return same

    def ranges(self, f: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of functions (n,) on [low, high]; those of 32 bits
        where that is not known."""
        first, inverse = distinct(np.stack([f, low, high], 1))
        keys = list(zip(*(a[first].tolist() for a in (f, low, high)), strict=True))
        todo = first[[key not in self._ranges for key in keys]]
        for at in _side_by_side(self.functions.shapes(f[todo])[None], todo, high - low):
            asked = f[at], low[at], high[at]
            named = zip(*(a.tolist() for a in asked), strict=True)
            ends = zip(*(a.tolist() for a in self._ranges_of(*asked)), strict=True)
            self._ranges.update(zip(named, ends, strict=True))
        found = np.array([self._ranges[key] for key in keys], np.int64).reshape(-1, 2)[inverse]
        return found[:, 0], found[:, 1]

    def _ranges_of(self, f: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Of functions (n,) of one shape."""
        rises = self.pieces.rise(f, low, high)[0]
        least, most = (ends.copy() for ends in self.pieces.bounds(f, low, high))
        few = ~rises & (high - low < _FEW)
        at = np.flatnonzero(few)
        if len(at):
            every = low[at, None] + np.arange(int((high - low)[at].max()) + 1)
            where = np.minimum(every, high[at, None])
            least[at], most[at] = self._extremes(f[at], where)
        # A part of the pieces is enough where it reaches bounds that no value is beyond.
        rest = np.flatnonzero(~rises & ~few)
        for part in (5, 0):
            if not len(rest):
                break
            to = low[rest] + (high[rest] - low[rest] >> part)
            cut, starts = self.pieces.starts(f[rest], low[rest], to)
            rest = rest[cut]
            ends = self._extremes(f[rest], _ends(starts[cut], low[rest], to[cut]))
            all_of_it = (ends[0] == least[rest]) & (ends[1] == most[rest])
            if part == 0:
                least[rest], most[rest] = ends
            rest = rest[~all_of_it]
        return least, most

    def _extremes(self, f: Integers, where: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest value of functions (n,) at where (n, points)."""
        found = np.zeros((2, len(f)), np.int64)
        for at in chunks(where):
            y = self.functions.evaluate(f[at], where[at])
            found[:, at] = y.min(1), y.max(1)
        return found[0], found[1]

    # --- of two bytes -----------------------------------------------------------------------------
    def equal_of_two(self, f: Integers, g: Integers, ends: Integers) -> Mask:
        """Whether functions (n,) of two bytes are equal on all pairs; ends (n, 4): low, high of the
        first, low, high of the second."""
        first, inverse = distinct(np.concatenate([np.stack([f, g], 1), ends], 1))
        same = [
            one == other or self._equal_of_two(one, other, (a, b, c, d))
            for one, other, a, b, c, d in zip(
                f[first].tolist(), g[first].tolist(), *ends[first].T.tolist(), strict=True
            )
        ]
        return np.array(same, bool)[inverse]

    def _equal_of_two(self, f: int, g: int, ranges: tuple[int, int, int, int]) -> bool:
        key = f, g, *ranges
        if key not in self._verdicts:
            pairs = all_pairs(ranges)
            same = [self.functions.evaluate(np.array([one]), *pairs) for one in (f, g)]
            self._verdicts[key] = bool((np.abs(same[0] - same[1]) <= self.tolerance).all())
            self.value_by_value += int(self._verdicts[key])
        return self._verdicts[key]

    def ranges_of_two(self, f: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """The least and the greatest values of functions (n,) on all pairs; ends as above."""
        first, inverse = distinct(np.concatenate([f[:, None], ends], 1))
        found = np.zeros((len(first), 2), np.int64)
        for row, (one, a, b, c, d) in enumerate(
            zip(f[first].tolist(), *ends[first].T.tolist(), strict=True)
        ):
            key = one, a, b, c, d
            if key not in self._ranges:
                y = self.functions.evaluate(np.array([one]), *all_pairs((a, b, c, d)))
                self._ranges[key] = int(y.min()), int(y.max())
            found[row] = self._ranges[key]
        return found[inverse, 0], found[inverse, 1]


def all_pairs(ranges: tuple[int, int, int, int]) -> tuple[Integers, Integers]:
    """All pairs of two bytes, as two arrays (1, pairs)."""
    a, b = np.arange(ranges[0], ranges[1] + 1), np.arange(ranges[2], ranges[3] + 1)
    return np.repeat(a, len(b))[None], np.tile(b, len(a))[None]


def _side_by_side(shapes: Integers, rows: Integers, length: Integers) -> Iterator[Integers]:
    """Rows (n,) in parts of one shape each, shapes (k, n), and of nearly one length: all that are
    looked at together have as many pieces as the longest."""
    order = np.lexsort((length[rows], *shapes))
    shapes, rows = shapes[:, order], rows[order]
    changes = np.flatnonzero((shapes[:, 1:] != shapes[:, :-1]).any(0)) + 1
    for begin, end in pairwise([0, *changes.tolist(), len(rows)]):
        for first in range(begin, end, _ROWS):
            yield rows[first : min(first + _ROWS, end)]


def _ends(starts: Integers, low: Integers, high: Integers) -> Integers:
    """Where pieces (n, k) begin and end, in no order."""
    before = np.maximum(starts - 1, low[:, None])
    return np.concatenate([starts, before, high[:, None]], 1)
