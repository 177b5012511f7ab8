# SPDX-License-Identifier: Apache-2.0
"""The 16-bit part of a plan: integers of the layers that stay on the host without being float.

In:   a Plan whose layers of the host have 16 bits.
Out:  the groups of tensors that are int16, their grids, the layers' weights.
Next: planned.py tries them, rewrite.py writes them; frontend/wide.py computes them.

Weights have 16 bits too: between two tensors of int8, a layer with int8 weights would equal what
the device computes, and nothing would be gained.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.quantization.network import Layer, Network
from loadstone.quantization.plan import Plan, along, float_groups
from loadstone.quantization.scales import SCALE_MIN

__all__ = ["WIDE_BITS", "is_wide", "wide_grid", "wide_groups", "wide_weights"]

#: The bits of a layer on the host that is not float.
WIDE_BITS = 16
INT16_MAX = 2**15 - 1


def wide_groups(network: Network, plan: Plan) -> set[int]:
    """Groups of int16: tensors that only the host writes and reads, and that would be int8
    otherwise."""
    if plan.host_bits != WIDE_BITS:
        return set()
    return float_groups(network, plan.host) - float_groups(network, frozenset())


def wide_grid(quantization: Quantization) -> Quantization:
    """int16 of the same range: one step of int8 is 256 steps, so that every value of int8 is
    representable."""
    return Quantization(quantization.scale / 256, quantization.zero_point * 256)


def is_wide(layer: Layer, plan: Plan) -> bool:
    """Whether the layer's weights are int16."""
    return plan.host_bits == WIDE_BITS and layer.name in plan.host and layer.weights is not None


def wide_weights(layer: Layer) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """int16 in [-32767, 32767], of the shape of the layer's weights, to nearest, ties to even; and
    the scale of each output channel, (O,)."""
    assert layer.weights is not None
    rows = np.abs(layer.weights.astype(np.float64)).reshape(len(layer.weights), -1)
    largest = rows.max(axis=1, initial=0.0)
    scales = np.where(largest > 0, largest / INT16_MAX, 1.0)
    scales = np.maximum(scales, SCALE_MIN).astype(np.float32)
    steps = np.rint(layer.weights / along(scales, layer))
    return np.clip(steps, -INT16_MAX, INT16_MAX).astype(np.int16), scales
