# SPDX-License-Identifier: Apache-2.0
"""Measure what a quantization costs: signal to noise of every tensor, saturation, accuracy with
labels.

In:   FakeQuantizedRunner, settings of the quantized network, Samples (and labels).
Out:  Comparison.
Next: report.py prints it; mixed.py asks it which layer hurts; quantize() chooses by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.numerics import Array
from loadstone.quantization.calibrate import progress
from loadstone.quantization.samples import Samples
from loadstone.quantization.scales import INT8_MAX, INT8_MIN
from loadstone.quantization.simulate import FLOAT, FakeQuantizedRunner, Settings
from loadstone.quantization.statistics import Histogram

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Comparison", "accuracy", "compare", "decibels", "saturation"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Signal to quantization noise in decibels: 10 log10(sum x^2 / sum (x - x')^2) over all
    samples.

    outputs: of each output. tensors: by quantized variable. float_top1, top1: with labels, shares
        of right answers.
    """

    outputs: tuple[float, ...]
    tensors: Mapping[Var, float]
    samples: int
    float_top1: float | None = None
    top1: float | None = None


def compare(
    runner: FakeQuantizedRunner,
    settings: Settings,
    samples: Samples,
    *,
    only: Iterable[Var] | None = None,
    real: Settings = FLOAT,
    show: bool = False,
) -> Comparison:
    """Runs every sample in float and as `settings` say.

    only: the tensors to compare beside the outputs; None: every quantized one.
    real: how the float network runs; equalized, when `settings` are of an equalized one, since its
        tensors are multiples of the others.
    """
    network, labels = runner.network, samples.labels
    outputs = [_Energy() for _ in network.outputs]
    tensors = {variable: _Energy() for variable in (network.groups if only is None else only)}
    right = [0, 0]
    for index, inputs in enumerate(progress(samples, "compare", show)):
        exact, exact_tensors = runner.run(inputs, real)
        found, found_tensors = runner.run(inputs, settings)
        for energy, x, y in zip(outputs, exact, found, strict=True):
            energy.add(x, y)
        for variable, energy in tensors.items():
            energy.add(exact_tensors[variable], found_tensors[variable])
        if labels is not None:
            right = [
                count + int(np.argmax(out[0]) == labels[index])
                for count, out in zip(right, (exact, found), strict=True)
            ]
    shares = [count / len(samples) if labels is not None else None for count in right]
    return Comparison(
        tuple(energy.ratio for energy in outputs),
        {variable: energy.ratio for variable, energy in tensors.items()},
        len(samples),
        *shares,
    )


def accuracy(outputs: Sequence[Array], labels: NDArray[np.int64]) -> float:
    """Share of samples, 0 to 1, whose largest output is the label's; of equals the first counts.

    outputs: one per sample, of any shape: the largest is looked for in row-major order.
    labels: (samples,). Raises ValueError where there are more of one than of the other.
    """
    return float(
        np.mean(
            [int(np.argmax(output)) == label for output, label in zip(outputs, labels, strict=True)]
        )
    )


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise); infinite without noise."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def saturation(histogram: Histogram, quantization: Quantization) -> float:
    """Share of the values that lie outside the range of int8, by more than half a step."""
    low = (INT8_MIN - 0.5 - quantization.zero_point) * quantization.scale
    high = (INT8_MAX + 0.5 - quantization.zero_point) * quantization.scale
    outside = (histogram.centres < low) | (histogram.centres > high)
    return float(histogram.counts[outside].sum() / max(histogram.size, 1))


class _Energy:
    def __init__(self) -> None:
        self.signal = self.noise = 0.0

    def add(self, exact: Array, found: Array) -> None:
        self.signal += float(np.square(exact, dtype=np.float64).sum())
        self.noise += float(np.square(exact - found, dtype=np.float64).sum())

    @property
    def ratio(self) -> float:
        return decibels(self.signal, self.noise)
