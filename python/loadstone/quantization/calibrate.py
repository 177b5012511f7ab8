# SPDX-License-Identifier: Apache-2.0
"""Calibrate: run the float network on samples, and record the range of every tensor.

In:   FakeQuantizedRunner (simulate.py), Samples.
Out:  Calibration: the histogram of every group of tensors with a common scale, the channels of
      every quantized tensor.
Next: plan.py chooses scales; equalize.py repairs with the channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeVar, cast

from loadstone.errors import ModelError
from loadstone.numerics import Float32Array
from loadstone.quantization.network import Network, Role
from loadstone.quantization.progress import progress
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FLOAT, FakeQuantizedRunner, Settings
from loadstone.quantization.statistics import Channels, Histogram, extremes_of
from loadstone.relax.compat import shape

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Calibration", "ahead", "calibrate"]

T = TypeVar("T")

#: A run is made ahead where all recorded tensors together have at least this many elements.
_LARGE = 1 << 20


@dataclass(frozen=True, eq=False)
class Calibration:
    """histograms: by group. channels: by quantized variable, for those requested. samples: the
    number of samples that were run."""

    histograms: Mapping[int, Histogram]
    channels: Mapping[Var, Channels]
    samples: int


def calibrate(
    runner: FakeQuantizedRunner,
    samples: Samples,
    settings: Settings = FLOAT,
    *,
    channels_of: Collection[Var] | None = None,
    watch: Callable[[Mapping[Var, Float32Array]], None] | None = None,
    show: bool = False,
) -> Calibration:
    """Streams the samples through the float network (with other weights, where `settings` has
    some).

    channels_of: the variables whose channels are recorded; None: all. watch: receives the tensors
        of each sample as well, in their shapes. Raises ModelError for a NaN.
    """
    network = runner.network
    read = _computed_with(network)
    histograms = {group: Histogram() for group in network.groups.values()}
    wanted = network.groups if channels_of is None else channels_of
    channels = {variable: Channels((shape(variable) or (1,))[-1]) for variable in wanted}
    runs = (runner.run(inputs, settings) for inputs in progress(samples, "calibrate", show))
    for _, recorded in ahead(runner, runs):
        for variable, values in recorded.items():
            apart = channels.get(variable)
            extremes = extremes_of(values) if apart is None else apart.update(values)
            if not all(map(math.isfinite, extremes)):
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
    """The variables with a common scale whose values an operator computes with; the others are only
    moved to these.

    A value that max pooling or a relu drops need not be represented: saturating it first changes
    nothing.
    """
    found = set(network.outputs)
    for layer in network.layers:
        if layer.role is not Role.MOVED or layer.output not in network.quantized:
            found.update(layer.inputs)
    return found & set(network.groups)


def ahead(runner: FakeQuantizedRunner, runs: Iterable[T]) -> Iterator[T]:
    """Yields the runs, in their order; for large networks a thread makes the next run while the
    caller works on this one.

    The network and NumPy's sums release Python's lock: on two processors the shorter of the two
    costs nothing. For small tensors handing them over takes longer than they do.
    """
    if sum(prod(shape(variable) or ()) for variable in runner.recorded) < _LARGE:
        yield from runs
        return
    source, end = iter(runs), object()
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, source, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, source, end)
            yield cast("T", item)
            del item  # before it is waited for the next
