# SPDX-License-Identifier: Apache-2.0
"""Round weights such that the error of a layer's output is small, and correct its bias by the rest.

In:   Network, Plan with scales, the moments of every weighted layer's input.
Out:  the plan with integers for weights and with corrected biases.
Next: compensation.py for the weights; rewrite.py.

Rounding each weight to nearest is optimal only for independent inputs. Where inputs are correlated,
weights that are rounded later can compensate the error of those rounded before. The squared error
of a layer's output is dw' C dw, where C is the covariance of its input. The columns of W are
rounded one after the other, and each passes its error on to the columns that are not rounded yet,
through the Cholesky factor of C's inverse (optimal brain surgeon; Hassibi and Stork 1993, Frantar
et al. 2022). The mean of the remaining error, dw' E[x], is a constant: it goes into the bias (Nagel
et al. 2019). The method needs no training, labels or gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Float32Array
from loadstone.quantization.compensation import compensated
from loadstone.quantization.moments import Moments
from loadstone.quantization.network import Layer, Network
from loadstone.quantization.plan import Plan, real_weights
from loadstone.quantization.samples import Samples
from loadstone.quantization.simulate import FLOAT, FakeQuantizedRunner
from loadstone.relax.compat import bindings, integers

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Var

__all__ = ["LayerInputs", "correct_biases", "measure_moments", "round_weights"]


#: The number of positions of an image that one sample contributes.
POSITIONS = 256
#: Added to the covariance's diagonal, as a share of its mean, to allow for inputs that differ from
#: the samples.
DAMPING = 0.5


class LayerInputs:
    """moments: of every weighted layer's input, by layer name, from the first `count` samples."""

    def __init__(self, network: Network, count: int = sys.maxsize) -> None:
        calls = dict(bindings(network.function))
        self.left = count
        self.moments: dict[str, Moments] = {}
        self._windows = [_Window(layer, calls[layer.core]) for layer in network.weighted]
        self._rng = np.random.default_rng(0)

    def update(self, recorded: Mapping[Var, Float32Array]) -> None:
        """recorded: the tensors of one sample, each in its shape: (1, ..., channels)."""
        if self.left <= 0:
            return
        self.left -= 1
        for window in self._windows:
            layer = window.layer
            if layer.inputs[0] in recorded:
                rows = window.rows(recorded[layer.inputs[0]], self._rng)
                if layer.name not in self.moments:
                    self.moments[layer.name] = Moments(rows.shape[0], rows.shape[2])
                self.moments[layer.name].update(rows)


def measure_moments(runner: FakeQuantizedRunner, samples: Samples) -> dict[str, Moments]:
    """The moments of every weighted layer's input in the float network, by layer name."""
    inputs = LayerInputs(runner.network)
    for sample in samples:
        inputs.update(runner.run(sample, FLOAT)[1])
    return inputs.moments


def round_weights(
    network: Network, plan: Plan, moments: Mapping[str, Moments], damping: float = DAMPING
) -> Plan:
    """The plan with `rounded` for every layer whose covariance is known; the weights of others are
    rounded to nearest."""
    rounded = dict(plan.rounded)
    for layer in network.weighted:
        if (
            layer.name in moments
            and layer.name in plan.weights
            and moments[layer.name].has_covariance
        ):
            rounded[layer.name] = _rounded(
                layer, plan.weights[layer.name], moments[layer.name], damping
            )
    return replace(plan, rounded=rounded)


def correct_biases(network: Network, plan: Plan, moments: Mapping[str, Moments]) -> Plan:
    """The plan with `biases` that compensate the mean of the error of the rounded weights."""
    biases = dict(plan.biases)
    for layer in network.weighted:
        if layer.name in moments and layer.name in plan.weights:
            assert layer.weights is not None
            assert layer.bias is not None
            error = (real_weights(layer, plan).astype(np.float64) - layer.weights).reshape(
                layer.groups, -1, moments[layer.name].mean.shape[1]
            )
            mean = np.einsum("gok,gk->go", error, moments[layer.name].mean).reshape(-1)
            biases[layer.name] = (layer.bias - mean).astype(np.float32)
    return replace(plan, biases=biases)


def _rounded(
    layer: Layer, scales: NDArray[np.float32], moments: Moments, damping: float
) -> NDArray[np.int8]:
    assert layer.weights is not None
    groups, inputs = moments.mean.shape
    weights = layer.weights.astype(np.float64).reshape(groups, -1, inputs)
    steps = scales.astype(np.float64).reshape(groups, -1)
    found = compensated(weights, steps, moments, damping)
    return found.reshape(layer.weights.shape).astype(np.int8)


class _Window:
    """Where a layer reads its input; computed once, not for each sample."""

    def __init__(self, layer: Layer, call: Call) -> None:
        assert layer.weights is not None
        self.layer = layer
        if layer.kind == "matmul":
            return
        height, width, self.channels = layer.weights.shape[1:]
        self.taps = height * width
        self.pads = integers(call.attrs.padding)
        self.strides, steps = integers(call.attrs.strides), integers(call.attrs.dilation)
        self.reach = steps[0] * (height - 1), steps[1] * (width - 1)
        self.rows_of_taps = (np.arange(height) * steps[0])[:, None]
        self.columns_of_taps = (np.arange(width) * steps[1])[None, :]

    def rows(self, values: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        """(groups, positions, K): what the layer multiplies with its weights, at random
        positions."""
        if self.layer.kind == "matmul":
            rows = values.reshape(1, -1, values.shape[-1])
            return rows[:, rng.permutation(rows.shape[1])[:POSITIONS]]
        groups = self.layer.groups
        padded = self._padded(values)
        high = (padded.shape[0] - self.reach[0] - 1) // self.strides[0] + 1
        wide = (padded.shape[1] - self.reach[1] - 1) // self.strides[1] + 1
        chosen = rng.permutation(high * wide)[:POSITIONS]
        y = (chosen // wide * self.strides[0])[:, None, None] + self.rows_of_taps
        x = (chosen % wide * self.strides[1])[:, None, None] + self.columns_of_taps
        taps = padded.reshape(-1, padded.shape[2]).take(y * padded.shape[1] + x, axis=0)
        taps = taps.reshape(len(chosen), self.taps, groups, self.channels)
        return np.ascontiguousarray(taps.transpose(2, 0, 1, 3)).reshape(groups, len(chosen), -1)

    def _padded(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """The first sample with zeros around: (rows, columns, channels)."""
        top, left, bottom, right = self.pads
        image: NDArray[np.float32] = values[0]
        if not any(self.pads):
            return image
        height, width, channels = image.shape
        padded = np.zeros((top + height + bottom, left + width + right, channels), image.dtype)
        padded[top : top + height, left : left + width] = image
        return padded
