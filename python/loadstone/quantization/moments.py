# SPDX-License-Identifier: Apache-2.0
"""Mean and covariance of a layer's inputs.

In:   rows: what the layer multiplies with its weights, at one position each.
Out:  Moments.
Next: compensation.py.

A covariance of K inputs has K x K elements, and whatever is computed of it takes K^3 steps; but it
has no more independent directions than there were rows. Few rows are therefore kept as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array, Float64Array

__all__ = ["MAX_INPUTS", "Moments"]

#: The weights of a layer with more inputs per output are rounded to nearest: its covariance would
#: take a gigabyte.
MAX_INPUTS = 4608
#: So many inputs for each row make rows fewer than the covariance.
INPUTS_PER_ROW = 2


class Moments:
    """Mean (groups, K) and covariance (groups, K, K) of the K inputs of an output, in the order of
    the weights.

    For more than MAX_INPUTS inputs only the mean is kept.
    """

    def __init__(self, groups: int, inputs: int) -> None:
        self.rows = 0
        self.has_covariance = inputs <= MAX_INPUTS
        self._inputs = inputs
        self._sum = np.zeros((groups, inputs))
        self._few: list[NDArray[np.float32]] = []
        self._products: Array | None = None

    def update(self, rows: NDArray[np.float32]) -> None:
        """rows: (groups, count, K)."""
        self.rows += rows.shape[1]
        self._sum += rows.sum(axis=1, dtype=np.float64)
        if not self.has_covariance:
            return
        self._few.append(rows)
        if self._products is not None or INPUTS_PER_ROW * self.rows > self._inputs:
            for each in self._few:
                self._add(each)
            self._few.clear()

    def _add(self, rows: NDArray[np.float32]) -> None:
        if self._products is None:
            shape = len(self._sum), self._inputs, self._inputs
            wide = np.float32 if self._inputs > MAX_INPUTS // 4 else np.float64
            self._products = np.zeros(shape, wide)
        self._products += rows.transpose(0, 2, 1) @ rows

    @property
    def mean(self) -> Float64Array:
        """E[x]: (groups, K); zeros before the first update."""
        return np.asarray(self._sum / max(self.rows, 1))

    @property
    def spread(self) -> Float64Array | None:
        """A: (groups, rows, K), with A' A the covariance; None where rows are many."""
        if not self._few:
            return None
        centred = np.concatenate(self._few, axis=1) - self.mean[:, None, :]
        return np.asarray(centred / np.sqrt(self.rows))

    @property
    def covariance(self) -> Float64Array:
        """E[x x'] - E[x] E[x]': (groups, K, K). Only where `has_covariance`."""
        spread, mean = self.spread, self.mean
        if spread is not None:
            return np.asarray(spread.transpose(0, 2, 1) @ spread)
        products = np.zeros(()) if self._products is None else self._products / self.rows
        return np.asarray(products - mean[:, :, None] * mean[:, None, :], np.float64)
