# SPDX-License-Identifier: Apache-2.0
"""Calibrate: run the float network on samples and watch every tensor.

In:   FakeQuantizedRunner (simulate.py), Samples.
Out:  Calibration: the histogram of every group of tensors with one scale, the channels of every
      quantized tensor.
Next: plan.py chooses scales; equalize.py repairs with the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from loadstone.errors import ModelError
from loadstone.numerics import Float32Array
from loadstone.quantization.network import Network, Role
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FLOAT, FakeQuantizedRunner, Settings
from loadstone.quantization.statistics import Channels, Histogram
from loadstone.relax.compat import shape

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Calibration", "calibrate", "progress"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Calibration:
    """histograms: by group. channels: by quantized variable. samples: how many were run."""

    histograms: Mapping[int, Histogram]
    channels: Mapping[Var, Channels]
    samples: int


def calibrate(
    runner: FakeQuantizedRunner,
    samples: Samples,
    settings: Settings = FLOAT,
    *,
    watch: Callable[[Mapping[Var, Float32Array]], None] | None = None,
    show: bool = False,
) -> Calibration:
    """Streams the samples through the float network (with other weights, if `settings` has some).
    watch: is shown what each sample gives as well, tensors in their shapes. Raises ModelError for a
    NaN."""
    network = runner.network
    read = _computed_with(network)
    histograms = {group: Histogram() for group in network.groups.values()}
    channels = {variable: Channels((shape(variable) or (1,))[-1]) for variable in network.groups}
    for inputs in progress(samples, "calibrate", show):
        _, recorded = runner.run(inputs, settings)
        for variable, values in recorded.items():
            extremes = channels[variable].update(values)
            if not np.all(np.isfinite(channels[variable].high)):
                raise ModelError(
                    f'"{network.name(variable)}" becomes infinite or NaN: the float network '
                    "overflows on these samples"
                )
            if variable in read:
                histograms[network.groups[variable]].update(values, extremes)
        if watch is not None:
            watch(recorded)
    return Calibration(histograms, channels, len(samples))


def _computed_with(network: Network) -> set[Var]:
    """Of tensors that share a scale, those whose values somebody computes with; the others are only
    moved there.

    A value that max pooling or a relu drops need not be represented; saturating it first changes
    nothing.
    """
    found = set(network.outputs)
    for layer in network.layers:
        if layer.role is not Role.MOVED or layer.output not in network.quantized:
            found.update(layer.inputs)
    return found & set(network.groups)


def progress(items: Iterable[T], what: str, show: bool) -> Iterator[T]:
    """The items, with a progress bar on stderr when `show`."""
    if not show:
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, desc=what, leave=False)
