# SPDX-License-Identifier: Apache-2.0
"""A mixed plan: leave the layers that hurt most on the host, within a budget of cycles.

In:   FakeQuantizedRunner, Network, Plan, Samples, a budget.
Out:  the sensitivities of layers and tensors; the plan with `host`.
Next: rewrite.py.

Sensitivity is measured, not guessed: the noise at the outputs when the weights of one layer alone
are rounded, or one group of tensors. A layer on the host keeps its weights; a tensor that only the
host writes and reads stays float as well, so the last layers, the first, and neighbours gain more
than others. Noises add up nearly: the best set under a budget is a knapsack, filled here step by
step. A step moves one layer, or the layers on both sides of a tensor, which nothing less makes
float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.plan import Plan, float_groups, real_settings, settings
from loadstone.quantization.progress import progress
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FakeQuantizedRunner, Settings

__all__ = [
    "HOST_CYCLES_PER_MAC",
    "Sensitivities",
    "host_cycles",
    "measure_sensitivities",
    "with_host_layers",
]

#: An assumption: a host that takes one cycle of the device's clock for a float32
#: multiply-accumulate.
HOST_CYCLES_PER_MAC = 1.0


@dataclass(frozen=True)
class Sensitivities:
    """Noise at the outputs, as a share of their energy. layers: by name, from the weights. groups:
    by number, from the tensors.

    cycles: what the host needs for a layer, by name.
    """

    layers: Mapping[str, float]
    groups: Mapping[int, float]
    cycles: Mapping[str, int]


def host_cycles(layer: Layer) -> int:
    """An estimate, in cycles of the device's clock; whoever knows the host gives a better one."""
    return round(layer.macs * HOST_CYCLES_PER_MAC)


def measure_sensitivities(
    runner: FakeQuantizedRunner,
    network: Network,
    plan: Plan,
    samples: Samples,
    cost: Callable[[Layer], int] = host_cycles,
    *,
    show: bool = False,
) -> Sensitivities:
    """Of every WEIGHTED and COMPUTED layer on the device, and of every group."""
    whole, exact = settings(network, plan), real_settings(network)
    layers = [
        layer
        for layer in network.layers
        if layer.role in (Role.WEIGHTED, Role.COMPUTED) and layer.output in network.quantized
    ]
    trials: dict[str | int, Settings] = {
        layer.name: _weights_alone(layer, exact, whole) for layer in layers
    }
    trials |= {
        group: _tensors_alone(group, network, exact, whole)
        for group in dict.fromkeys(network.groups.values())
    }
    noises = dict.fromkeys(trials, 0.0)
    samples_seen = list(samples)
    references = [
        [output.astype(np.float64) for output in runner.run(inputs, exact)[0]]
        for inputs in samples_seen
    ]
    for key, trial in progress(list(trials.items()), "sensitivity", show):
        for inputs, reference in zip(samples_seen, references, strict=True):
            found, _ = runner.run(inputs, trial)
            signal = sum(float(np.vdot(output, output)) for output in reference) or 1.0
            noises[key] += (
                sum(float(np.sum((x - y) ** 2)) for x, y in zip(reference, found, strict=True))
                / signal
                / len(samples_seen)
            )
    return Sensitivities(
        {key: noise for key, noise in noises.items() if isinstance(key, str)},
        {key: noise for key, noise in noises.items() if isinstance(key, int)},
        {layer.name: cost(layer) for layer in layers},
    )


def with_host_layers(
    network: Network, plan: Plan, sensitivities: Sensitivities, budget_cycles: int
) -> Plan:
    """Fills the budget twice, the most noise per cycle first and the most noise first, and takes
    what takes away more."""
    steps = _steps(network, sensitivities)
    filled = [
        _filled(network, sensitivities, budget_cycles, steps, per_cycle=choice)
        for choice in (True, False)
    ]
    return replace(
        plan, host=max(filled, key=lambda host: _noise_gone(network, sensitivities, host))
    )


def _steps(network: Network, sensitivities: Sensitivities) -> list[frozenset[str]]:
    """What may move to the host together: a layer, or all that write and read a group of tensors,
    which is float then."""
    touching: dict[int, set[str]] = {}
    for layer in network.layers:
        if layer.name in sensitivities.cycles:
            for variable in (*layer.inputs, layer.output):
                if variable in network.groups:
                    touching.setdefault(network.groups[variable], set()).add(layer.name)
    return [
        *(frozenset({name}) for name in sensitivities.cycles),
        *map(frozenset, touching.values()),
    ]


def _filled(
    network: Network,
    sensitivities: Sensitivities,
    budget_cycles: int,
    steps: Sequence[frozenset[str]],
    *,
    per_cycle: bool,
) -> frozenset[str]:
    host: frozenset[str] = frozenset()
    while True:
        before, spent = _noise_gone(network, sensitivities, host), _cycles(sensitivities, host)
        gains = {}
        for step in steps:
            cycles = _cycles(sensitivities, host | step) - spent
            if not step <= host and spent + cycles <= budget_cycles:
                gains[step] = (_noise_gone(network, sensitivities, host | step) - before) / (
                    max(cycles, 1) if per_cycle else 1
                )
        best = max(gains, key=gains.__getitem__, default=frozenset())
        if not best or gains[best] <= 0:
            return host
        host |= best


def _cycles(sensitivities: Sensitivities, host: frozenset[str]) -> int:
    return sum(sensitivities.cycles[name] for name in host)


def _noise_gone(network: Network, sensitivities: Sensitivities, host: frozenset[str]) -> float:
    """Of the layers on the host, and of the tensors that are float because of them."""
    free = float_groups(network, host) - float_groups(network, frozenset())
    return sum(sensitivities.layers[name] for name in host) + sum(
        sensitivities.groups[group] for group in free
    )


def _weights_alone(layer: Layer, exact: Settings, whole: Settings) -> Settings:
    constants = {key: array for key, array in whole.constants.items() if key[0] == layer.name}
    if layer.name not in whole.weights:
        return replace(exact, constants=constants)
    weights = {**exact.weights, layer.name: whole.weights[layer.name]}
    return Settings(weights, {**exact.biases, layer.name: whole.biases[layer.name]}, constants)


def _tensors_alone(group: int, network: Network, exact: Settings, whole: Settings) -> Settings:
    return replace(
        exact,
        activations={
            variable: grid
            for variable, grid in whole.activations.items()
            if network.groups[variable] == group
        },
    )
