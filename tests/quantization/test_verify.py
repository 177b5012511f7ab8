# SPDX-License-Identifier: Apache-2.0
"""quantization/verify.py: what the passes make is found right, and what spoils it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.errors import ModelError
from loadstone.graph import Quantization
from loadstone.quantization.calibrate import Calibration, calibrate
from loadstone.quantization.equalize import equalize
from loadstone.quantization.network import Network
from loadstone.quantization.plan import Plan, make_plan
from loadstone.quantization.rounding import correct_biases, measure_moments, round_weights
from loadstone.quantization.samples import Samples, samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.quantization.verify import (
    verify_calibration,
    verify_corrected,
    verify_equalized,
    verify_host,
    verify_rounded,
    verify_scales,
)
from tests import float_models
from tests.float_models import images


class Found:
    """What the passes make of the small network."""

    def __init__(self) -> None:
        self.runner: FakeQuantizedRunner = float_models.runner()
        self.network: Network = self.runner.network
        self.samples: Samples = samples_from(images(6), self.network.parameters)
        self.calibration: Calibration = calibrate(self.runner, self.samples)
        histograms = self.calibration.histograms
        self.plan: Plan = make_plan(self.network, histograms, SCHEMES["pow2"], "expected")
        moments = measure_moments(self.runner, self.samples)
        self.rounded: Plan = round_weights(self.network, self.plan, moments)
        self.corrected: Plan = correct_biases(self.network, self.rounded, moments)


@pytest.fixture(scope="module")
def found() -> Found:
    return Found()


def test_what_the_passes_make_is_found_right(found: Found) -> None:
    verify_calibration(found.network, found.calibration)
    verify_scales(found.network, found.plan)
    verify_rounded(found.network, found.plan, found.rounded)
    verify_corrected(found.network, found.rounded, found.corrected)
    kept = replace(found.plan, host=frozenset([found.network.weighted[0].name]))
    verify_host(found.network, found.plan, kept)
    equalized = equalize(found.network, found.calibration)
    verify_equalized(found.runner, found.samples, found.network, equalized)


def test_a_network_that_computes_something_else_is_named(found: Found) -> None:
    equalized = equalize(found.network, found.calibration)
    last = equalized.weighted[-1]
    assert last.bias is not None
    other = replace(last, bias=last.bias + 0.1)
    layers = tuple(other if layer is last else layer for layer in equalized.layers)
    spoilt = replace(equalized, layers=layers)
    with pytest.raises(ModelError, match=r"equalize: output 0 differs by \d"):
        verify_equalized(found.runner, found.samples, found.network, spoilt)


def test_values_that_were_not_counted_are_named(found: Found) -> None:
    less = replace(found.calibration, samples=5)
    with pytest.raises(ModelError, match=r"calibrate: \d+ values of .*, of tensors of \["):
        verify_calibration(found.network, less)
    histogram = next(iter(found.calibration.histograms.values()))
    histogram.zeros += 1
    with pytest.raises(ModelError, match=r"calibrate: the bins of .* do not count all"):
        verify_calibration(found.network, found.calibration)
    histogram.zeros -= 1
    low, histogram.low = histogram.low, 0.5
    with pytest.raises(ModelError, match=r"ranges from 0\.5 to"):
        verify_calibration(found.network, found.calibration)
    histogram.low = low


def with_activation(plan: Plan, scale: float, zero_point: int) -> Mapping[str, Any]:
    group = next(iter(plan.activations))
    return {"activations": {**plan.activations, group: Quantization(scale, zero_point)}}


def with_weights(plan: Plan, scales: Any) -> Mapping[str, Any]:
    return {"weights": {**plan.weights, next(iter(plan.weights)): scales}}


SPOILT: list[tuple[Callable[[Plan], Mapping[str, Any]], str]] = [
    (lambda plan: {"activations": {}}, "scales: .* has none"),
    (lambda plan: with_activation(plan, 0.375, 0), "has the scale 0.375, which is no power of two"),
    (lambda plan: with_activation(plan, float("inf"), 0), "has the scale inf"),
    (lambda plan: with_activation(plan, 0.25, 3), "has the zero point 3"),
    (lambda plan: with_weights(plan, np.ones(1, np.float32)), "not one for each output channel"),
    (
        lambda plan: with_weights(plan, np.full(8, 2.0**-60, np.float32)),
        r"a bias of .* is .* steps of 32 bits|not one for each",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILT)
def test_scales_that_the_scheme_does_not_allow_are_named(
    found: Found, spoil: Callable[[Plan], Mapping[str, Any]], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        verify_scales(found.network, replace(found.plan, **spoil(found.plan)))


@pytest.mark.parametrize("scale", [0.0, -0.25, float("nan"), 0.3])
def test_a_layer_s_scale_is_held_to_the_scheme_as_well(found: Found, scale: float) -> None:
    name, scales = next(iter(found.plan.weights.items()))
    spoilt = scales.copy()
    spoilt[-1] = scale
    plan = replace(found.plan, weights={**found.plan.weights, name: spoilt})
    with pytest.raises(ModelError, match=rf"scales: {name} has the scale (-?\d|nan)"):
        verify_scales(found.network, plan)


def test_a_repair_changes_what_is_its_own(found: Found) -> None:
    name = found.network.weighted[0].name
    integers = found.rounded.rounded[name]
    for spoilt, message in (
        (integers.astype(np.int16), "has int16"),
        (np.full_like(integers, -128), "has a weight beyond 127"),
    ):
        plan = replace(found.rounded, rounded={name: spoilt})
        with pytest.raises(ModelError, match=f"round_weights: {name} {message}"):
            verify_rounded(found.network, found.plan, plan)
    with pytest.raises(ModelError, match="a plan's biases became another"):
        verify_rounded(found.network, found.plan, found.corrected)
    biases = np.full_like(found.corrected.biases[name], np.nan)
    with pytest.raises(ModelError, match=f"correct_biases: {name} has biases of shape"):
        verify_corrected(found.network, found.plan, replace(found.plan, biases={name: biases}))
    stranger = replace(found.plan, host=frozenset(["nobody"]))
    with pytest.raises(ModelError, match="keep_on_host: nobody computes nothing"):
        verify_host(found.network, found.plan, stranger)
