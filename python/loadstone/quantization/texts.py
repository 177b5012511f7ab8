# SPDX-License-Identifier: Apache-2.0
"""What the quantizer's passes made, as text.

In:   a network, its calibration, its plan.
Out:  a line for each tensor or layer.
Next: `--dump` writes them (passes/dump.py).
"""

from __future__ import annotations

from dataclasses import replace

from loadstone.quantization.calibrate import Calibration
from loadstone.quantization.network import Network
from loadstone.quantization.plan import Plan, quantized_weights

__all__ = [
    "biases_text",
    "calibration_text",
    "host_text",
    "plan_text",
    "rounded_text",
    "weights_text",
]


def weights_text(network: Network) -> str:
    """The range of each layer's weights and biases."""
    lines = []
    for layer in network.weighted:
        assert layer.weights is not None
        assert layer.bias is not None
        ends = (layer.weights.min(), layer.weights.max(), layer.bias.min(), layer.bias.max())
        low, high, least, most = (f"{float(end):.5g}" for end in ends)
        lines.append(f"{layer.name}: weights {low} .. {high}, biases {least} .. {most}")
    return "\n".join(lines) + "\n"


def calibration_text(network: Network, calibration: Calibration) -> str:
    """The range of each group of tensors, and how many values were seen."""
    lines = [
        f"{_names(network, group)}: {histogram.low:.5g} .. {histogram.high:.5g}, "
        f"{histogram.size} values, {histogram.zeros} of them 0"
        for group, histogram in calibration.histograms.items()
    ]
    return "\n".join([f"# {calibration.samples} samples", *lines]) + "\n"


def plan_text(network: Network, plan: Plan) -> str:
    """Every scale."""
    lines = [f"# scheme {plan.scheme.name}, method {plan.method}"]
    for group, quantization in plan.activations.items():
        scale, zero = quantization.scale, quantization.zero_point
        lines.append(f"{_names(network, group)}: scale {scale:.6g}, zero point {zero}")
    for name, scales in plan.weights.items():
        ends = f"{float(scales.min()):.6g} .. {float(scales.max()):.6g}"
        lines.append(f"weights of {name}: {len(scales)} scales, {ends}")
    return "\n".join(lines) + "\n"


def rounded_text(network: Network, plan: Plan) -> str:
    """Of each layer whose weights are not rounded to nearest, how many are one step off that."""
    lines = []
    for layer in network.weighted:
        if layer.name in plan.rounded:
            integers = plan.rounded[layer.name]
            nearest = quantized_weights(layer, replace(plan, rounded={}))
            moved = int((integers != nearest).sum())
            lines.append(f"{layer.name}: {moved} of {integers.size} weights not to nearest")
    return "\n".join(lines or ["# all weights are rounded to nearest"]) + "\n"


def biases_text(network: Network, plan: Plan) -> str:
    """By how much each layer's biases were changed at most."""
    lines = []
    for layer in network.weighted:
        if layer.name in plan.biases:
            assert layer.bias is not None
            most = float(abs(plan.biases[layer.name] - layer.bias).max(initial=0.0))
            lines.append(f"{layer.name}: by {most:.5g} at most")
    return "\n".join(lines or ["# no bias is changed"]) + "\n"


def host_text(plan: Plan) -> str:
    """The layers that stay on the host."""
    return "\n".join(sorted(plan.host) or ["# every layer may run on the device"]) + "\n"


def _names(network: Network, group: int) -> str:
    return ", ".join(map(network.name, network.members(group)))
