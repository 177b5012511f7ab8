"""The plan of a quantization: every scale that the network gets, and the integers that follow from them.

In:   Network, the histogram of every group, a method and a scheme.
Out:  Plan: quantization of each group, scales of each layer's weights, layers that stay on the host.
Next: rewrite.py writes it into the network; simulate.py tries it first (`settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.quantize.network import Layer, Network, Role
from loadstone.quantize.scales import INT8_MAX, Scheme, activation_quantization, weight_scales
from loadstone.quantize.simulate import Settings
from loadstone.quantize.statistics import Histogram

__all__ = ["Plan", "make_plan", "quantized_bias", "quantized_constant", "quantized_weights", "settings"]

INT32_LIMIT = 2**31 - 1
#: A bias may take half of the accumulator's range.
BIAS_LIMIT = 2**30


@dataclass(frozen=True, eq=False)
class Plan:
    """activations: by group of the network. weights: float32 (O,) by layer name. constants: by (layer name, position).

    rounded: integers of layers whose weights are not simply rounded to nearest. biases: real biases in place of the network's.
    host: names of WEIGHTED and COMPUTED layers that stay float; what they read and write is int8 still.
    """

    scheme: Scheme
    method: str
    activations: Mapping[int, Quantization]
    weights: Mapping[str, NDArray[np.float32]]
    constants: Mapping[tuple[str, int], Quantization]
    rounded: Mapping[str, NDArray[np.int8]] = field(default_factory=dict)
    biases: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    host: frozenset[str] = field(default_factory=frozenset)


def make_plan(
    network: Network,
    histograms: Mapping[int, Histogram],
    scheme: Scheme,
    method: str,
    *,
    per_channel: bool = True,
    mse_weights: bool = True,
) -> Plan:
    """Chooses every scale. histograms: one for each group."""
    activations = {group: activation_quantization(histogram, method, scheme) for group, histogram in histograms.items()}
    weights = {}
    for layer in network.weighted:
        assert layer.weights is not None
        scales = weight_scales(layer.weights, scheme, per_channel=per_channel, mse=mse_weights)
        source = activations.get(network.groups.get(layer.inputs[0], -1))
        weights[layer.name] = _room_for_bias(layer, scales, source.scale, scheme) if source is not None else scales
    constants = {
        (layer.name, position): scheme.quantization(min(0.0, float(array.min())), max(0.0, float(array.max())))
        for layer in network.layers
        for position, array in layer.constants.items()
        if layer.role is Role.COMPUTED
    }
    return Plan(scheme, method, activations, weights, constants)


def _room_for_bias(layer: Layer, scales: NDArray[np.float32], source: float, scheme: Scheme) -> NDArray[np.float32]:
    """A channel of tiny weights and a large bias gets a coarser scale, so that the bias fits the int32 accumulator."""
    assert layer.bias is not None
    smallest = np.abs(layer.bias.astype(np.float64)) / (source * BIAS_LIMIT)
    if not np.any(scales < smallest):
        return scales
    if len(set(scales.tolist())) == 1:
        smallest = np.full_like(smallest, smallest.max())
    return np.array([max(scale, scheme.step(least)) for scale, least in zip(scales, smallest, strict=True)], np.float32)


# ---------------------------------------------------------------------------------------------------------------
# The integers of a plan
# ---------------------------------------------------------------------------------------------------------------


def quantized_weights(layer: Layer, plan: Plan) -> NDArray[np.int8]:
    """int8 in [-127, 127], output channels on axis 0."""
    assert layer.weights is not None
    if layer.name in plan.rounded:
        return plan.rounded[layer.name]
    rounded: NDArray[np.int8] = np.clip(np.rint(layer.weights / _along(plan.weights[layer.name], layer)), -INT8_MAX, INT8_MAX).astype(
        np.int8
    )
    return rounded


def quantized_bias(layer: Layer, plan: Plan, source: Quantization) -> NDArray[np.int32]:
    """int32 at the scale of the accumulator: bias_scales."""
    assert layer.bias is not None
    steps = np.rint(plan.biases.get(layer.name, layer.bias).astype(np.float64) / bias_scales(plan.weights[layer.name], source))
    return np.clip(steps, -INT32_LIMIT, INT32_LIMIT).astype(np.int32)


def real_weights(layer: Layer, plan: Plan) -> NDArray[np.float32]:
    """What the integers stand for."""
    return np.asarray(quantized_weights(layer, plan) * _along(plan.weights[layer.name], layer), np.float32)


def _along(scales: NDArray[np.float32], layer: Layer) -> NDArray[np.float32]:
    assert layer.weights is not None
    return scales.reshape((-1,) + (1,) * (layer.weights.ndim - 1))


def bias_scales(scales: NDArray[np.float32], source: Quantization) -> NDArray[np.float32]:
    """float32 products, as ONNX Runtime and the frontends compute them."""
    return np.asarray(np.float32(source.scale) * scales, np.float32)


def quantized_constant(array: NDArray[np.float32], quantization: Quantization) -> NDArray[np.int8]:
    """An operand of element-wise arithmetic."""
    steps: NDArray[np.int8] = np.clip(np.rint(array / np.float32(quantization.scale)) + quantization.zero_point, -128, 127).astype(np.int8)
    return steps


def settings(network: Network, plan: Plan) -> Settings:
    """What the simulator needs to run the network as planned."""
    weights, biases = {}, {}
    for layer in network.weighted:
        source = plan.activations.get(network.groups.get(layer.inputs[0], -1))
        assert layer.weights is not None
        assert layer.bias is not None
        weights[layer.name], biases[layer.name] = layer.weights, layer.bias
        if layer.name not in plan.host and layer.output in network.quantized and source is not None:
            scales = bias_scales(plan.weights[layer.name], source)
            weights[layer.name] = real_weights(layer, plan)
            biases[layer.name] = (quantized_bias(layer, plan, source) * scales).astype(np.float32)
    activations: dict[Any, Quantization] = {variable: plan.activations[network.groups[variable]] for variable in network.boundaries()}
    constants = {}
    for layer in network.layers:
        for position, array in layer.constants.items():
            quantization = plan.constants.get((layer.name, position))
            if quantization is not None and layer.name not in plan.host and layer.output in network.quantized:
                steps = quantized_constant(array, quantization).astype(np.float32) - quantization.zero_point
                constants[layer.name, position] = np.asarray(steps * np.float32(quantization.scale), np.float32)
    return Settings(weights, biases, constants, activations)
