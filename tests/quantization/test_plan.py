# SPDX-License-Identifier: Apache-2.0
"""Plans: rules beyond a single tensor's statistics, and the integers that follow."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from loadstone.graph import Quantization
from loadstone.quantization.calibrate import Calibration, calibrate
from loadstone.quantization.network import Network
from loadstone.quantization.plan import (
    bias_scales,
    half_step_bias,
    make_plan,
    make_shiftable,
    quantized_bias,
    quantized_weights,
)
from loadstone.quantization.planned import settings
from loadstone.quantization.samples import samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import float_models
from tests.float_models import images


@pytest.fixture(scope="module")
def runner() -> FakeQuantizedRunner:
    return float_models.runner()


@pytest.fixture(scope="module")
def calibration(runner: FakeQuantizedRunner) -> Calibration:
    return calibrate(runner, samples_from(images(16), runner.network.parameters))


def ends(quantization: Quantization) -> tuple[float, float]:
    low, high = ((limit - quantization.zero_point) * quantization.scale for limit in (-128, 127))
    return low, high


def test_expected_ranges_know_the_network(
    runner: FakeQuantizedRunner, calibration: Calibration
) -> None:
    found = runner.network
    plan = make_plan(found, calibration.histograms, SCHEMES["affine"], "expected")
    seen = calibration.histograms[found.groups[found.parameters[0]]]
    low, high = ends(plan.activations[found.groups[found.parameters[0]]])
    assert high - low == pytest.approx(seen.high - seen.low, rel=1e-3)  # an input is not widened
    deep = found.weighted[1]
    assert (
        ends(plan.activations[found.groups[deep.output]])[1] <= 6.0 + 1e-5
    )  # nor a relu6 beyond its bound
    mean = next(layer for layer in found.layers if layer.kind == "mean")
    own, source = (
        calibration.histograms[found.groups[mean.output]],
        calibration.histograms[found.groups[mean.inputs[0]]],
    )
    assert own.high < ends(plan.activations[found.groups[mean.output]])[1] < 2 * source.high


def test_powers_of_two_everywhere(runner: FakeQuantizedRunner, calibration: Calibration) -> None:
    plan = make_plan(runner.network, calibration.histograms, SCHEMES["pow2"], "expected")
    scales = [quantization.scale for quantization in plan.activations.values()] + [
        s for array in plan.weights.values() for s in array
    ]
    assert all(np.log2(scale) == np.round(np.log2(scale)) for scale in scales)
    assert all(quantization.zero_point == 0 for quantization in plan.activations.values())


def test_a_plan_in_powers_of_two_asks_for_nothing_that_a_shift_cannot_do(
    runner: FakeQuantizedRunner, calibration: Calibration
) -> None:
    """Channels that hardly are, or are not, beside others; two tensors of which one is far finer
    than the other; an output finer than the products that make it."""
    network = runner.network
    first, *others = network.weighted
    weights = first.weights.copy()
    weights[1] *= 1e-9
    weights[2] = 0
    faint = replace(first, weights=weights)
    network = replace(
        network, layers=tuple(faint if layer is first else layer for layer in network.layers)
    )
    histograms = dict(calibration.histograms)
    (total,) = (layer for layer in network.layers if layer.kind == "add")
    fine, dense = network.groups[total.inputs[0]], network.groups[others[-1].output]
    for group, factor in ((fine, 2.0**-20), (dense, 2.0**-30)):
        histograms[group] = copy(histograms[group])
        histograms[group].low *= factor
        histograms[group].high *= factor
    plan = make_plan(network, histograms, SCHEMES["pow2"], "minmax")
    scale = {v: plan.activations[group].scale for v, group in network.groups.items()}
    for layer in network.weighted:
        unit = scale[layer.output] / scale[layer.inputs[0]]
        shifts = np.log2(unit / plan.weights[layer.name])
        assert shifts.min() >= 0
        assert np.ptp(shifts) != 1
        assert shifts.max() <= 12
    sums = [scale[variable] for variable in (*total.inputs, total.output)]
    assert max(sums[:2]) / min(sums) <= 64


def test_a_sum_of_two_tensors_needs_no_weight_beyond_8_bits(
    runner: FakeQuantizedRunner, calibration: Calibration
) -> None:
    """The finer tensor, and what reads it too, gets steps that can be seen in the sum."""
    network = runner.network
    plan = make_plan(network, calibration.histograms, SCHEMES["pow2"], "expected")
    (total,) = (layer for layer in network.layers if layer.kind == "add")
    fine, coarse = (network.groups[variable] for variable in total.inputs)
    activations = dict(plan.activations)
    activations[fine] = Quantization(2.0**-30, 0)
    weights = {name: np.asarray(s * 2.0**-60, np.float32) for name, s in plan.weights.items()}
    make_shiftable(network, activations, weights, set(activations))
    assert activations[coarse] == plan.activations[coarse]
    assert activations[fine].scale == activations[coarse].scale / 64


def with_bias(found: Network, values: np.ndarray) -> Network:
    first = found.weighted[0]
    return replace(
        found,
        layers=tuple(
            replace(layer, bias=values) if layer is first else layer for layer in found.layers
        ),
    )


def test_a_bias_of_half_a_step_rounds_half_up(
    runner: FakeQuantizedRunner, calibration: Calibration
) -> None:
    network = runner.network
    even = make_plan(network, calibration.histograms, SCHEMES["pow2"], "expected")
    up = replace(even, half_up=True)
    kinds = set()
    for layer in network.weighted:
        source = even.activations[network.groups[layer.inputs[0]]]
        target = even.activations[network.groups[layer.output]]
        assert half_step_bias(layer, even, source, target) is None
        found = half_step_bias(layer, up, source, target)
        kinds.add((layer.kind, found is not None))
        if found is not None:
            steps = found.astype(np.float64) / bias_scales(up.weights[layer.name], source)
            np.testing.assert_array_equal(steps, quantized_bias(layer, up, source) + 0.5)
            real = settings(network, up).biases[layer.name]
            np.testing.assert_array_equal(real, found)
            fine = replace(target, scale=float(bias_scales(up.weights[layer.name], source).max()))
            assert half_step_bias(layer, up, source, fine) is None
    assert kinds == {("nn.conv2d", True), ("matmul", False)}


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_large_bias_on_tiny_weights_fits_the_accumulator(
    runner: FakeQuantizedRunner, calibration: Calibration, per_channel: bool
) -> None:
    bias = np.zeros(8, np.float32)
    bias[3] = 1e7
    spoiled = with_bias(runner.network, bias)
    plan = make_plan(
        spoiled, calibration.histograms, SCHEMES["affine"], "minmax", per_channel=per_channel
    )
    layer = spoiled.weighted[0]
    source = plan.activations[spoiled.groups[layer.inputs[0]]]
    integers = quantized_bias(layer, plan, source)
    assert abs(int(integers[3])) < 2**31 - 1
    assert integers[3] * float(bias_scales(plan.weights[layer.name], source)[3]) == pytest.approx(
        1e7, rel=1e-3
    )


def test_settings_are_what_the_integers_stand_for(
    runner: FakeQuantizedRunner, calibration: Calibration
) -> None:
    found = runner.network
    plan = make_plan(found, calibration.histograms, SCHEMES["affine"], "minmax")
    chosen = settings(found, plan)
    for layer in found.weighted:
        assert layer.weights is not None
        scales = plan.weights[layer.name].reshape((-1,) + (1,) * (layer.weights.ndim - 1))
        integers = quantized_weights(layer, plan)
        assert integers.dtype == np.int8
        np.testing.assert_array_equal(chosen.weights[layer.name], integers * scales)
        assert np.abs(chosen.weights[layer.name] - layer.weights).max() <= scales.max() * 0.75
    assert set(chosen.activations) == set(found.boundaries())
    on_host = settings(found, replace(plan, host=frozenset({found.weighted[0].name})))
    np.testing.assert_array_equal(
        on_host.weights[found.weighted[0].name], found.weighted[0].weights
    )
