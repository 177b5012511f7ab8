# SPDX-License-Identifier: Apache-2.0
"""Chains that equal a rule: sums of inputs times constants, shifted and clamped.

In:   a LinearProblem: every combination of inputs that can occur, what the rule makes of each, and
      the real factor of each input.
Out:  the shortest chain that was found, proven on all of them; None where none was.
Next: pair.py and mean.py know the rules.

For given multipliers and a shift (linear_form.py) each combination bounds the offset r, so that a
candidate costs one maximum and one minimum. Few combinations decide; they are collected as they
refuse candidates, and only what they leave is tried on all. Nothing of this needs to be right: a
chain counts when chain.py finds it exact.

A linear form without corrections has most: it rounds half up, and half away from zero when its
multipliers are a little too large. What LiteRT rounds twice lies on another grid below zero, and
what falls half to even does so by the quotient: these need a correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.chain import AluStep, Chain, cycles, exact_end
from loadstone.vta.integers.linear_form import Correction, LinearForm, chains

__all__ = ["LinearProblem", "find_chain"]

IntArray = NDArray[np.int64]

#: Largest multipliers of one, two and three signed digits of eight bits, and of two where the upper
#: one is a sum of up to four weights.
_ONE, _TWO = 127, 127 * 256 + 127
_LARGEST = (_ONE, _TWO, 4 * _TWO, 256 * _TWO + _ONE)
#: Shifts tried with as many digits: the largest, and so many below it.
_SHIFTS = 5
_LARGEST_SHIFT = 30
#: Distances from the nearest multiplier.
_NUDGES = tuple(range(-3, 4))
#: Combinations that decide to begin with.
_FIRST = 97
#: Beyond every bound.
_FAR = 1 << 61


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """A rule on all combinations of its inputs.

    inputs: int8 values, or sums of them, that broadcast against each other; wanted: of the shape
        that they broadcast to; factors: real; zero_points: what each input is centred at.
    taps: tiles that each input is a sum of; largest: the largest weight in that sum.
    """

    inputs: tuple[IntArray, ...]
    wanted: IntArray
    factors: tuple[float, ...]
    zero_points: tuple[int, ...]
    low: int
    high: int
    taps: int = 1
    largest: int = 1

    @property
    def reach(self) -> int:
        """The largest magnitude of an input less its zero point."""
        pairs = zip(self.inputs, self.zero_points, strict=True)
        return max(int(np.abs(values - zero).max()) for values, zero in pairs)


def find_chain(
    problem: LinearProblem, corrections: Sequence[Correction] = (Correction.NONE,)
) -> Chain | None:
    """A proven chain of the first correction, and of the fewest digits, that have one."""
    points = _Points(problem)
    for correction in corrections:
        for digits in range(len(_LARGEST)):
            for form in points.forms(correction, digits):
                chain = _shortest(problem, form)
                if chain is not None:
                    return chain
    return None


def _shortest(problem: LinearProblem, form: LinearForm) -> Chain | None:
    """The shortest proven chain of a form, without clamps that nothing reaches."""
    ways = sorted(chains(form), key=lambda chain: cycles(chain, problem.taps))
    low, high = AluStep("max", problem.low), AluStep("min", problem.high)
    clamps: Sequence[Chain] = ((), (low,), (high,), (low, high))
    found = (exact_end(chain, clamps, problem.inputs, problem.wanted) for chain in ways[:2])
    return next(filter(None, found), None)


def _bounded(first: int, last: int, step: int) -> tuple[int, int]:
    """A part of a range of offsets, of one step at most: where all is clamped, nothing bounds it on
    one side, or on both."""
    if last - first <= step:
        return first, last
    if first > -_FAR // 2:
        return first, first + step
    return (last - step, last) if last < _FAR // 2 else (0, 0)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Multipliers (candidates, inputs) of one shift, and the correction that goes with them."""

    multipliers: IntArray
    shift: int
    correction: Correction

    def where(self, kept: NDArray[np.bool_]) -> _Candidates:
        """Some of them."""
        return _Candidates(self.multipliers[kept], self.shift, self.correction)


def _near_multipliers(exact: NDArray[np.float64]) -> IntArray:
    """Integers around exact multipliers; and all a little larger, which takes halves of both signs
    away from zero, while their ratios stay."""
    nudges = np.array(list(product(_NUDGES, repeat=len(exact))), np.float64)
    least = np.abs(exact[exact != 0]).min(initial=np.inf)
    stretched = exact * (1 + np.array([[1], [2], [3]]) / least)
    whole = np.rint(np.concatenate([exact + nudges, stretched])).astype(np.int64)
    return np.array(sorted(set(map(tuple, whole.tolist()))), np.int64)


@dataclass(frozen=True, eq=False)
class _Offsets:
    """Least and most r (exponents, candidates)."""

    least: IntArray
    most: IntArray

    @property
    def slack(self) -> IntArray:
        """Negative where no r is left."""
        return np.asarray(self.most - self.least, np.int64)


class _Points:
    """All combinations, flat, and the few of them that have decided so far."""

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        shape = problem.wanted.shape
        self.x = np.stack([np.broadcast_to(x, shape).ravel() for x in problem.inputs])
        self.wanted = problem.wanted.ravel()
        if len(problem.inputs) == 1:  # a step function: what lies around the steps decides
            steps = np.flatnonzero(np.diff(self.wanted))
            around = (steps[:, None] + np.arange(-1, 3)).ravel()
            kept = np.unique(np.clip([0, *around, self.wanted.size - 1], 0, self.wanted.size - 1))
            self.x, self.wanted = self.x[:, kept], self.wanted[kept]
        self.below = self.wanted > problem.low  # these bound r from below, the others from above
        self.above = self.wanted < problem.high
        self.centre = np.array(problem.zero_points, np.int64)[:, None]
        self.deciding = np.unique(np.linspace(0, self.wanted.size - 1, _FIRST).astype(np.int64))

    def forms(self, correction: Correction, digits: int) -> Iterator[LinearForm]:
        """Forms that hold everywhere, whose multipliers have one of the sizes of _LARGEST; those
        of most bits first."""
        factors = np.array(self.problem.factors)
        bits = np.abs(factors).max() * 2.0 ** np.arange(_LARGEST_SHIFT + 1)
        room = _LARGEST[digits] // self.problem.largest
        least = _LARGEST[digits - 1] // self.problem.largest if digits else 0
        shifts = np.flatnonzero((bits + max(_NUDGES) <= room) & (bits > least))
        for shift in reversed(shifts[-_SHIFTS:].tolist()):
            form = self._of_shift(factors * 2.0**shift, shift, correction)
            if form is not None:
                yield form

    def _of_shift(
        self, exact: NDArray[np.float64], shift: int, correction: Correction
    ) -> LinearForm | None:
        """The form that leaves most room, of those near the exact multipliers."""
        multipliers = _near_multipliers(exact)
        candidates = _Candidates(multipliers, shift, correction)
        room = 1 + 2 * float(np.abs(multipliers - exact).max(axis=0) @ np.abs(self.x).max(axis=1))
        near = None
        while True:
            slack = self._offsets(candidates, self.deciding).slack.max(axis=0)
            candidates, slack = candidates.where(slack >= 0), slack[slack >= 0]
            if not slack.size:
                return None
            if near is None:
                near = self._near(exact, candidates, room)
            best = candidates.where(np.arange(slack.size) == slack.argmax())
            refusing = self._refusing(best, near)
            if not refusing.size:
                return self._form(best, near)
            self.deciding = np.union1d(self.deciding, refusing)

    def _near(self, exact: NDArray[np.float64], candidates: _Candidates, room: float) -> IntArray:
        """The combinations that can decide: those to which the exact multipliers leave so little
        that the farthest candidate may take it. room: what that moves a sum by, twice."""
        shift = candidates.shift
        if candidates.correction is not Correction.NONE:
            return np.arange(self.wanted.size)
        reached = self.wanted * 2.0**shift - exact @ self.x
        least = np.where(self.below, reached, -np.inf)
        most = np.where(self.above, reached + 2.0**shift, np.inf)
        return np.flatnonzero((least >= least.max() - room) | (most <= most.min() + room))

    def _form(self, one: _Candidates, near: IntArray) -> LinearForm:
        """With the offsets that are left. near: the combinations that can decide."""
        offsets = self._offsets(one, near)
        exponent = int(offsets.slack[:, 0].argmax())
        first, last = _bounded(
            int(offsets.least[exponent, 0]), int(offsets.most[exponent, 0]), 1 << one.shift
        )
        return LinearForm(
            tuple(one.multipliers[0].tolist()),
            one.shift,
            (first, last),
            self.problem.zero_points,
            self.problem.reach,
            one.correction,
            exponent,
            self.problem.largest,
        )

    def _offsets(self, candidates: _Candidates, at: IntArray) -> _Offsets:
        """Least and most r of each candidate, for each exponent that the correction may have."""
        (least, most), *with_c = self._ranges(candidates, at)
        exponents = range(candidates.shift + 1) if with_c else (0,)
        steps = np.int64(1) << np.array(exponents, np.int64)[:, None]
        least, most = least + 0 * steps, most + 0 * steps
        for least_c, most_c in with_c:
            least, most = np.maximum(least, least_c + steps), np.minimum(most, most_c + steps)
        return _Offsets(least, most)

    def _ranges(self, candidates: _Candidates, at: IntArray) -> list[tuple[IntArray, IntArray]]:
        """(least, most) r of each candidate, at combinations without c, and at those with it."""
        least, most = self._bounds(candidates, at)
        return [
            (
                least.max(axis=1, where=part, initial=-_FAR),
                most.min(axis=1, where=part, initial=_FAR),
            )
            for part in self._parts(candidates, at)
        ]

    def _refusing(self, one: _Candidates, near: IntArray) -> IntArray:
        """Combinations, of those near, that leave a candidate no r; none where there is one."""
        if self._offsets(one, near).slack.max() >= 0:
            return near[:0]
        least, most = self._bounds(one, near)
        found: list[int] = []
        for part in self._parts(one, near):
            lower, upper = np.where(part, least, -_FAR)[0], np.where(part, most, _FAR)[0]
            found += [int(near[lower.argmax()]), int(near[upper.argmin()])]
        return np.array(found, np.int64)

    def _bounds(self, candidates: _Candidates, at: IntArray) -> tuple[IntArray, IntArray]:
        """Least and most r of each candidate at each combination (candidates, combinations)."""
        reached = self.wanted[at] << candidates.shift
        for multipliers, x in zip(candidates.multipliers.T, self.x, strict=True):
            reached = reached - multipliers[:, None] * x[at]  # faster than a product of integers
        least = np.where(self.below[at], reached, -_FAR)
        most = np.where(self.above[at], reached + (1 << candidates.shift) - 1, _FAR)
        return least, most

    def _parts(self, candidates: _Candidates, at: IntArray) -> tuple[NDArray[np.bool_], ...]:
        """Where c is 0, and where it is 1."""
        if candidates.correction is Correction.NONE:
            return (np.ones((1, at.size), np.bool_),)
        if candidates.correction is Correction.NEGATIVE:
            negative = self.x[:1, at] < self.centre[0]
            return ~negative, negative
        centred = self.x[:, at] - self.centre
        even = (candidates.multipliers @ centred >> candidates.shift) & 1 == 0
        return ~even, even
