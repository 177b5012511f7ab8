"""What calibration remembers of tensors: a few kilobytes each, however many samples pass.

In:   the values of a tensor, sample by sample.
Out:  Histogram: extremes and distribution. Channels: extremes, mean and mean square per channel.
Next: scales.py chooses ranges from histograms; equalize.py and bias.py read channels; report.py draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BINS", "Channels", "Histogram"]

#: Sixteen bins for each of the 256 steps of an int8 range.
BINS = 4096


class Histogram:
    """The distribution of values that pass by; memory does not grow.

    low, high: the extremes, 0 included (a quantized tensor must hold 0 exactly).
    counts: how many fell into each of BINS equal bins from `start` on; exact zeros are counted in `zeros` instead,
    because they cost no error whatever the scale. size: how many values in all.
    """

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.start, self.width = 0.0, 0.0
        self.counts: NDArray[np.int64] = np.zeros(BINS, np.int64)
        self.zeros = self.size = 0
        self._extremes: list[tuple[float, float]] = []

    def update(self, values: NDArray[np.float32]) -> None:
        """Adds values (any shape, finite)."""
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        zeros = values.size - int(np.count_nonzero(values))
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._extremes.append((low, high))
        self.size += values.size
        self.zeros += zeros
        if low == high:
            return
        self._cover(low, high)
        self.counts += np.bincount(self._bins(values.reshape(-1)), minlength=BINS)
        self.counts[self._bins(np.zeros(1, np.float32))] -= zeros

    def expected(self, growth: float) -> tuple[float, float]:
        """The extremes that `growth` times as many samples would have.

        The largest value of a sample follows, for all distributions with thin tails, Gumbel's: of growth * n samples its
        largest lies beta * log(growth) above that of n. Its standard deviation is beta * pi / sqrt(6).
        """
        deviations = np.std(np.array(self._extremes or [(0.0, 0.0)]), axis=0)
        low, high = deviations * np.sqrt(6) / np.pi * np.log(growth)
        return self.low - float(low), self.high + float(high)

    @property
    def centres(self) -> NDArray[np.float64]:
        """The value in the middle of each bin."""
        return np.asarray(self.start + self.width * (np.arange(BINS) + 0.5), np.float64)

    def with_zeros(self) -> NDArray[np.int64]:
        """Counts in which the exact zeros are in their bin."""
        counts = self.counts.copy()
        if self.width > 0:
            counts[self._bins(np.zeros(1, np.float32))] += self.zeros
        return counts

    def _bins(self, values: NDArray[np.float32]) -> NDArray[np.int32]:
        index = ((values - np.float32(self.start)) * np.float32(1 / self.width)).astype(np.int32)
        return np.clip(index, 0, BINS - 1, out=index)

    def _cover(self, low: float, high: float) -> None:
        """Widens the bins until they hold [low, high]; each step doubles the width and merges pairs of bins exactly."""
        if self.width == 0:
            span = (high - low) * (1 + 1e-6)
            self.start, self.width = low - span * 1e-7, span / BINS
        while low < self.start or high > self.start + BINS * self.width:
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros(BINS, np.int64)
            if low < self.start:
                self.start -= BINS * self.width
                self.counts[BINS // 2 :] = merged
            else:
                self.counts[: BINS // 2] = merged
            self.width *= 2


class Channels:
    """low, high (float32), mean and mean square (float64) of each index of the last axis."""

    def __init__(self, channels: int) -> None:
        self.low = np.full(channels, np.inf, np.float32)
        self.high = np.full(channels, -np.inf, np.float32)
        self._sum, self._square, self._rows = np.zeros(channels), np.zeros(channels), 0

    def update(self, values: NDArray[np.float32]) -> None:
        """Adds values (..., channels), finite."""
        rows = values.reshape(-1, len(self.low))
        np.minimum(self.low, rows.min(axis=0), out=self.low)
        np.maximum(self.high, rows.max(axis=0), out=self.high)
        self._rows += len(rows)
        self._sum += rows.sum(axis=0, dtype=np.float64)
        self._square += np.einsum("ij,ij->j", rows, rows).astype(np.float64)

    @property
    def mean(self) -> NDArray[np.float64]:
        """E[x] per channel."""
        return np.asarray(self._sum / max(self._rows, 1))

    @property
    def mean_square(self) -> NDArray[np.float64]:
        """E[x^2] per channel."""
        return np.asarray(self._square / max(self._rows, 1))
