# SPDX-License-Identifier: Apache-2.0
"""A plan in the form that the runner needs: rounded real numbers, and the scales of tensors.

In:   Network, Plan (plan.py).
Out:  Settings.
Next: simulate.py runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.quantization.network import Network
from loadstone.quantization.plan import (
    Plan,
    along,
    bias_scales,
    float_groups,
    half_step_bias,
    quantized_bias,
    quantized_constant,
    real_weights,
)
from loadstone.quantization.simulate import Grid, Settings
from loadstone.quantization.wide_plan import (
    WIDE_BITS,
    is_wide,
    wide_grid,
    wide_groups,
    wide_weights,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["real_settings", "settings"]


def real_settings(network: Network) -> Settings:
    """Settings of the float network with its own weights, which a repair may have changed since it
    was compiled."""
    return Settings(
        {layer.name: layer.weights for layer in network.weighted if layer.weights is not None},
        {layer.name: layer.bias for layer in network.weighted if layer.bias is not None},
    )


def settings(network: Network, plan: Plan) -> Settings:
    """Settings that run the network as planned."""
    weights, biases = {}, {}
    for layer in network.weighted:
        source = plan.activations.get(network.groups.get(layer.inputs[0], -1))
        assert layer.weights is not None
        assert layer.bias is not None
        weights[layer.name], biases[layer.name] = layer.weights, layer.bias
        if layer.name not in plan.host and layer.output in network.quantized and source is not None:
            scales = bias_scales(plan.weights[layer.name], source)
            weights[layer.name] = real_weights(layer, plan)
            target = plan.activations[network.groups[layer.output]]
            half_step = half_step_bias(layer, plan, source, target)
            biases[layer.name] = (
                (quantized_bias(layer, plan, source) * scales).astype(np.float32)
                if half_step is None
                else half_step
            )
        elif is_wide(layer, plan):
            integers, steps = wide_weights(layer)
            weights[layer.name] = np.asarray(integers * along(steps, layer), np.float32)
    free, wide = float_groups(network, plan.host), wide_groups(network, plan)
    activations: dict[Var, Grid] = {}
    for variable in network.boundaries():
        group = network.groups[variable]
        if group in wide:
            activations[variable] = Grid(wide_grid(plan.activations[group]), WIDE_BITS)
        elif group not in free:
            activations[variable] = Grid(plan.activations[group])
    constants = {}
    for layer in network.layers:
        for position, array in layer.constants.items():
            quantization = plan.constants.get((layer.name, position))
            if (
                quantization is not None
                and layer.name not in plan.host
                and layer.output in network.quantized
            ):
                steps = (
                    quantized_constant(array, quantization).astype(np.float32)
                    - quantization.zero_point
                )
                constants[layer.name, position] = np.asarray(
                    steps * np.float32(quantization.scale), np.float32
                )
    return Settings(weights, biases, constants, activations)
