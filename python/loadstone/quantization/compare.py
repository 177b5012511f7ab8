# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of a quantization: signal-to-noise ratio of every tensor, saturation, and
accuracy with labels.

In:   FakeQuantizedRunner, settings of the quantized network, Samples (and labels).
Out:  Comparison.
Next: report.py prints it; mixed.py finds the layers that lose most; quantize() chooses by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.numerics import Array, Float32Array
from loadstone.quantization.calibrate import ahead
from loadstone.quantization.progress import progress
from loadstone.quantization.samples import Samples
from loadstone.quantization.scales import INT8_MAX, INT8_MIN
from loadstone.quantization.simulate import FLOAT, FakeQuantizedRunner, Settings
from loadstone.quantization.statistics import Histogram

if TYPE_CHECKING:
    from loadstone.quantization.network import Network
    from loadstone.relax.types import Var

__all__ = ["Comparison", "Pair", "accuracy", "compare", "compare_all", "decibels", "saturation"]

#: The outputs, and the recorded tensors.
_Results: TypeAlias = "tuple[list[Array], Mapping[Var, Float32Array]]"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Signal-to-quantization-noise ratio in decibels: 10 log10(sum x^2 / sum (x - x')^2) over all
    samples.

    outputs: of each output. tensors: by quantized variable. float_top1, top1: with labels, the
        shares of correct answers.
    """

    outputs: tuple[float, ...]
    tensors: Mapping[Var, float]
    samples: int
    float_top1: float | None = None
    top1: float | None = None


@dataclass(frozen=True, eq=False)
class Pair:
    """A float network and a quantized one that are compared. tensors: those compared besides the
    outputs."""

    real: Settings
    settings: Settings
    tensors: tuple[Var, ...]

    @property
    def sides(self) -> tuple[Settings, Settings]:
        """Both settings."""
        return self.real, self.settings


def compare(
    runner: FakeQuantizedRunner,
    settings: Settings,
    samples: Samples,
    *,
    real: Settings = FLOAT,
    show: bool = False,
) -> Comparison:
    """Runs every sample in float and by `settings`.

    real: the settings of the float network; with those of an equalized network the equalized ones,
        because its tensors are multiples of the others.
    """
    pair = Pair(real, settings, tuple(runner.network.groups))
    return compare_all(runner, [pair], samples, show=show)[0]


def compare_all(
    runner: FakeQuantizedRunner, pairs: Sequence[Pair], samples: Samples, *, show: bool = False
) -> list[Comparison]:
    """Runs every sample once by each of the settings that the pairs name. The results of a run are
    kept until the last pair that needs them: put pairs that share settings next to each other."""
    measures = [_Measure(runner.network, pair.tensors, samples.labels) for pair in pairs]
    needed = {side: number for number, pair in enumerate(pairs) for side in pair.sides}

    def runs() -> Iterator[tuple[int, _Measure, _Results, _Results]]:
        for index, inputs in enumerate(progress(samples, "compare", show)):
            found: dict[Settings, _Results] = {}
            for number, (pair, measure) in enumerate(zip(pairs, measures, strict=True)):
                for side in pair.sides:
                    if side not in found:
                        found[side] = runner.run(inputs, side)
                yield index, measure, found[pair.real], found[pair.settings]
                found = {side: results for side, results in found.items() if needed[side] > number}

    for index, measure, exact, rounded in ahead(runner, runs()):
        measure.add(index, exact, rounded)
        del exact, rounded  # before the next run
    return [measure.comparison(len(samples)) for measure in measures]


def accuracy(outputs: Sequence[Array], labels: NDArray[np.int64]) -> float:
    """The share of samples, 0 to 1, whose largest output is the label's.

    outputs: one per sample, of any shape; among equal values the first in row-major order is the
        largest.
    labels: (samples,). Raises ValueError where the two differ in number.
    """
    return float(
        np.mean(
            [int(np.argmax(output)) == label for output, label in zip(outputs, labels, strict=True)]
        )
    )


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise); infinite without noise, NaN without either."""
    if signal == noise == 0:
        return math.nan
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def saturation(histogram: Histogram, quantization: Quantization) -> float:
    """The share of values that lie outside the range of int8 by more than half a step."""
    low = (INT8_MIN - 0.5 - quantization.zero_point) * quantization.scale
    high = (INT8_MAX + 0.5 - quantization.zero_point) * quantization.scale
    outside = (histogram.centres < low) | (histogram.centres > high)
    return float(histogram.counts[outside].sum() / max(histogram.size, 1))


class _Measure:
    """The cost of one pair, accumulated sample by sample."""

    def __init__(
        self, network: Network, tensors: Iterable[Var], labels: NDArray[np.int64] | None
    ) -> None:
        self.labels = labels
        self.outputs = [_Energy() for _ in network.outputs]
        self.tensors = {variable: _Energy() for variable in tensors}
        self.right = [0, 0]  # in float, and as it was chosen

    def add(self, index: int, exact: _Results, found: _Results) -> None:
        for energy, x, y in zip(self.outputs, exact[0], found[0], strict=True):
            energy.add(x, y)
        for variable, energy in self.tensors.items():
            energy.add(exact[1][variable], found[1][variable])
        if self.labels is not None:
            for place, (outputs, _) in enumerate((exact, found)):
                self.right[place] += int(np.argmax(outputs[0][0]) == self.labels[index])

    def comparison(self, count: int) -> Comparison:
        known = self.labels is not None
        return Comparison(
            tuple(energy.ratio for energy in self.outputs),
            {variable: energy.ratio for variable, energy in self.tensors.items()},
            count,
            *(right / count if known else None for right in self.right),
        )


class _Energy:
    def __init__(self) -> None:
        self.signal = self.noise = 0.0

    def add(self, exact: Array, found: Array) -> None:
        self.signal += float(np.square(exact, dtype=np.float64).sum())
        self.noise += float(np.square(exact - found, dtype=np.float64).sum())

    @property
    def ratio(self) -> float:
        return decibels(self.signal, self.noise)
