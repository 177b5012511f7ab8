# SPDX-License-Identifier: Apache-2.0
"""Finding weights with which one requantization of a sum equals a framework's addition.

In:   what the framework's rule makes of every pair of int8 values; scales and zero points.
Out:  `WeightedSum`, or `WideSum` for a device whose weights can be wide, with the same integer for
      each of the 65,536 pairs; None where none is found.
Next: operators/elementwise.py writes it, or three requantizations where there is none.

    acc = a * w0 + b * w1        GEMM, two steps
    acc = acc * factor           ALU; a shift, where it is a power of two
    acc += late * low            GEMM, of one of the two inputs again
    acc = RQ(acc)

    acc = a * w0; acc += b * w1  DEPTHWISE, of weights of 15 bits: 128 * high + low
    acc = RQ(acc)

The rule scales both inputs, rounds, adds, scales and rounds again. What comes of it is an integer,
so it is enough that the sums of all pairs with one outcome lie between those of the pairs with the
next ones: the ratio of the weights must be near enough to that of the scales, for which 8 bits and
`low` suffice. Then a scale and a bias are wanted that put every half of the rounding between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, floor, gcd
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Rounding
from loadstone.vta.integers.requantization_search import (
    OutputRange,
    Requantization,
    find_requantization,
)

__all__ = ["WeightedSum", "WideSum", "find_weighted_sum", "find_wide_sum"]

#: Of a weight tile.
_MOST = 127
#: Factors that cost a shift, and others, which take a multiplication.
_POWERS = (16, 32, 64, 128, 256, 512)
_OTHERS = tuple(factor for factor in range(33, 256, 2))
#: Weights that are tried.
_TRIES = 16
#: Of a wide weight, whose second part counts 128 times.
_MOST_WIDE = _MOST * 128

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedSum:
    """high: weights of the inputs in front of the factor; late: which input comes again behind it,
    times `low`."""

    high: tuple[int, int]
    factor: int
    late: int
    low: int
    requantization: Requantization

    @property
    def weights(self) -> tuple[int, int]:
        """What the inputs are multiplied by in all."""
        first, second = (
            weight * self.factor + (self.low if which == self.late else 0)
            for which, weight in enumerate(self.high)
        )
        return first, second


@dataclass(frozen=True)
class WideSum:
    """weights: what the inputs are multiplied by."""

    weights: tuple[int, int]
    requantization: Requantization


def find_wide_sum(
    wanted: IntArray, scales: tuple[float, float], output: OutputRange
) -> WideSum | None:
    """One whose weights are near. wanted (256, 256), scales: as of find_weighted_sum."""
    outcomes = _Outcomes(wanted)
    if len(outcomes.values) < 2:
        return None
    for weights in _nearest_wide(scales):
        requantization = _requantized(weights, outcomes, output)
        if requantization is not None:
            return WideSum(weights, requantization)
    return None


def find_weighted_sum(
    wanted: IntArray,
    scales: tuple[float, float],
    output: OutputRange,
    *,
    multiplies: bool,
) -> WeightedSum | None:
    """One whose weights are near.

    wanted: (256, 256), by the first and the second input's value. scales: of the inputs in units of
    the output, the second one negative for a difference. multiplies: whether the ALU does, so that
    factors need not be powers of two.
    """
    outcomes = _Outcomes(wanted)
    if len(outcomes.values) < 2:
        return None
    for found in chain(_nearest(scales, _POWERS), _nearest(scales, _OTHERS if multiplies else ())):
        requantization = _requantized(found.weights, outcomes, output)
        if requantization is not None:
            return replace(found, requantization=requantization)
    return None


#: Stands for the requantization while there is none.
_NOTHING = Requantization(0, 0, 0, Rounding.SINGLE, 0, 0, 0)


def _nearest(scales: tuple[float, float], factors: tuple[int, ...]) -> Iterator[WeightedSum]:
    """Those whose weights have nearly the ratio of the scales, nearest first; of those with one
    ratio one alone."""
    signs = [1 if scale > 0 else -1 for scale in scales]
    late, factor, other = (
        axis.ravel()
        for axis in np.meshgrid((0, 1), factors, np.arange(1, _MOST + 1), indexing="ij")
    )
    ratio = np.abs(np.array([scales[0] / scales[1], scales[1] / scales[0]]))[late]
    whole = np.round(ratio * other * factor).astype(np.int64)
    high = np.clip(np.round(whole / factor).astype(np.int64), 0, _MOST)
    low = whole - high * factor
    far = np.abs(whole / (other * factor) / ratio - 1)
    far[(high == 0) | (np.abs(low) > _MOST)] = np.inf
    known: set[tuple[int, int, int]] = set()
    for at in np.argsort(far, kind="stable").tolist():
        if not np.isfinite(far[at]) or len(known) == _TRIES:
            return
        which = int(late[at])
        divisor = gcd(int(whole[at]), int(other[at] * factor[at]))
        key = (which, int(whole[at]) // divisor, int(other[at] * factor[at]) // divisor)
        if key not in known:
            known.add(key)
            pair = (int(high[at]), int(other[at]))
            both = pair if which == 0 else (pair[1], pair[0])
            yield WeightedSum(
                (signs[0] * both[0], signs[1] * both[1]),
                int(factor[at]),
                which,
                signs[which] * int(low[at]),
                _NOTHING,
            )


def _nearest_wide(scales: tuple[float, float]) -> Iterator[tuple[int, int]]:
    """Those whose weights have nearly the ratio of the scales, nearest first; of those with one
    ratio the largest."""
    signs = [1 if scale > 0 else -1 for scale in scales]
    larger = int(abs(scales[1]) > abs(scales[0]))
    ratio = abs(scales[1 - larger] / scales[larger])
    most = np.arange(_MOST_WIDE, 0, -1)
    least = np.round(ratio * most).astype(np.int64)
    far = np.where(least > 0, np.abs(least / most - ratio), np.inf)
    known: set[float] = set()
    for at in np.argsort(far, kind="stable").tolist():
        if not np.isfinite(far[at]) or len(known) == _TRIES:
            return
        pair = (int(least[at]), int(most[at]))
        if pair[0] / pair[1] not in known:
            known.add(pair[0] / pair[1])
            first, second = pair if larger else pair[::-1]
            yield signs[0] * first, signs[1] * second


class _Outcomes:
    """All pairs, by what comes of them."""

    def __init__(self, wanted: IntArray) -> None:
        self.wanted = wanted.ravel()
        self.order = np.argsort(self.wanted, kind="stable")
        self.values, self.starts = np.unique(self.wanted[self.order], return_index=True)

    def between(self, sums: IntArray) -> tuple[IntArray, IntArray] | None:
        """(outcomes - 1,) twice: the largest sum with an outcome and the smallest with the next;
        None where they overlap."""
        ordered = sums.ravel()[self.order]
        last = np.maximum.reduceat(ordered, self.starts)[:-1]
        first = np.minimum.reduceat(ordered, self.starts)[1:]
        return (last, first) if bool((last < first).all()) else None


def _requantized(
    weights: tuple[int, int], outcomes: _Outcomes, output: OutputRange
) -> Requantization | None:
    """An RQ of the sums with these weights; None where their outcomes overlap, or none is found."""
    values, (first, second) = np.arange(-128, 128), weights
    sums = first * values[:, None] + second * values
    between = outcomes.between(sums)
    return None if between is None else _requantization(sums, outcomes, between, output)


def _requantization(
    sums: IntArray, outcomes: _Outcomes, between: tuple[IntArray, IntArray], output: OutputRange
) -> Requantization | None:
    """An RQ that rounds between the outcomes."""
    borders = _borders(outcomes.values, between, output.zero_point)
    middle = _middle(*borders)
    if middle is None:
        return None
    for bias in {round(middle), floor(middle), ceil(middle)}:
        scale = _scale(*borders, bias)
        if scale is None:
            continue
        levels, at = np.unique(sums, return_index=True)
        wanted = outcomes.wanted[at]
        found = find_requantization(levels, wanted, scale, bias, output, Rounding.SINGLE)
        if found is not None:
            return found
    return None


def _borders(
    values: IntArray, between: tuple[IntArray, IntArray], zero_point: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """(below, half, above, half): sums that must stay below a half of the rounding, and those that
    must be above one."""
    last, first = between
    levels = values.astype(np.float64) - zero_point
    below, above = levels[:-1] + 0.5, levels[1:] - 0.5
    return last.astype(np.float64), below, first.astype(np.float64), above


def _middle(
    last: FloatArray, below: FloatArray, first: FloatArray, above: FloatArray
) -> float | None:
    """The bias in the middle of those that do for the best of all scales; None where none does.

    With s the scale and t = s * bias, s * last + t < below and s * first + t > above: for one s,
    t lies between two bounds, whose distance is concave in s.
    """

    def bounds(scale: float) -> tuple[float, float]:
        return float((above - scale * first).max()), float((below - scale * last).min())

    def room(scale: float) -> float:
        low, high = bounds(scale)
        return high - low

    left, right = 0.0, 4.0 * float(above[-1] - below[0] + 1) / float(first[-1] - last[0])
    for _ in range(60):
        third = (right - left) / 3
        if room(left + third) < room(right - third):
            left += third
        else:
            right -= third
    low, high = bounds(left)
    return (low + high) / 2 / left if left > 0 and low < high else None


def _scale(
    last: FloatArray, below: FloatArray, first: FloatArray, above: FloatArray, bias: int
) -> float | None:
    """The scale in the middle of those that do with a bias; None where none does."""
    totals = np.concatenate([last + bias, -(first + bias)])
    halves = np.concatenate([below, -above])  # scale * total < half
    if (halves[totals == 0] <= 0).any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = halves / totals
    high = quotients[totals > 0].min(initial=np.inf)
    low = quotients[totals < 0].max(initial=0.0)
    return float(low + high) / 2 if low < high < np.inf else None
