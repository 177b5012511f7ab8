# SPDX-License-Identifier: Apache-2.0
"""The mixed plan: measured sensitivities, and a budget that is kept."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.compare import compare
from loadstone.quantization.mixed import (
    GOOD_DB,
    Sensitivities,
    measure_sensitivities,
    with_good_outputs,
    with_host_layers,
)
from loadstone.quantization.network import Role
from loadstone.quantization.plan import Plan, float_groups, make_plan
from loadstone.quantization.planned import settings
from loadstone.quantization.samples import Samples, samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import float_models
from tests.float_models import images, network


@pytest.fixture(scope="module")
def prepared() -> tuple[FakeQuantizedRunner, Plan, Samples]:
    runner = float_models.runner()
    samples = samples_from(images(8), runner.network.parameters)
    return (
        runner,
        make_plan(runner.network, calibrate(runner, samples).histograms, SCHEMES["pow2"], "minmax"),
        samples,
    )


def test_noises_add_up_nearly(prepared: tuple[FakeQuantizedRunner, Plan, Samples]) -> None:
    runner, plan, samples = prepared
    found = measure_sensitivities(runner, runner.network, plan, samples)
    wanted = [
        layer.name
        for layer in runner.network.layers
        if layer.role in (Role.WEIGHTED, Role.COMPUTED)
    ]
    assert list(found.layers) == list(found.cycles) == wanted
    assert set(found.groups) == set(runner.network.groups.values())
    assert all(noise > 0 for noise in found.groups.values())
    whole = compare(runner, settings(runner.network, plan), samples).outputs[0]
    total = sum(found.layers.values()) + sum(found.groups.values())
    assert -10 * np.log10(total) == pytest.approx(whole, abs=4)


def test_the_output_gets_better_as_the_budget_grows(
    prepared: tuple[FakeQuantizedRunner, Plan, Samples],
) -> None:
    runner, plan, samples = prepared
    sensitivities = measure_sensitivities(runner, runner.network, plan, samples)
    ratios = []
    for budget in (0, 10_000, sum(sensitivities.cycles.values())):
        mixed = with_host_layers(runner.network, plan, sensitivities, budget)
        assert sum(sensitivities.cycles[name] for name in mixed.host) <= budget
        ratios.append(compare(runner, settings(runner.network, mixed), samples).outputs[0])
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 100  # everything on the host: float


def test_a_tensor_that_only_the_host_touches_is_float() -> None:
    found = network()
    names = [layer.name for layer in found.layers if layer.role in (Role.WEIGHTED, Role.COMPUTED)]
    last = found.groups[found.weighted[-1].output]
    first = found.groups[found.parameters[0]]
    assert float_groups(found, frozenset()) == set()
    assert float_groups(found, frozenset({names[-1]})) == {last}
    assert float_groups(found, frozenset({names[0]})) == {first}
    assert float_groups(found, frozenset(names)) == set(found.groups.values())


def test_the_most_noise_per_cycle_goes_first() -> None:
    found = network()
    plan = Plan(SCHEMES["affine"], "minmax", {}, {}, {})
    names = [layer.name for layer in found.weighted]
    cycles = dict(zip(names, (1000, 10, 5, 1, 1), strict=True))
    noises = dict(zip(names, (1.0, 0.5, 0.01, 0.0, 0.0), strict=True))
    entries = Sensitivities(noises, dict.fromkeys(found.groups.values(), 0.0), cycles)
    assert with_host_layers(found, plan, entries, 20).host == set(names[1:3])
    assert with_host_layers(found, plan, entries, 1010).host == set(
        names[:2]
    )  # filled by noise alone
    assert with_host_layers(found, plan, entries, 1015).host == set(names[:3])
    assert with_host_layers(found, plan, entries, 0).host == frozenset()


def test_both_sides_of_a_noisy_tensor_move_together() -> None:
    """No layer alone takes that noise away: the tensor is float when nothing on the device writes
    or reads it."""
    found = network()
    plan = Plan(SCHEMES["affine"], "minmax", {}, {}, {})
    add = next(layer for layer in found.layers if layer.kind == "add")
    noisy = found.groups[add.inputs[0]]
    entries = Sensitivities(
        {
            layer.name: 1e-6
            for layer in found.layers
            if layer.role in (Role.WEIGHTED, Role.COMPUTED)
        },
        {group: float(group == noisy) for group in found.groups.values()},
        {layer.name: 10 for layer in found.layers if layer.role in (Role.WEIGHTED, Role.COMPUTED)},
    )
    host = with_host_layers(found, plan, entries, 40).host
    assert noisy in float_groups(found, host)
    assert {add.name, found.by_output[add.inputs[0]].name} <= host
    assert noisy not in float_groups(found, with_host_layers(found, plan, entries, 10).host)


def test_the_cheapest_layers_that_are_enough_stay_float() -> None:
    found = network()
    plan = Plan(SCHEMES["affine"], "minmax", {}, {}, {})
    names = [layer.name for layer in found.weighted]
    silent = dict.fromkeys(found.groups.values(), 0.0)
    cycles = dict(zip(names, (1000, 10, 5, 1, 1), strict=True))

    def kept(*noises: float, budget: float = np.inf) -> set[str]:
        entries = Sensitivities(dict(zip(names, noises, strict=True)), silent, cycles)

        def measured(plan: Plan) -> float:
            left = sum(noise for name, noise in entries.layers.items() if name not in plan.host)
            return float(-10 * np.log10(left)) if left else 200.0

        return set(with_good_outputs(found, plan, entries, measured, budget).host)

    good = 10 ** (-GOOD_DB / 10)
    assert kept(0.9 * good, 0, 0, 0, 0) == set(), "what is good stays as it is"
    assert kept(0.5, 0.0001, 0.0002, 0, 0) == {names[0]}
    assert kept(0.5, 0.5, 0.5, 0, 0) == set(names[:3])
    assert kept(0.5, 0.5, 0.5, 0, 0, budget=20) == {names[1], names[2]}, "as far as it goes"
    assert kept(0.01, 0.01, 0, 0.5 * good, 0.2 * good) == set(names[:2]), "no more than needed"


def test_outputs_become_good(
    prepared: tuple[FakeQuantizedRunner, Plan, Samples], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, plan, samples = prepared
    before = compare(runner, settings(runner.network, plan), samples).outputs[0]
    good = before + 3
    monkeypatch.setattr("loadstone.quantization.mixed.GOOD_DB", good)
    sensitivities = measure_sensitivities(runner, runner.network, plan, samples)

    def measured(plan: Plan) -> float:
        return compare(runner, settings(runner.network, plan), samples).outputs[0]

    mixed = with_good_outputs(runner.network, plan, sensitivities, measured)
    assert 0 < len(mixed.host) < len(sensitivities.cycles)
    assert measured(mixed) >= good
