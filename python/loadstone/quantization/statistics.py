# SPDX-License-Identifier: Apache-2.0
"""Statistics of tensors for calibration: a few kilobytes each, for any number of samples.

In:   the values of a tensor, sample by sample.
Out:  Histogram: extremes and distribution. Channels: extremes, mean and mean square per channel.
Next: scales.py chooses ranges from histograms; equalize.py reads channels; report.py draws both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BINS", "Channels", "Histogram", "extremes_of", "gumbel_reach"]

#: Sixteen bins for each of the 256 steps of an int8 range.
BINS = 4096
#: The number of values that, with their intermediate results on the way to a bin, fit the cache.
_CHUNK = 65536
#: Rows of about this many values are compared fastest.
_WIDE = 1024


def gumbel_reach(deviation: ArrayLike, growth: float) -> NDArray[np.float64]:
    """The expected difference between the largest value of growth * n samples and that of n
    samples.

    For distributions with thin tails the largest value of a sample has a Gumbel distribution: the
    largest of growth * n samples lies beta * log(growth) above that of n, and the standard
    deviation of one sample's largest value is beta * pi / sqrt(6).
    deviation: the standard deviation of one sample's largest value; the result has the same shape
        and unit.
    """
    return np.asarray(deviation) * (math.sqrt(6) / math.pi * math.log(growth))


def extremes_of(values: NDArray[np.float32]) -> tuple[float, float]:
    """The smallest and the largest of values of any shape (...); NaN where any is NaN."""
    return float(values.min()), float(values.max())


class Histogram:
    """The distribution of values; its memory does not grow with their number.

    low, high: the extremes, 0 included (a quantized tensor must represent 0 exactly).
    counts: the values in each of BINS equal bins from `start` on. Exact zeros are counted in
        `zeros` instead, because they have no error at any scale. size: the number of all values.
    Values are kept until there are many: they must not change after `update`.
    """

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.start, self.width = 0.0, 0.0
        self._counts: NDArray[np.int64] = np.zeros(BINS, np.int64)
        self._waiting: list[NDArray[np.float32]] = []  # values that no bin counts yet
        self._waiting_size = self._waiting_zeros = 0
        self.zeros = self.size = 0
        self._extremes: list[tuple[float, float]] = []

    def update(
        self, values: NDArray[np.float32], extremes: tuple[float, float] | None = None
    ) -> None:
        """Adds values (any shape, finite). extremes: of these values, where the caller knows
        them."""
        least, most = extremes or extremes_of(values)
        low, high = min(least, 0.0), max(most, 0.0)
        zeros = values.size - int(np.count_nonzero(values))
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._extremes.append((low, high))
        self.size += values.size
        self.zeros += zeros
        if low == high:
            return
        if low < self.start or high > self.start + BINS * self.width:
            self._count()
            self._cover(low, high)
        self._waiting.append(values.reshape(-1))
        self._waiting_size += values.size
        self._waiting_zeros += zeros
        if self._waiting_size >= _CHUNK:
            self._count()

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many values lie in each bin, exact zeros apart.

        (bins,).
        """
        self._count()
        return self._counts

    def expected(self, growth: float) -> tuple[float, float]:
        """The extremes that `growth` times as many samples would have (see `gumbel_reach`)."""
        lows, highs = np.array(self._extremes or [(0.0, 0.0)]).T
        return self.low - float(gumbel_reach(np.std(lows), growth)), self.high + float(
            gumbel_reach(np.std(highs), growth)
        )

    @property
    def centres(self) -> NDArray[np.float64]:
        """The value in the middle of each bin.

        (bins,).
        """
        return np.asarray(self.start + self.width * (np.arange(BINS) + 0.5), np.float64)

    def with_zeros(self) -> NDArray[np.int64]:
        """Counts in which the exact zeros are in their bin.

        (bins,).
        """
        counts = self.counts.copy()
        if self.width > 0:
            counts[self._bins(np.zeros(1, np.float32))] += self.zeros
        return counts

    def _count(self) -> None:
        """Sorts the waiting values into bins: small tensors of several samples at once."""
        if not self._waiting:
            return
        flat = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        for begin in range(0, flat.size, _CHUNK):
            self._counts += np.bincount(self._bins(flat[begin : begin + _CHUNK]), minlength=BINS)
        self._counts[self._bins(np.zeros(1, np.float32))] -= self._waiting_zeros
        self._waiting, self._waiting_size, self._waiting_zeros = [], 0, 0

    def _bins(self, values: NDArray[np.float32]) -> NDArray[np.intp]:
        places = values * np.float32(1 / self.width)
        places -= np.float32(self.start / self.width)
        index = places.astype(np.intp)  # what bincount counts without another copy
        np.maximum(index, 0, out=index)
        return np.minimum(index, BINS - 1, out=index)

    def _cover(self, low: float, high: float) -> None:
        """Widens the bins until they cover [low, high]; each step doubles the width and merges
        pairs of bins exactly."""
        if self.width == 0:
            span = (high - low) * (1 + 1e-6)
            self.start, self.width = low - span * 1e-7, span / BINS
        while low < self.start or high > self.start + BINS * self.width:
            merged = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.zeros(BINS, np.int64)
            if low < self.start:
                self.start -= BINS * self.width
                self._counts[BINS // 2 :] = merged
            else:
                self._counts[: BINS // 2] = merged
            self.width *= 2


class Channels:
    """low, high: float32 extremes of each index of the last axis."""

    def __init__(self, channels: int) -> None:
        self.low = np.full(channels, np.inf, np.float32)
        self.high = np.full(channels, -np.inf, np.float32)
        self._reach, self._reach_square, self._samples = np.zeros(channels), np.zeros(channels), 0

    def update(self, values: NDArray[np.float32]) -> tuple[float, float]:
        """Adds the values of one sample (..., channels), finite. Returns its extremes."""
        low, high = _extremes(values.reshape(-1, len(self.low)))
        np.minimum(self.low, low, out=self.low)
        np.maximum(self.high, high, out=self.high)
        reach = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
        self._samples += 1
        self._reach += reach
        self._reach_square += reach**2
        return float(low.min()), float(high.max())

    def reach(self, growth: float) -> NDArray[np.float64]:
        """The largest magnitude that is expected in `growth` times as many samples, per channel."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high)).astype(np.float64)
        count = max(self._samples, 1)
        variance = np.maximum(self._reach_square / count - (self._reach / count) ** 2, 0)
        return np.asarray(largest + gumbel_reach(np.sqrt(variance), growth))


def _extremes(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The smallest and the largest of each column. Several rows are compared as one, because NumPy
    is ten times as fast with long rows."""
    count, channels = rows.shape
    several = max(min(_WIDE // channels, count), 1)
    whole = count - count % several
    wide, rest = rows[:whole].reshape(-1, several * channels), rows[whole:]
    low = np.minimum.reduce(np.minimum.reduce(wide).reshape(-1, channels))
    high = np.maximum.reduce(np.maximum.reduce(wide).reshape(-1, channels))
    if len(rest):
        low = np.minimum(low, np.minimum.reduce(rest))
        high = np.maximum(high, np.maximum.reduce(rest))
    return low, high
