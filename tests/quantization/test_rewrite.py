# SPDX-License-Identifier: Apache-2.0
"""The rewritten network is QDQ as the frontends give it, and means what was simulated."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.frontend.rewrites import canonical
from loadstone.graph.reference import run as run_graph
from loadstone.partition.eager import partition
from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.plan import Plan, make_plan
from loadstone.quantization.planned import settings
from loadstone.quantization.rewrite import rewrite, write_weights
from loadstone.quantization.rounding import correct_biases, measure_moments, round_weights
from loadstone.quantization.samples import Samples, samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import float_models
from tests.float_models import images, network


@pytest.fixture(scope="module", params=["affine", "pow2"])
def prepared(request: pytest.FixtureRequest) -> tuple[FakeQuantizedRunner, Plan, Samples]:
    runner = float_models.runner()
    samples = samples_from(images(8), runner.network.parameters)
    plan = make_plan(
        runner.network,
        calibrate(runner, samples).histograms,
        SCHEMES[request.param],
        "expected",
    )
    moments = measure_moments(runner, samples)
    return (
        runner,
        correct_biases(runner.network, round_weights(runner.network, plan, moments), moments),
        samples,
    )


def test_every_layer_is_an_int8_operator(
    prepared: tuple[FakeQuantizedRunner, Plan, Samples],
) -> None:
    runner, plan, _ = prepared
    graph = partition(rewrite(runner.network, plan), [], "small").graph
    kinds = Counter(type(operator) for operator in graph.operators)
    assert kinds[g.Conv2D] == 4
    assert (
        kinds[g.Dense]
        == kinds[g.Add]
        == kinds[g.MaxPool2D]
        == kinds[g.Concatenate]
        == kinds[g.Quantize]
        == kinds[g.Dequantize]
        == 1
    )
    assert kinds[g.Host] == 0
    joined = next(operator for operator in graph.operators if isinstance(operator, g.Concatenate))
    assert joined.is_copy


def test_the_canonical_form_is_kept(prepared: tuple[FakeQuantizedRunner, Plan, Samples]) -> None:
    runner, plan, samples = prepared
    module = rewrite(runner.network, plan)
    once, twice = (partition(entry, [], "small").graph for entry in (module, canonical(module)))
    assert [type(operator) for operator in once.operators] == [
        type(operator) for operator in twice.operators
    ]
    inputs = next(iter(samples))
    np.testing.assert_array_equal(run_graph(once, inputs)[0], run_graph(twice, inputs)[0])


def test_the_integers_mean_what_was_simulated(
    prepared: tuple[FakeQuantizedRunner, Plan, Samples],
) -> None:
    """Exact arithmetic of integers against the simulation in float32: one step of the output at
    most, rarely."""
    runner, plan, samples = prepared
    graph = partition(rewrite(runner.network, plan), [], "small").graph
    chosen = settings(runner.network, plan)
    step = plan.activations[runner.network.groups[runner.network.outputs[0]]].scale
    different = 0
    for inputs in samples:
        found, simulated = run_graph(graph, inputs)[0], runner.run(inputs, chosen)[0][0]
        different += int(np.count_nonzero(np.abs(found - simulated) > step / 2))
        assert np.abs(found - simulated).max() <= 1.5 * step
    assert different <= 4


def test_layers_on_the_host_stay_float(prepared: tuple[FakeQuantizedRunner, Plan, Samples]) -> None:
    runner, plan, _ = prepared
    name = runner.network.weighted[2].name
    graph = partition(
        rewrite(runner.network, replace(plan, host=frozenset({name}))), [], "small"
    ).graph
    hosts = [operator for operator in graph.operators if isinstance(operator, g.Host)]
    assert [operator.operators for operator in hosts] == [("nn.conv2d", "add")]
    assert sum(isinstance(operator, g.Conv2D) for operator in graph.operators) == 3


@pytest.mark.full
def test_repaired_weights_can_be_written_back() -> None:
    found = network()
    changed = replace(
        found,
        layers=tuple(
            replace(layer, weights=layer.weights * 2)
            if layer is found.weighted[-1] and layer.weights is not None
            else layer
            for layer in found.layers
        ),
    )
    from loadstone.relax.saved import run_module

    image = images(1)[0]
    last = found.weighted[-1]
    before, after = (run_module(write_weights(entry), [image])[0] for entry in (found, changed))
    np.testing.assert_allclose(after - last.bias, 2 * (before - last.bias), rtol=1e-4, atol=1e-5)
