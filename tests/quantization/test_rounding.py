# SPDX-License-Identifier: Apache-2.0
"""Compensated rounding against rounding to nearest, and biases that make up for what remains."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.quantization.calibrate import calibrate
from loadstone.quantization.moments import Moments
from loadstone.quantization.plan import Plan, make_plan, quantized_weights, real_weights
from loadstone.quantization.rounding import correct_biases, measure_moments, round_weights
from loadstone.quantization.samples import samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import float_models
from tests.float_models import images


@pytest.fixture(scope="module")
def prepared() -> tuple[FakeQuantizedRunner, Plan, dict[str, Moments]]:
    runner = float_models.runner()
    samples = samples_from(images(32), runner.network.parameters)
    calibration = calibrate(runner, samples)
    plan = make_plan(
        runner.network, calibration.histograms, SCHEMES["affine"], "minmax", mse_weights=False
    )
    return runner, plan, measure_moments(runner, samples)


def test_moments_are_those_of_the_windows(
    prepared: tuple[FakeQuantizedRunner, Plan, dict[str, Moments]],
) -> None:
    """The first layer by hand: 3x3 windows of the input, zero outside, in the order of OHWI."""
    runner, _, moments = prepared
    first = runner.network.weighted[0]
    rows = []
    for image in images(32)[:, 0]:
        padded = np.pad(image.transpose(1, 2, 0), ((1, 1), (1, 1), (0, 0)))
        rows += [padded[y : y + 3, x : x + 3].reshape(-1) for y in range(12) for x in range(12)]
    np.testing.assert_allclose(moments[first.name].mean[0], np.mean(rows, axis=0), atol=1e-5)
    np.testing.assert_allclose(
        moments[first.name].covariance[0], np.cov(np.array(rows).T, bias=True), atol=1e-4
    )


def test_every_layer_errs_less_on_its_own_inputs(
    prepared: tuple[FakeQuantizedRunner, Plan, dict[str, Moments]],
) -> None:
    runner, plan, moments = prepared
    found = round_weights(runner.network, plan, moments, damping=0.01)
    gains = []
    for layer in runner.network.weighted:
        assert layer.weights is not None
        covariance = moments[layer.name].covariance
        errors = []
        for chosen in (plan, found):
            difference = (real_weights(layer, chosen).astype(np.float64) - layer.weights).reshape(
                len(covariance), -1, covariance.shape[1]
            )
            errors.append(float(np.einsum("goi,gij,goj->", difference, covariance, difference)))
        assert errors[1] <= errors[0]
        gains.append(errors[1] / errors[0])
        assert np.abs(quantized_weights(layer, found)).max() <= 127
    assert min(gains) < 0.5
    assert (
        sum(
            np.any(quantized_weights(layer, found) != quantized_weights(layer, plan))
            for layer in runner.network.weighted
        )
        >= 4
    )


def test_independent_inputs_are_rounded_to_nearest() -> None:
    """With a diagonal covariance no weight can make up for another."""
    runner = float_models.runner()
    layer = runner.network.weighted[0]
    moments = Moments(1, 27)
    moments.update((np.eye(27, dtype=np.float32) - np.float32(1 / 27))[None])
    moments._products = 27 * (np.eye(27) + moments.mean[:, :, None] * moments.mean[:, None, :])
    calibration = calibrate(runner, samples_from(images(2), runner.network.parameters))
    plan = make_plan(runner.network, calibration.histograms, SCHEMES["affine"], "minmax")
    found = round_weights(runner.network, plan, {layer.name: moments})
    np.testing.assert_array_equal(quantized_weights(layer, found), quantized_weights(layer, plan))


def test_biases_take_off_the_mean_error(
    prepared: tuple[FakeQuantizedRunner, Plan, dict[str, Moments]],
) -> None:
    runner, plan, moments = prepared
    found = correct_biases(runner.network, plan, moments)
    for layer in runner.network.weighted:
        assert layer.weights is not None
        assert layer.bias is not None
        mean = moments[layer.name].mean
        exact, rounded = (
            np.einsum(
                "gok,gk->go", weights.reshape(len(mean), -1, mean.shape[1]).astype(np.float64), mean
            ).reshape(-1)
            for weights in (layer.weights, real_weights(layer, plan))
        )
        np.testing.assert_allclose(
            rounded + found.biases[layer.name], exact + layer.bias, atol=1e-5
        )


def test_a_layer_of_very_many_inputs_keeps_no_covariance() -> None:
    """27,360 inputs, the flattened image before a dense layer: their products would take six
    gigabytes."""
    moments = Moments(1, 27360)
    moments.update(np.ones((1, 3, 27360), np.float32))
    assert not moments.has_covariance
    np.testing.assert_array_equal(moments.mean, np.ones((1, 27360)))
    runner = float_models.runner()
    plan = make_plan(runner.network, {}, SCHEMES["affine"], "minmax", mse_weights=False)
    assert not round_weights(
        runner.network, plan, {layer.name: moments for layer in runner.network.weighted}
    ).rounded
