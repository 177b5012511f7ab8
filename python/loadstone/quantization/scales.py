# SPDX-License-Identifier: Apache-2.0
"""From statistics to scales: the range that int8 covers, and the size of its steps.

In:   the Histogram of a tensor; weights.
Out:  the range and the Quantization (scale, zero point) of an activation; a scale per channel (or
      one) of weights.
Next: plan.py asks for every tensor of a network.

A method chooses the real range [low, high], a scheme the steps in it:

    minmax      every value seen                            affine     256 steps from low to high, 0
                            is one of them
    expected    the extremes to be expected of three        symmetric  255 steps around 0
                times as many samples                       pow2       as symmetric, a step is a
                                                            power of two
    percentile  all but a share at each end
    mse         the range of least mean squared error
    entropy     the range that keeps the distribution (least Kullback-Leibler divergence)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.quantization.statistics import Histogram

__all__ = [
    "INT8_MAX",
    "INT8_MIN",
    "METHODS",
    "SCHEMES",
    "Scheme",
    "activation_range",
    "shiftable_scales",
    "weight_scales",
]

INT8_MIN, INT8_MAX = -128, 127
#: `expected` extrapolates to this many times as many samples. In measurements 2 and 4 were worse,
#: on unseen photographs or on inputs far from them.
GROWTH = 3.0
#: `percentile` leaves out one value in ten thousand at each end.
PERCENTILE = 99.99
#: `mse` and `entropy` try this many ranges at each end, down to this share of the range of the
#: samples.
CANDIDATES, SMALLEST = 64, 0.1
#: `entropy` clips at most this share of the values, because the distribution of few samples looks
#: rougher than it is.
ENTROPY_CUT = 0.01
#: The limits of a scale: a float32 whose reciprocal is a float32 as well.
SCALE_MIN, SCALE_MAX = 2.0**-100, 2.0**100
#: The noise that rounding weights may add to an output, in its own steps, root mean square
#: (rounding the output adds 0.29): finer weights of a channel would not improve the output visibly.
#: The second number is the assumed range of inputs, in steps.
WEIGHT_NOISE, INPUT_STEPS = 0.2, 32.0
#: Weights whose scales are tried together: they, and their rounding, stay in a core's cache.
CACHED = 1 << 15


@dataclass(frozen=True)
class Scheme:
    """zero_points: zero points other than 0 are allowed. powers_of_two: the scales of activations
    and weights are powers of two, and thus those of accumulators."""

    name: str
    zero_points: bool
    powers_of_two: bool

    def quantization(self, low: float, high: float) -> Quantization:
        """Scale and zero point for a range that contains 0."""
        if not self.zero_points:
            scale = self.step(max(high / INT8_MAX, low / INT8_MIN))
            return Quantization(scale, 0)
        scale = self.step((high - low) / (INT8_MAX - INT8_MIN))
        return Quantization(scale, int(np.clip(round(INT8_MIN - low / scale), INT8_MIN, INT8_MAX)))

    def step(self, scale: float) -> float:
        """The nearest scale that the scheme allows; for powers of two not smaller; 1 for a tensor
        that is always 0."""
        if scale == 0:
            return 1.0
        scale = min(max(scale, SCALE_MIN), SCALE_MAX)
        return (
            2.0 ** math.ceil(math.log2(scale) - 1e-9)
            if self.powers_of_two
            else float(np.float32(scale))
        )

    def steps(self, scales: NDArray[np.float64]) -> NDArray[np.float64]:
        """`step` of each of (C,) scales: (C,)."""
        if self.powers_of_two:
            return np.array([self.step(scale) for scale in scales])
        kept = np.clip(scales, SCALE_MIN, SCALE_MAX).astype(np.float32).astype(np.float64)
        return np.where(scales == 0, 1.0, kept)


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("affine", True, False),
        Scheme("symmetric", False, False),
        Scheme("pow2", False, True),
    )
}


# --------------------------------------------------------------------------------------------------
# Activations
# --------------------------------------------------------------------------------------------------


def activation_range(histogram: Histogram, method: str, scheme: Scheme) -> tuple[float, float]:
    """The real range [low, high], which contains 0. method: one of METHODS. scheme: mse and entropy
    depend on its steps."""
    if not np.any(histogram.counts):
        return 0.0, 0.0
    return METHODS[method](histogram, scheme)


def _minmax(histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
    return histogram.low, histogram.high


def _expected(histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
    return histogram.expected(GROWTH)


def _percentile(histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
    share = np.cumsum(histogram.with_zeros()) / histogram.size
    outside = 1 - PERCENTILE / 100
    low_bin, high_bin = np.searchsorted(share, (outside, 1 - outside))
    low = max(histogram.low, histogram.start + histogram.width * float(low_bin))
    high = min(histogram.high, histogram.start + histogram.width * float(high_bin + 1))
    return min(low, 0.0), max(high, 0.0)


def _mse(histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
    """Shrinks the two ends in turn."""
    values, counts = _occupied(histogram)

    def error(low: float, high: float) -> float:
        return squared_error(values, counts, scheme.quantization(low, high))

    return _search(histogram, error)


def _entropy(histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
    """Shrinks both ends by the same factor, as the method is known from symmetric quantization."""
    values, counts = _occupied(histogram)
    shares = np.geomspace(1, SMALLEST, CANDIDATES)
    divergences = [
        _divergence(values, counts, scheme.quantization(histogram.low * s, histogram.high * s))
        for s in shares
    ]
    best = float(shares[int(np.argmin(divergences))])
    return histogram.low * best, histogram.high * best


METHODS: dict[str, Callable[[Histogram, Scheme], tuple[float, float]]] = {
    "minmax": _minmax,
    "expected": _expected,
    "percentile": _percentile,
    "mse": _mse,
    "entropy": _entropy,
}


def squared_error(
    values: NDArray[np.float64], counts: NDArray[np.int64], quantization: Quantization
) -> float:
    """The sum of the squared errors of values, each weighted by its count."""
    scale, zero_point = quantization.scale, quantization.zero_point
    steps = np.clip(np.rint(values / scale), INT8_MIN - zero_point, INT8_MAX - zero_point)
    return float(np.sum(counts * (steps * scale - values) ** 2))


def _occupied(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    used = histogram.counts > 0
    return histogram.centres[used], histogram.counts[used]


def _search(histogram: Histogram, error: Callable[[float, float], float]) -> tuple[float, float]:
    low, high = histogram.low, histogram.high
    shares = np.geomspace(1, SMALLEST, CANDIDATES)
    best = error(low, high)
    for _ in range(2):
        for end in (0, 1):
            for share in shares:
                tried = (histogram.low * share, high) if end == 0 else (low, histogram.high * share)
                if tried[0] < tried[1] and (found := error(*tried)) < best:
                    best, (low, high) = found, tried
    return low, high


def _divergence(
    values: NDArray[np.float64], counts: NDArray[np.int64], quantization: Quantization
) -> float:
    """KL divergence of the clipped distribution from its approximation, which is uniform within
    each step.

    The values that are rounded to 0 are left out: after a relu most values are there, and their
    error is small in any case.
    A finite sample is never uniform; the average divergence that results from this alone, (bins -
    steps) / (2 values), is subtracted (Miller and Madow).
    """
    zero_point = quantization.zero_point
    steps = (
        np.clip(np.rint(values / quantization.scale) + zero_point, INT8_MIN, INT8_MAX).astype(
            np.int64
        )
        - INT8_MIN
    )
    inside = (values >= (INT8_MIN - 0.5 - zero_point) * quantization.scale) & (
        values <= (INT8_MAX + 0.5 - zero_point) * quantization.scale
    )
    lost = counts * ~inside
    if lost.sum() > ENTROPY_CUT * counts.sum():
        return math.inf
    clipped = counts * inside.astype(np.float64)
    first, last = np.flatnonzero(inside)[[0, -1]]
    clipped[first] += lost[:first].sum()  # the outliers pile up at the ends
    clipped[last] += lost[last + 1 :].sum()
    mass = np.bincount(steps[inside], counts[inside].astype(np.float64), minlength=256)
    bins = np.bincount(steps[inside], minlength=256)
    even = (
        np.where(steps == zero_point - INT8_MIN, counts, (mass / np.maximum(bins, 1))[steps])
        * inside
    )
    p, q = clipped / clipped.sum(), even / even.sum()
    seen = p > 0
    chance = (np.count_nonzero(inside) - np.count_nonzero(bins)) / (2 * counts.sum())
    return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-12))) - chance)


# --------------------------------------------------------------------------------------------------
# Weights
# --------------------------------------------------------------------------------------------------


def weight_scales(
    weights: NDArray[np.float32], scheme: Scheme, *, per_channel: bool, mse: bool
) -> NDArray[np.float32]:
    """A scale for each index of axis 0, all equal unless `per_channel`; integers lie in [-127,
    127].

    weights: (O, ...). Returns (O,). mse: minimizes the squared error instead of covering the
        largest weight.
    """
    rows = (
        weights.reshape(len(weights), -1).astype(np.float64)
        if per_channel
        else weights.reshape(1, -1).astype(np.float64)
    )
    largest = np.abs(rows).max(axis=1)
    best = scheme.steps(largest / INT8_MAX)
    if mse:
        factors = (1.0, 0.5) if scheme.powers_of_two else np.linspace(1, 0.6, 33)
        tried = np.stack([scheme.steps(largest * factor / INT8_MAX) for factor in factors])
        together = max(1, CACHED // rows.shape[1])
        for begin in range(0, len(rows), together):
            part = slice(begin, begin + together)
            best[part] = _least_error(rows[part], tried[:, part])
    return np.ascontiguousarray(np.broadcast_to(best, (len(weights),)), np.float32)


def shiftable_scales(
    scales: NDArray[np.float32], finest: float, inputs: int
) -> NDArray[np.float32]:
    """Powers of two with which a device that only shifts can requantize. No scale is finer than the
    output can show. Where the scales of a layer agree up to one bit, all are made equal, because
    lanes with equal shifts take half the time.

    scales: (O,), powers of two. finest: the output's scale over the input's, which corresponds to a
        shift of 0. inputs: terms of a sum.
    """
    most = math.ceil(math.log2(math.sqrt(inputs / 12) * INPUT_STEPS / WEIGHT_NOISE))
    shifts = np.rint(np.log2(finest / scales.astype(np.float64)))
    shifts = np.minimum(shifts, max(most, shifts.min()))
    if np.ptp(shifts) == 1:
        shifts = np.full_like(shifts, shifts.min())
    return np.asarray(finest * 2.0**-shifts, np.float32)


def _least_error(rows: NDArray[np.float64], tried: NDArray[np.float64]) -> NDArray[np.float64]:
    """rows: (O, K). tried: (trials, O). The scale of each row with the least squared error, the
    first of equal ones."""
    errors, steps = np.empty(tried.shape), np.empty_like(rows)
    for error, scales in zip(errors, tried[:, :, None], strict=True):
        np.divide(rows, scales, out=steps)
        np.rint(steps, out=steps)
        np.clip(steps, -INT8_MAX, INT8_MAX, out=steps)
        np.multiply(steps, scales, out=steps)
        np.subtract(steps, rows, out=steps)
        np.square(steps, out=steps)
        np.sum(steps, axis=1, out=error)
    return np.asarray(np.take_along_axis(tried, errors.argmin(axis=0)[None], axis=0)[0])
