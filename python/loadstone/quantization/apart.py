# SPDX-License-Identifier: Apache-2.0
"""Concatenations whose inputs keep scales of their own.

In:   a network, in which a concatenation has one scale on both sides; the ranges of its tensors on
      a few samples.
Out:  the network in which a concatenation of tensors of very different ranges computes: it rounds
      those that are unlike its output to the output's scale.
Next: attempt.py calibrates it.

One scale for all costs a tensor of half the range one of its eight bits wherever else it is
read, and a chain of concatenations (YOLO's) joins half of a network. Scales of their own cost the
device a product for each element; where the ranges are alike, or nothing else reads them, a
concatenation stays free. In one that rounds, the inputs whose range is like the output's keep its
scale, so that only the others are rounded twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.read_network import groups_of
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.quantization.statistics import extremes_of

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["FACTOR", "SAMPLES", "ranges_on", "with_own_scales"]

#: A range that is more than so many times another's is not shared with it.
FACTOR = 2.5
#: So many samples tell ranges apart.
SAMPLES = 4


def ranges_on(runner: FakeQuantizedRunner, samples: Samples) -> dict[Var, tuple[float, float]]:
    """The least and the largest value of each quantized tensor in float, 0 included."""
    found: dict[Var, tuple[float, float]] = {}
    for inputs in samples.first(SAMPLES):
        for variable, values in runner.run(inputs)[1].items():
            low, high = extremes_of(values)
            before = found.get(variable, (0.0, 0.0))
            found[variable] = min(before[0], low), max(before[1], high)
    return found


def with_own_scales(network: Network, ranges: Mapping[Var, tuple[float, float]]) -> Network:
    """The network in which concatenations of tensors of very different ranges are COMPUTED, each
    input whose range is like the output's still in its group; the same object where there are
    none."""
    joins = [layer for layer in network.layers if _shares(layer, network)]
    layers = _computed(network, {layer.output for layer in joins})
    groups = groups_of(layers, network.quantized)
    reach = _reach(groups, ranges)
    narrowest = _narrowest(network, groups, reach)
    for layer in joins:
        for item in layer.inputs:
            own, shared = groups[item], groups[layer.output]
            low, high = (side(reach[own][k], reach[shared][k]) for k, side in enumerate((min, max)))
            least = min(narrowest[own], narrowest[shared])
            if high - low <= FACTOR * least:  # alike: one group from here on
                groups = {v: shared if group == own else group for v, group in groups.items()}
                reach[shared], narrowest[shared] = (low, high), least
    apart = {
        layer.output
        for layer in joins
        if any(groups[item] != groups[layer.output] for item in layer.inputs)
    }
    if not apart:
        return network
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups.values()))}
    groups = {variable: numbers[group] for variable, group in groups.items()}
    return replace(network, layers=_computed(network, apart), groups=groups)


def _reach(
    groups: Mapping[Var, int], ranges: Mapping[Var, tuple[float, float]]
) -> dict[int, tuple[float, float]]:
    """The range of each group."""
    reach: dict[int, tuple[float, float]] = {}
    for variable, group in groups.items():
        low, high = ranges.get(variable, (0.0, 0.0))
        before = reach.get(group, (0.0, 0.0))
        reach[group] = min(before[0], low), max(before[1], high)
    return reach


def _narrowest(
    network: Network, groups: Mapping[Var, int], reach: Mapping[int, tuple[float, float]]
) -> dict[int, float]:
    """The width of each group's range; infinite where it does not matter: what only concatenations
    read is rounded to their scale in any case, and what is always zero has a place on every
    scale."""
    readers = [layer for layer in network.layers if layer.role is not Role.MOVED]
    used = {item for layer in readers for item in layer.inputs} | set(network.outputs)
    matter = {group for variable, group in groups.items() if variable in used}
    return {
        group: high - low if group in matter and low < high else math.inf
        for group, (low, high) in reach.items()
    }


def _shares(layer: Layer, network: Network) -> bool:
    """Whether it is a concatenation that has one scale on both sides."""
    return (
        layer.kind == "concat"
        and layer.role is Role.MOVED
        and layer.output in network.groups
        and all(item in network.groups for item in layer.inputs)
    )


def _computed(network: Network, outputs: set[Var]) -> tuple[Layer, ...]:
    return tuple(
        replace(layer, role=Role.COMPUTED) if layer.output in outputs else layer
        for layer in network.layers
    )
