# SPDX-License-Identifier: Apache-2.0
"""Equalize channels: transform a network such that the channels of a tensor have similar ranges.

In:   Network, Calibration (the ranges of channels).
Out:  the network with other weights and biases.
Next: calibrate again; plan.py.

All channels of a tensor have one scale, so that a channel of small values uses only a few of the
256 steps. A channel may be multiplied by any s > 0 where it is computed, if it is divided by s
where it is read: relu(s x) = s relu(x), and pools, concatenations and additions preserve the factor
(cross-layer equalization, Nagel et al. 2019; here by the ranges of activations, because weights
have a scale per channel anyway). s brings a small channel closer to the largest one but not beyond
it, so that no tensor's range grows. Half of the way (in bits) is taken, because the precision that
an activation gains is lost in its reader's weights.
A relu6 is not homogeneous: for a channel that is multiplied by s, it clips the original value at
6 / s, and the samples stay well below this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.quantization.calibrate import Calibration
from loadstone.quantization.network import Layer, Network, Role
from loadstone.relax.compat import bindings, integers, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, Var

__all__ = ["channel_factors", "equalize", "scalable"]

#: Part of the way to equal ranges, in bits.
STRENGTH = 0.5
#: A channel's range is extrapolated to this many times as many samples, because the range of a
#: rarely active channel is not known well.
GROWTH = 10.0
#: The largest factor of a channel.
LARGEST = 16.0


def equalize(network: Network, calibration: Calibration, strength: float = STRENGTH) -> Network:
    """A network that equals `network` on the samples, up to float rounding."""
    factors = channel_factors(network, calibration, strength)
    return replace(network, layers=tuple(_scaled(layer, factors) for layer in network.layers))


def scalable(network: Network) -> list[Var]:
    """The quantized variables whose channels may grow; `equalize` needs the ranges of these
    channels."""
    return _Classes(network).scalable()


def channel_factors(
    network: Network, calibration: Calibration, strength: float = STRENGTH
) -> dict[Expr, NDArray[np.float64]]:
    """The factor of each channel of each quantized tensor."""
    classes = _Classes(network)
    room = np.full(classes.count, np.inf)
    for variable in classes.scalable():
        layer = network.by_output.get(variable)
        bound = layer.clamp[1] if layer is not None else np.inf
        reach = np.minimum(calibration.channels[variable].reach(GROWTH), bound)
        largest = reach.max()
        ratio = np.divide(largest, reach, out=np.full(reach.shape, np.inf), where=reach > 0)
        np.minimum.at(room, classes.root(classes.labels[variable]), ratio)
    room[~np.isfinite(room)] = 1.0  # channels that are always 0
    factors = np.minimum(room**strength, LARGEST)
    factors[classes.fixed()] = 1.0
    return {
        variable: factors[classes.root(classes.labels[variable])] for variable in network.groups
    }


def _scaled(layer: Layer, factors: dict[Var, NDArray[np.float64]]) -> Layer:
    if layer.role is not Role.WEIGHTED or layer.inputs[0] not in factors:
        return layer
    assert layer.weights is not None
    assert layer.bias is not None
    outputs = factors.get(layer.output, np.ones(len(layer.weights)))
    groups, per_group = layer.groups, layer.weights.shape[-1]
    inputs = (
        factors[layer.inputs[0]]
        .reshape(groups, per_group)
        .repeat(len(layer.weights) // groups, axis=0)
    )
    along = (slice(None),) + (None,) * (layer.weights.ndim - 1)
    weights = (
        layer.weights
        * outputs[along]
        / inputs.reshape(len(layer.weights), *(1,) * (layer.weights.ndim - 2), per_group)
    )
    return replace(
        layer, weights=weights.astype(np.float32), bias=(layer.bias * outputs).astype(np.float32)
    )


class _Classes:
    """Channels of tensors that must have the same factor: one number per channel and tensor, joined
    through the layers.

    labels: the numbers of a variable's channels. Numbers that share a root are one class.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.calls = dict(bindings(network.function))
        self.labels: dict[Var, NDArray[np.int64]] = {}
        self.count = 0
        for variable in network.groups:
            channels = (shape(variable) or (1,))[-1]
            self.labels[variable] = np.arange(self.count, self.count + channels)
            self.count += channels
        self.parent = np.arange(self.count)
        self.frozen: set[int] = set()
        for layer in network.layers:
            self.visit(layer)
        for variable in (*network.parameters, *network.outputs):
            self.freeze(variable)

    def root(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        while np.any(self.parent[labels] != labels):
            labels = self.parent[labels]
        return labels

    def fixed(self) -> NDArray[np.int64]:
        """Classes whose factor must be 1."""
        return self.root(np.array(sorted(self.frozen), np.int64))

    def scalable(self) -> list[Var]:
        """Variables of which a channel's class has a factor to be chosen."""
        free = np.ones(self.count, bool)
        free[self.fixed()] = False
        return [
            variable for variable, labels in self.labels.items() if free[self.root(labels)].any()
        ]

    def join(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
        for pair in zip(first.tolist(), second.tolist(), strict=True):
            low, high = sorted(map(self._root, pair))
            self.parent[high] = low

    def _root(self, label: int) -> int:
        while (above := int(self.parent[label])) != label:
            label = above
        return label

    def freeze(self, variable: Var) -> None:
        if variable in self.labels:
            self.frozen.update(self.labels[variable].tolist())

    def visit(self, layer: Layer) -> None:
        """Weights take up any factor on both sides; some operators pass factors on; the others
        allow none."""
        if layer.role is Role.WEIGHTED:
            if layer.output not in self.labels or layer.clamp[0] not in (0.0, -np.inf):
                self.freeze(layer.output)
            return
        if (
            layer.output not in self.labels
            or any(item not in self.labels for item in layer.inputs)
            or not self.passes(layer)
        ):
            for variable in (*layer.inputs, layer.output):
                self.freeze(variable)
            return
        offset = 0
        for item in layer.inputs:
            own = self.labels[item]
            begin = offset if layer.kind == "concat" else 0
            self.join(own, self.labels[layer.output][begin : begin + len(own)])
            offset += len(own)

    def passes(self, layer: Layer) -> bool:
        """Whether the output's channel c depends on the inputs' channel c alone, and in
        proportion."""
        before, after = shape(layer.inputs[0]) or (), shape(layer.output) or ()
        call = self.calls[layer.core]
        bounded = layer.clamp[0] not in (0.0, -np.inf) or np.isfinite(layer.clamp[1])
        if layer.kind in ("nn.max_pool2d", "nn.avg_pool2d", "nn.relu", "nn.pad"):
            return not bounded
        if layer.kind == "add":
            return (
                not bounded
                and not layer.constants
                and all(shape(item) == after for item in layer.inputs)
            )
        if layer.kind == "concat":
            return int(call.attrs.axis) % len(after) == len(after) - 1
        if layer.kind == "mean":
            return not bounded and len(before) - 1 not in {
                axis % len(before) for axis in integers(call.attrs.axis)
            }
        if layer.kind in ("reshape", "squeeze", "flatten", "expand_dims"):
            return before[-1] == after[-1] and np.prod(before[:-1]) == np.prod(after[:-1])
        return False
