# SPDX-License-Identifier: Apache-2.0
"""quantization/verify.py: what the passes make is found right, and what spoils it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from loadstone.errors import ModelError
from loadstone.graph import Quantization
from loadstone.quantization.calibrate import Calibration, calibrate
from loadstone.quantization.equalize import equalize
from loadstone.quantization.network import Layer, Network
from loadstone.quantization.plan import Plan, make_plan
from loadstone.quantization.rounding import correct_biases, measure_moments, round_weights
from loadstone.quantization.samples import Samples, samples_from
from loadstone.quantization.scales import SCHEMES
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.quantization.statistics import Histogram
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


def with_layer(network: Network, layer: Layer, **changes: Any) -> Network:
    """The network with a layer that differs in some fields."""
    other = replace(layer, **changes)
    return replace(network, layers=tuple(other if e is layer else e for e in network.layers))


def with_scores(network: Network, largest: float) -> Network:
    """The network whose scores are 0 but for the first one, whatever it is given."""
    last = network.weighted[-1]
    assert last.weights is not None
    bias = np.array([largest, 0, 0, 0, 0], np.float32)
    return with_layer(network, last, weights=np.zeros_like(last.weights), bias=bias)


def test_a_thousandth_of_the_largest_output_is_rounding(found: Found) -> None:
    before = with_scores(found.network, 1000.0)
    for scores in (1000.0, 999.0, 1001.0):
        after = with_scores(found.network, scores)
        verify_equalized(found.runner, found.samples, before, after)
    after = with_scores(found.network, 1001.0625)
    said = "^equalize: output 0 differs by 1.06, where the largest value is 1e[+]03$"
    with pytest.raises(ModelError, match=said):
        verify_equalized(found.runner, found.samples, before, after)


def test_values_that_were_not_counted_are_named(found: Found) -> None:
    less = replace(found.calibration, samples=5)
    with pytest.raises(ModelError, match=r"calibrate: \d+ values of .*, of tensors of \["):
        verify_calibration(found.network, less)
    histogram = next(iter(found.calibration.histograms.values()))
    histogram.zeros += 1
    with pytest.raises(ModelError, match=r"calibrate: the bins of .* do not count all"):
        verify_calibration(found.network, found.calibration)
    histogram.zeros -= 1


#: A number of the small network's groups, whose tensors are n1, n2, n8 and n9.
GROUP = 1


def ranging(found: Found, low: float, high: float) -> Calibration:
    """The calibration in which that group's values reach from low to high."""
    histogram = copy(found.calibration.histograms[GROUP])
    histogram.low, histogram.high = low, high
    return replace(found.calibration, histograms={**found.calibration.histograms, GROUP: histogram})


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 0.0), (0.0, 0.0)])
def test_a_range_may_end_at_0(found: Found, ends: tuple[float, float]) -> None:
    verify_calibration(found.network, ranging(found, *ends))


@pytest.mark.parametrize(
    "ends",
    [(0.5, 1.0), (-1.0, -0.5), (-np.inf, 1.0), (-1.0, np.inf), (-np.inf, np.inf), (np.nan, 1.0)],
)
def test_a_range_is_finite_and_contains_0(found: Found, ends: tuple[float, float]) -> None:
    with pytest.raises(ModelError, match=rf"^calibrate: n1 ranges from {ends[0]} to {ends[1]}$"):
        verify_calibration(found.network, ranging(found, *ends))


def test_a_group_that_counted_nothing_is_one_that_nobody_reads(found: Found) -> None:
    first = found.network.parameters[0]
    alone = replace(found.network, groups={first: 0}, layers=(), outputs=())
    nothing = Calibration({0: Histogram()}, {}, 6)
    verify_calibration(alone, nothing)
    for change in ({"outputs": (first,)}, {"layers": found.network.layers}):
        with pytest.raises(
            ModelError, match=r"^calibrate: 0 values of in0, of tensors of \[2592\]$"
        ):
            verify_calibration(replace(alone, **change), nothing)


def test_a_tensor_without_dimensions_is_one_value(found: Found) -> None:
    number = relax.Var("number", relax.TensorType((), "float32"))
    network = replace(found.network, groups={number: 0}, outputs=(number,))
    histogram = Histogram()
    for count in range(1, 7):
        histogram.update(np.ones(1, np.float32))
        verify_calibration(network, Calibration({0: histogram}, {}, count))
    with pytest.raises(ModelError, match=r"^calibrate: 6 values of number, of tensors of \[5\]$"):
        verify_calibration(network, Calibration({0: histogram}, {}, 5))


def with_activation(plan: Plan, scale: float, zero_point: int) -> Mapping[str, Any]:
    group = next(iter(plan.activations))
    return {"activations": {**plan.activations, group: Quantization(scale, zero_point)}}


def with_weights(plan: Plan, scales: Any) -> Mapping[str, Any]:
    return {"weights": {**plan.weights, next(iter(plan.weights)): scales}}


SPOILT: list[tuple[Callable[[Plan], Mapping[str, Any]], str]] = [
    (lambda plan: {"activations": {}}, "^scales: in0 has none$"),
    (
        lambda plan: with_activation(plan, 0.375, 0),
        "^scales: in0 has the scale 0.375, which is no power of two$",
    ),
    (lambda plan: with_activation(plan, float("inf"), 0), "^scales: in0 has the scale inf$"),
    (lambda plan: with_activation(plan, 0.25, 3), "^scales: in0 has the zero point 3$"),
    (lambda plan: {"weights": {}}, "^scales: n1 has not one for each output channel$"),
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


def with_last_scale(plan: Plan, scale: float) -> Plan:
    """The plan with another scale of the first layer's last channel."""
    name, scales = next(iter(plan.weights.items()))
    return replace(plan, weights={**plan.weights, name: np.array([*scales[:-1], scale], "f4")})


def test_a_layer_s_scale_is_held_to_the_scheme_as_well(found: Found) -> None:
    affine = replace(found.plan, scheme=SCHEMES["affine"])
    verify_scales(found.network, with_last_scale(affine, 0.75))
    with pytest.raises(ModelError, match=r"^scales: n1 has the scale 0.75, which is no power of"):
        verify_scales(found.network, with_last_scale(found.plan, 0.75))
    for plan in (affine, found.plan):
        for scale in (0.0, -0.25, np.inf, np.nan):
            with pytest.raises(ModelError, match=rf"^scales: n1 has the scale {scale}$"):
                verify_scales(found.network, with_last_scale(plan, scale))


def test_zero_points_are_bytes_where_the_scheme_has_them(found: Found) -> None:
    affine, symmetric = (replace(found.plan, scheme=SCHEMES[n]) for n in ("affine", "symmetric"))
    for zero in (-128, 3, 127):
        verify_scales(found.network, replace(affine, **with_activation(affine, 0.375, zero)))
    verify_scales(found.network, replace(symmetric, **with_activation(symmetric, 0.375, 0)))
    for plan, zero in ((affine, -129), (affine, 128), (symmetric, 1), (symmetric, -128)):
        with pytest.raises(ModelError, match=f"^scales: in0 has the zero point {zero}$"):
            verify_scales(found.network, replace(plan, **with_activation(plan, 0.375, zero)))


def test_constant_operands_are_held_to_the_scheme(found: Found) -> None:
    for quantization, said in (
        (Quantization(0.375, 0), "the scale 0.375, which is no power of two"),
        (Quantization(0.5, 1), "the zero point 1"),
    ):
        plan = replace(found.plan, constants={("n8", 1): quantization})
        with pytest.raises(ModelError, match=f"^scales: operand 1 of n8 has {said}$"):
            verify_scales(found.network, plan)
    verify_scales(found.network, replace(found.plan, constants={("n8", 1): Quantization(0.5, 0)}))


def with_bias(network: Network, number: int, value: float | None) -> Network:
    """The network with a bias of one weighted layer's last channel."""
    layer = network.weighted[number]
    assert layer.bias is not None
    return with_layer(
        network, layer, bias=None if value is None else np.array([*layer.bias[:-1], value], "f4")
    )


def test_biases_fit_the_accumulator(found: Found) -> None:
    """The first layer's has steps of 2^-31; the last channel's bias is the one that counts."""
    name = found.network.weighted[0].name
    plan = replace(found.plan, **with_activation(found.plan, 2.0**-31, 0))
    plan = replace(plan, weights={**plan.weights, name: np.ones(8, np.float32)})
    network = with_layer(found.network, found.network.weighted[0], bias=np.zeros(8, np.float32))
    below = 1 - 2**-24
    for bias in (below, -below, None):
        verify_scales(with_bias(network, 0, bias), plan)
    for bias, steps in ((1.0, "2.15e[+]09"), (np.nan, "nan"), (-2.0, "4.29e[+]09")):
        with pytest.raises(ModelError, match=f"^scales: a bias of n1 is {steps} steps of 32 bits$"):
            verify_scales(with_bias(network, 0, bias), plan)
    corrected = replace(plan, biases={name: np.full(8, below, np.float32)})
    verify_corrected(network, plan, corrected)
    corrected = replace(plan, biases={name: np.full(8, 1.5, np.float32)})
    with pytest.raises(ModelError, match=r"^correct_biases: a bias of n1 is 3.22e[+]09 steps of"):
        verify_corrected(network, plan, corrected)


def test_the_largest_number_of_32_bits_fits(found: Found) -> None:
    """2^31 - 1 steps exactly: three numbers of 24 bits, found by trying many."""
    weight, activation = 9418495.0, 15794281.0
    bias = (2**31 - 1) * weight * activation
    assert float(np.float32(bias)) / (weight * activation) == 2**31 - 1
    affine = replace(found.plan, scheme=SCHEMES["affine"])
    plan = replace(affine, **with_activation(affine, activation, 0))
    plan = replace(plan, weights={**plan.weights, "n1": np.full(8, weight, np.float32)})
    verify_scales(with_bias(found.network, 0, bias), plan)
    with pytest.raises(ModelError, match="^scales: a bias of n1 is 2.15e[+]09 steps of 32 bits$"):
        verify_scales(with_bias(found.network, 0, bias * (1 + 2**-22)), plan)


def test_a_layer_of_floats_has_a_bias_of_any_size(found: Found) -> None:
    """Its input is in no group, so that no scale is that of its accumulator."""
    layer = found.network.weighted[0]
    others = (found.network.parameters[0], layer.output)
    network = replace(found.network, groups={each: k for k, each in enumerate(others)})
    network = with_bias(replace(network, layers=(layer,)), 0, 1e30)
    verify_scales(network, found.plan)


def test_a_repair_changes_what_is_its_own(found: Found) -> None:
    name = found.network.weighted[0].name
    integers = found.rounded.rounded[name]
    beyond = integers.copy()
    beyond[-1, 0, 0, 0] = -128
    spoilt: list[tuple[Any, str]] = [
        (integers.astype(np.int16), r"has int16\[8, 3, 3, 3\]"),
        (integers[:, :2], r"has int8\[8, 2, 3, 3\]"),
        (beyond, "has a weight beyond 127"),
    ]
    for made, message in spoilt:
        plan = replace(found.rounded, rounded={name: made})
        with pytest.raises(ModelError, match=f"^round_weights: {name} {message}$"):
            verify_rounded(found.network, found.plan, plan)
    for largest in (-127, 127):
        plan = replace(found.rounded, rounded={name: np.full_like(integers, largest)})
        verify_rounded(found.network, found.plan, plan)
    biases = found.corrected.biases[name]
    for wrong, channels in ((np.array([*biases[:-1], np.nan], "f4"), 8), (biases[:-1], 7)):
        said = rf"^correct_biases: {name} has biases of shape \[{channels}\]$"
        with pytest.raises(ModelError, match=said):
            verify_corrected(found.network, found.plan, replace(found.plan, biases={name: wrong}))


def test_only_what_a_device_could_compute_is_kept_on_the_host(found: Found) -> None:
    for name in ("n1", "n8"):
        kept = replace(found.plan, host=frozenset([name]), host_bits=16)
        verify_host(found.network, found.plan, kept)
    for name in ("nobody", "n2"):
        kept = replace(found.plan, host=frozenset(["n1", name]))
        with pytest.raises(ModelError, match=f"^keep_on_host: {name} computes nothing that a"):
            verify_host(found.network, found.plan, kept)


def test_a_repair_leaves_what_is_not_its_own(found: Found) -> None:
    plan, network = found.rounded, found.network
    name, scales = next(iter(plan.weights.items()))
    verify_host(network, plan, replace(plan, weights={**plan.weights, name: scales.copy()}))
    spoilt: list[Mapping[str, Any]] = [
        {"weights": {**plan.weights, name: scales * 2}},
        {"weights": {name: scales}},
        {"weights": {**plan.weights, "n99": scales}},
        with_activation(plan, 0.5, 1),
        {"biases": found.corrected.biases},
        {"rounded": {}},
        {"half_up": True},
        {"method": "minmax"},
        {"scheme": SCHEMES["affine"]},
    ]
    for changes in spoilt:
        with pytest.raises(ModelError, match=f"^a plan's {next(iter(changes))} became another$"):
            verify_host(network, plan, replace(plan, **changes))
    host = replace(plan, host=frozenset([name]))
    with pytest.raises(ModelError, match="^a plan's host became another$"):
        verify_rounded(network, plan, host)
    with pytest.raises(ModelError, match="^a plan's host became another$"):
        verify_corrected(network, plan, host)
