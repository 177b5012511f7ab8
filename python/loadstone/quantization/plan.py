# SPDX-License-Identifier: Apache-2.0
"""The plan of a quantization: all scales of the network, and the integers that follow from them.

In:   Network, the histogram of every group, a method and a scheme.
Out:  Plan: quantization of each group, scales of each layer's weights, layers that stay on the
      host.
Next: rewrite.py writes it into the network; planned.py runs it first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.scales import (
    INT8_MAX,
    Scheme,
    activation_range,
    shiftable_scales,
    weight_scales,
)
from loadstone.quantization.statistics import Histogram

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = [
    "Plan",
    "along",
    "bias_scales",
    "float_groups",
    "half_step_bias",
    "make_plan",
    "make_shiftable",
    "quantized_bias",
    "quantized_constant",
    "quantized_weights",
    "real_weights",
]

INT32_LIMIT = 2**31 - 1
_MEANS = ("nn.avg_pool2d", "mean")
_SUMS = ("add", "subtract")
#: The largest ratio between the scales of two tensors that are added: the largest power of two that
#: a weight of 8 bits can represent.
LARGEST_RATIO = 64.0
#: A bias may use half of the accumulator's range.
BIAS_LIMIT = 2**30
#: Below this magnitude a float32 can represent one half, also when products are added.
HALF_STEP_LIMIT = 2**22


@dataclass(frozen=True, eq=False)
class Plan:
    """activations: by group of the network. weights: float32 (O,) by layer name. constants: by
    (layer name, position).

    rounded: integers of layers whose weights are not simply rounded to nearest. biases: real biases
        that replace the network's.
    host: names of WEIGHTED and COMPUTED layers that stay on the host. Their outputs are int8,
        unless only the host reads them.
    host_bits: 32: layers on the host are float. 16: their weights, and the tensors that only the
        host writes and reads, are int16; their biases stay real.
    half_up: biases of convolutions contain half a step of the accumulator, so that no sum is a tie,
        and one shift rounds it (`half_step_bias`).
    """

    scheme: Scheme
    method: str
    activations: Mapping[int, Quantization]
    weights: Mapping[str, NDArray[np.float32]]
    constants: Mapping[tuple[str, int], Quantization]
    rounded: Mapping[str, NDArray[np.int8]] = field(default_factory=dict)
    biases: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    host: frozenset[str] = field(default_factory=frozenset)
    host_bits: int = 32
    half_up: bool = False


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
    ranges = _ranges(network, histograms, scheme, method)
    activations = {group: scheme.quantization(*ends) for group, ends in ranges.items()}
    weights = {}
    for layer in network.weighted:
        assert layer.weights is not None
        weights[layer.name] = weight_scales(
            layer.weights, scheme, per_channel=per_channel, mse=mse_weights
        )
    if scheme.powers_of_two:
        used = {group for group, ends in ranges.items() if ends != (0.0, 0.0)}
        make_shiftable(network, activations, weights, used)
    for layer in network.weighted:
        source = activations.get(network.groups.get(layer.inputs[0], -1))
        if source is not None:
            scales = weights[layer.name]
            weights[layer.name] = _room_for_bias(layer, scales, source.scale, scheme)
    constants = {
        (layer.name, position): scheme.quantization(
            min(0.0, float(array.min())), max(0.0, float(array.max()))
        )
        for layer in network.layers
        for position, array in layer.constants.items()
        if layer.role is Role.COMPUTED
    }
    return Plan(scheme, method, activations, weights, constants)


def make_shiftable(
    network: Network,
    activations: dict[int, Quantization],
    weights: dict[str, NDArray[np.float32]],
    used: Set[int],
) -> None:
    """Changes a plan in powers of two, in place, such that a device without a multiplier can run
    all of it: no shift to the left, no weight of more than 8 bits in a sum of two tensors, and no
    channel whose scale is too fine for a common range of shifts.

    weights: scales (O,) by layer name. used: groups whose tensors are not always 0; the scales of
        other groups have no meaning.
    """

    def scale_of(variable: Var) -> float | None:
        group = network.groups.get(variable, -1)
        return activations[group].scale if group in used and group in activations else None

    def at_least(variable: Var, scale: float) -> bool:
        known = scale_of(variable)
        if known is None or known >= scale:
            return False
        group = network.groups[variable]
        activations[group] = replace(activations[group], scale=scale)
        return True

    def coarsened(layer: Layer) -> bool:
        """Whether scales of the layer's tensors had to grow."""
        sources = [scale for v in layer.inputs if (scale := scale_of(v)) is not None]
        if not sources:
            return False
        if layer.name in weights:
            live = _live(layer)
            coarsest = float(weights[layer.name][live].max(initial=0.0))
            return at_least(layer.output, sources[0] * coarsest)
        if layer.kind not in _SUMS or scale_of(layer.output) is None:
            return False
        least = max(sources) / LARGEST_RATIO
        return any(at_least(variable, least) for variable in (*layer.inputs, layer.output))

    while any(coarsened(layer) for layer in network.layers):
        pass  # scales only grow, and none beyond the coarsest
    for layer in network.weighted:
        assert layer.weights is not None
        source, target = scale_of(layer.inputs[0]), scale_of(layer.output)
        if source is not None and target is not None:
            scales, live = weights[layer.name].copy(), _live(layer)
            finest, inputs = target / source, layer.weights[0].size
            scales[~live] = scales[live].max(initial=finest if not live.any() else 0.0)
            weights[layer.name] = shiftable_scales(scales, finest, inputs)


def _live(layer: Layer) -> NDArray[np.bool_]:
    """(O,): the channels with weights other than 0."""
    assert layer.weights is not None
    return np.asarray(layer.weights.reshape(len(layer.weights), -1).any(axis=1))


def _ranges(
    network: Network, histograms: Mapping[int, Histogram], scheme: Scheme, method: str
) -> dict[int, tuple[float, float]]:
    """The range of each group. `expected` uses facts of the network that a histogram does not
    contain:

    - inputs have natural bounds (pixels), which samples reach: they are not widened;
    - an activation's bounds are not exceeded;
    - a mean that the device computes with could reach its input's range, although the means of the
    samples stay far below: the geometric mean of the two is used, so that neither precision nor
    range loses more than half of the bits between them.
    """
    ranges = {
        group: activation_range(histogram, method, scheme)
        for group, histogram in histograms.items()
    }
    if method != "expected":
        return ranges
    _widen_means(network, ranges)
    makers_of: dict[int, list[Layer | None]] = {group: [] for group in ranges}
    for variable in network.boundaries():
        makers_of[network.groups[variable]].append(network.by_output.get(variable))
    for group, makers in makers_of.items():
        if any(maker is None for maker in makers):
            ranges[group] = activation_range(histograms[group], "minmax", scheme)
        bounds = [maker.clamp for maker in makers if maker is not None]
        if bounds:
            low, high = ranges[group]
            ranges[group] = (
                max(low, min(bound[0] for bound in bounds)),
                min(high, max(bound[1] for bound in bounds)),
            )
    return ranges


def _widen_means(network: Network, ranges: dict[int, tuple[float, float]]) -> None:
    """Widens the groups of means that the device computes with, in place."""
    results = network.results()
    for layer in network.layers:
        if layer.kind in _MEANS and layer.output in network.groups and layer.output not in results:
            group = network.groups[layer.output]
            ends = zip(ranges[group], ranges[network.groups[layer.inputs[0]]], strict=True)
            low, high = (math.copysign(math.sqrt(abs(own * source)), own) for own, source in ends)
            ranges[group] = low, high


def _room_for_bias(
    layer: Layer, scales: NDArray[np.float32], source: float, scheme: Scheme
) -> NDArray[np.float32]:
    """Gives a channel of tiny weights and a large bias a coarser scale, so that the bias fits the
    int32 accumulator."""
    assert layer.bias is not None
    smallest = np.abs(layer.bias.astype(np.float64)) / (source * BIAS_LIMIT)
    if not np.any(scales < smallest):
        return scales
    if len(set(scales.tolist())) == 1:
        smallest = np.full_like(smallest, smallest.max())
    return np.array(
        [max(scale, scheme.step(least)) for scale, least in zip(scales, smallest, strict=True)],
        np.float32,
    )


def float_groups(network: Network, host: frozenset[str]) -> set[int]:
    """The groups whose tensors only the host computes and reads, when these layers are on the host
    besides the FLOAT ones."""

    def on_host(layer: Layer) -> bool:
        return (
            layer.role is Role.FLOAT or layer.name in host or layer.output not in network.quantized
        )

    device = {
        network.groups[variable]
        for layer in network.layers
        if layer.role is not Role.MOVED and not on_host(layer)
        for variable in (*layer.inputs, layer.output)
        if variable in network.groups
    }
    return set(network.groups.values()) - device


# --------------------------------------------------------------------------------------------------
# The integers of a plan
# --------------------------------------------------------------------------------------------------


def quantized_weights(layer: Layer, plan: Plan) -> NDArray[np.int8]:
    """int8 in [-127, 127], in the shape of the layer's weights: output channels on axis 0. Rounded
    to nearest, ties to even, unless a repair has rounded them."""
    assert layer.weights is not None
    if layer.name in plan.rounded:
        return plan.rounded[layer.name]
    return np.asarray(
        np.clip(
            np.rint(layer.weights / along(plan.weights[layer.name], layer)), -INT8_MAX, INT8_MAX
        ),
        np.int8,
    )


def quantized_bias(layer: Layer, plan: Plan, source: Quantization) -> NDArray[np.int32]:
    """int32 (O,) at the scale of the accumulator (bias_scales): to nearest, ties to even,
    saturated."""
    assert layer.bias is not None
    steps = np.rint(
        plan.biases.get(layer.name, layer.bias).astype(np.float64)
        / bias_scales(plan.weights[layer.name], source)
    )
    return np.clip(steps, -INT32_LIMIT, INT32_LIMIT).astype(np.int32)


def half_step_bias(
    layer: Layer, plan: Plan, source: Quantization, target: Quantization
) -> NDArray[np.float32] | None:
    """The float32 bias (O,) of a layer that rounds half up: the integers plus one half, at the
    scale of the accumulator. None for a layer that rounds half to even: a dense layer, a layer
    without a shift, or one whose bias has no room for the half in float32."""
    units = bias_scales(plan.weights[layer.name], source)
    integers = quantized_bias(layer, plan, source).astype(np.float64)
    if not plan.half_up or layer.kind != "nn.conv2d" or units.max() >= target.scale:
        return None
    if np.abs(integers).max() >= HALF_STEP_LIMIT:
        return None
    return np.asarray((integers + 0.5) * units, np.float32)


def real_weights(layer: Layer, plan: Plan) -> NDArray[np.float32]:
    """The real values of the integers: float32, in the shape of the layer's weights."""
    return np.asarray(
        quantized_weights(layer, plan) * along(plan.weights[layer.name], layer), np.float32
    )


def along(scales: NDArray[np.float32], layer: Layer) -> NDArray[np.float32]:
    """(O,) in a shape that broadcasts with the layer's weights: (O, 1, ...)."""
    assert layer.weights is not None
    return scales.reshape((-1,) + (1,) * (layer.weights.ndim - 1))


def bias_scales(scales: NDArray[np.float32], source: Quantization) -> NDArray[np.float32]:
    """float32 products, as in ONNX Runtime and the front ends. scales: (O,); so is the result."""
    return np.asarray(np.float32(source.scale) * scales, np.float32)


def quantized_constant(array: NDArray[np.float32], quantization: Quantization) -> NDArray[np.int8]:
    """An operand of elementwise arithmetic: of the same shape, to nearest, ties to even,
    saturated."""
    return np.asarray(
        np.clip(
            np.rint(array / np.float32(quantization.scale)) + quantization.zero_point, -128, 127
        ),
        np.int8,
    )
