# SPDX-License-Identifier: Apache-2.0
"""A mixed plan: leave the most sensitive layers on the host, within a budget of cycles, or until
the outputs are good.

In:   FakeQuantizedRunner, Network, Plan, Samples; a budget, or a signal-to-noise ratio to reach.
Out:  the sensitivities of layers and tensors; the plan with `host`.
Next: rewrite.py; with 16 bits wide_plan.py chooses the integers.

Sensitivity is measured: it is the noise at the outputs when only the weights of one layer, or one
group of tensors, are rounded. A layer on the host keeps its float weights, and a tensor that only
the host writes and reads stays float as well, so that the first layers, the last, and neighbours
gain more than others. Since noises nearly add up, the best set within a budget is a knapsack
problem, which is solved greedily. A step moves one layer, or the layers on both sides of a tensor,
because the tensor becomes float only with all of them. Layers of 16 bits are chosen like float
ones: a 65,536th of their noise remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadstone.quantization.accuracy import NOISY_DB
from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.plan import Plan, float_groups
from loadstone.quantization.planned import real_settings, settings
from loadstone.quantization.progress import progress
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FakeQuantizedRunner, Settings

__all__ = [
    "HOST_CYCLES_PER_MAC",
    "Sensitivities",
    "host_cycles",
    "measure_sensitivities",
    "with_good_outputs",
    "with_host_layers",
]

#: An assumption: the host takes one cycle of the device's clock for a float32 multiply-accumulate.
HOST_CYCLES_PER_MAC = 1.0
#: Outputs are good from this signal-to-noise ratio on, in decibels: 10 above the limit of a
#: warning.
GOOD_DB = NOISY_DB + 10
#: How often layers are chosen and measured.
_ROUNDS = 3


@dataclass(frozen=True)
class Sensitivities:
    """Noise at the outputs, as a share of their energy. layers: by name, from the weights. groups:
    by number, from the tensors.

    cycles: the host's time for a layer, by name.
    """

    layers: Mapping[str, float]
    groups: Mapping[int, float]
    cycles: Mapping[str, int]


def host_cycles(layer: Layer) -> int:
    """An estimate, in cycles of the device's clock; `Options.cost` replaces it where the host is
    known."""
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
    """Measures every WEIGHTED and COMPUTED layer on the device, and every group."""
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
    """Fills the budget in two orders, by noise per cycle and by noise, and takes the result that
    removes more noise."""
    filled = _filled_both_ways(network, sensitivities, budget_cycles, math.inf)
    return replace(
        plan, host=max(filled, key=lambda host: _noise_gone(network, sensitivities, host))
    )


def with_good_outputs(
    network: Network,
    plan: Plan,
    sensitivities: Sensitivities,
    measured: Callable[[Plan], float],
    budget_cycles: float = math.inf,
) -> Plan:
    """Puts layers of the fewest cycles on the host such that the outputs are good, where this is
    possible; no layer where the outputs are good already. measured: the signal-to-noise ratio of
    the worst output under a plan, in decibels."""
    before = measured(plan)
    on_device = set(network.groups.values()) - float_groups(network, frozenset())
    noise = sum(sensitivities.layers.values())
    noise += sum(sensitivities.groups[group] for group in on_device)
    found, reached, goal = plan, before, GOOD_DB
    for _ in range(_ROUNDS):  # noises add up nearly: what is missing then is asked for besides
        if not reached < GOOD_DB:
            break
        enough = noise * (1 - 10 ** ((before - goal) / 10))
        found = replace(found, host=_cheapest(network, sensitivities, budget_cycles, enough))
        reached = measured(found)
        goal += GOOD_DB - reached
    return found


def _cheapest(
    network: Network, sensitivities: Sensitivities, budget_cycles: float, enough: float
) -> frozenset[str]:
    """The set that removes `enough` noise in the fewest cycles; where there is none, the one that
    removes most."""
    filled = [
        _without_needless(network, sensitivities, host, enough)
        for host in _filled_both_ways(network, sensitivities, budget_cycles, enough)
    ]

    def worth(host: frozenset[str]) -> tuple[float, int]:
        return min(_noise_gone(network, sensitivities, host), enough), -_cycles(sensitivities, host)

    return max(filled, key=worth)


def _filled_both_ways(
    network: Network, sensitivities: Sensitivities, budget_cycles: float, enough: float
) -> list[frozenset[str]]:
    steps = _steps(network, sensitivities)
    return [
        _filled(network, sensitivities, _Limits(budget_cycles, enough), steps, per_cycle=choice)
        for choice in (True, False)
    ]


def _without_needless(
    network: Network, sensitivities: Sensitivities, host: frozenset[str], enough: float
) -> frozenset[str]:
    """The set without layers that are not needed to remove `enough` noise, the dearest removed
    first."""
    for name in sorted(host, key=lambda name: (-sensitivities.cycles[name], name)):
        if _noise_gone(network, sensitivities, host - {name}) >= enough:
            host -= {name}
    return host


@dataclass(frozen=True)
class _Limits:
    """Where filling ends: the cycles that may be spent, and the noise whose removal is enough."""

    budget_cycles: float
    enough: float


def _steps(network: Network, sensitivities: Sensitivities) -> list[frozenset[str]]:
    """The candidates to move to the host together: one layer, or all layers that write and read a
    group of tensors, which then becomes float."""
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
    limits: _Limits,
    steps: Sequence[frozenset[str]],
    *,
    per_cycle: bool,
) -> frozenset[str]:
    host: frozenset[str] = frozenset()
    while True:
        before, spent = _noise_gone(network, sensitivities, host), _cycles(sensitivities, host)
        if before >= limits.enough:
            return host
        gains = {}
        for step in steps:
            cycles = _cycles(sensitivities, host | step) - spent
            if not step <= host and spent + cycles <= limits.budget_cycles:
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
    """The noise of the layers on the host, and of the tensors that are float because of them."""
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
