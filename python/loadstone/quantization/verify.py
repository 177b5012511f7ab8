# SPDX-License-Identifier: Apache-2.0
"""Verifiers of the quantizer's passes: what must hold behind each, by other means than its own.

In:   what a pass was given, and what it made.
Out:  nothing, or a ModelError with the first thing that does not hold.
Next: pipeline.py names them to the log, which runs them where --verify asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from math import prod

import numpy as np

from loadstone.errors import ModelError
from loadstone.graph import Quantization
from loadstone.quantization.calibrate import Calibration
from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.plan import INT32_LIMIT, Plan
from loadstone.quantization.planned import real_settings
from loadstone.quantization.samples import Samples
from loadstone.quantization.scales import INT8_MAX, INT8_MIN
from loadstone.quantization.simulate import FakeQuantizedRunner
from loadstone.relax.compat import shape

__all__ = [
    "verify_calibration",
    "verify_corrected",
    "verify_equalized",
    "verify_host",
    "verify_rounded",
    "verify_scales",
]

#: What a float network may differ by behind equalization, as a share of its largest output: the
#: rounding of float32 through its layers.
_FLOAT_ROUNDING = 1e-3


def verify_equalized(
    runner: FakeQuantizedRunner, samples: Samples, before: Network, after: Network
) -> None:
    """Both networks compute the same on the first sample, up to the rounding of float32."""
    first = next(iter(samples))
    ours, theirs = (runner.run(first, real_settings(each))[0] for each in (before, after))
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        largest = float(np.abs(a).max(initial=1e-6))
        difference = float(np.abs(a - b).max(initial=0.0))
        if not difference <= _FLOAT_ROUNDING * largest:
            raise ModelError(
                f"equalize: output {number} differs by {difference:.3g}, where the largest value "
                f"is {largest:.3g}"
            )


def verify_calibration(network: Network, calibration: Calibration) -> None:
    """Each histogram has counted every element of some of its group's tensors, as often as there
    were samples, and none twice; its range is finite and contains 0. One that counted nothing is
    that of tensors which nobody reads."""
    read = {*network.outputs, *(item for layer in network.layers for item in layer.inputs)}
    for group, histogram in calibration.histograms.items():
        members = network.members(group)
        name = network.name(members[0])
        sizes = [prod(shape(member) or ()) * calibration.samples for member in members]
        counted = histogram.size > 0 or read.isdisjoint(members)
        if not counted or histogram.size not in _sums(sizes):
            raise ModelError(f"calibrate: {histogram.size} values of {name}, of tensors of {sizes}")
        if int(histogram.counts.sum()) + histogram.zeros != histogram.size:
            raise ModelError(f"calibrate: the bins of {name} do not count all of its values")
        ends = (histogram.low, histogram.high)
        if not all(map(math.isfinite, ends)) or not ends[0] <= 0.0 <= ends[1]:
            raise ModelError(f"calibrate: {name} ranges from {ends[0]} to {ends[1]}")


def _sums(sizes: list[int]) -> set[int]:
    """Of each choice among sizes."""
    found = {0}
    for size in sizes:
        found |= {size + other for other in found}
    return found


def verify_scales(network: Network, plan: Plan) -> None:
    """Every quantized tensor, every constant operand and every layer with weights has scales that
    the scheme allows, and biases fit the accumulator."""
    for group in set(network.groups.values()):
        name = network.name(network.members(group)[0])
        quantization = plan.activations.get(group)
        if quantization is None:
            raise ModelError(f"scales: {name} has none")
        _check_quantization(plan, name, quantization)
    for (name, position), quantization in plan.constants.items():
        _check_quantization(plan, f"operand {position} of {name}", quantization)
    for layer in network.weighted:
        scales = plan.weights.get(layer.name)
        assert layer.weights is not None
        if scales is None or scales.shape != layer.weights.shape[:1]:
            raise ModelError(f"scales: {layer.name} has not one for each output channel")
        for scale in set(scales.tolist()):
            _check_scale(plan, layer.name, scale)
        _check_bias("scales", network, plan, layer)


def _check_quantization(plan: Plan, name: str, quantization: Quantization) -> None:
    _check_scale(plan, name, float(quantization.scale))
    zero = quantization.zero_point
    if not INT8_MIN <= zero <= INT8_MAX or (zero and not plan.scheme.zero_points):
        raise ModelError(f"scales: {name} has the zero point {zero}")


def _check_scale(plan: Plan, name: str, scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0.0):
        raise ModelError(f"scales: {name} has the scale {scale}")
    if plan.scheme.powers_of_two and math.frexp(scale)[0] != 0.5:
        raise ModelError(f"scales: {name} has the scale {scale}, which is no power of two")


def _check_bias(who: str, network: Network, plan: Plan, layer: Layer) -> None:
    source = plan.activations.get(network.groups.get(layer.inputs[0], -1))
    bias = plan.biases.get(layer.name, layer.bias)
    if source is None or bias is None:
        return
    units = plan.weights[layer.name].astype(np.float64) * source.scale
    largest = float(np.abs(bias / units).max(initial=0.0))
    if not largest <= INT32_LIMIT:
        raise ModelError(f"{who}: a bias of {layer.name} is {largest:.3g} steps of 32 bits")


def verify_rounded(network: Network, before: Plan, after: Plan) -> None:
    """Weights are integers of 8 bits in their layers' shapes, and nothing else has changed."""
    _check_same(before, after, "rounded")
    by_name = {layer.name: layer for layer in network.weighted}
    for name, integers in after.rounded.items():
        weights = by_name[name].weights
        assert weights is not None
        if integers.dtype != np.int8 or integers.shape != weights.shape:
            raise ModelError(f"round_weights: {name} has {integers.dtype}{list(integers.shape)}")
        if (integers < -INT8_MAX).any():
            raise ModelError(f"round_weights: {name} has a weight beyond {INT8_MAX}")


def verify_corrected(network: Network, before: Plan, after: Plan) -> None:
    """Biases are finite, one for each output channel, and fit the accumulator; nothing else has
    changed."""
    _check_same(before, after, "biases")
    by_name = {layer.name: layer for layer in network.weighted}
    for name, biases in after.biases.items():
        known = by_name[name].bias
        assert known is not None
        if biases.shape != known.shape or not np.isfinite(biases).all():
            raise ModelError(f"correct_biases: {name} has biases of shape {list(biases.shape)}")
        _check_bias("correct_biases", network, after, by_name[name])


def verify_host(network: Network, before: Plan, after: Plan) -> None:
    """Only layers that a device could compute are kept, and nothing else has changed."""
    _check_same(before, after, "host", "host_bits")
    computing = {
        layer.name for layer in network.layers if layer.role in (Role.WEIGHTED, Role.COMPUTED)
    }
    for name in sorted(after.host - computing):
        raise ModelError(f"keep_on_host: {name} computes nothing that a device could")


def _check_same(before: Plan, after: Plan, *but: str) -> None:
    for entry in fields(Plan):
        one, other = getattr(before, entry.name), getattr(after, entry.name)
        if isinstance(one, Mapping):  # of arrays, too, which have no one answer to ==
            same = one.keys() == other.keys()
            same = same and all(np.array_equal(one[key], other[key]) for key in one)
        else:
            same = one == other
        if entry.name not in but and not same:
            raise ModelError(f"a plan's {entry.name} became another")
