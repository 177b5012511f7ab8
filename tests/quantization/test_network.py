# SPDX-License-Identifier: Apache-2.0
"""quantization/network.py: layers, groups that share a scale, and where a quantize rounds."""

from __future__ import annotations

import numpy as np

from loadstone.quantization.network import Role
from tests.float_models import network


def test_layers_of_the_small_network() -> None:
    found = network()
    assert [(layer.kind, layer.role) for layer in found.layers if layer.role is not Role.MOVED] == [
        ("nn.conv2d", Role.WEIGHTED),
        ("nn.conv2d", Role.WEIGHTED),
        ("nn.conv2d", Role.WEIGHTED),
        ("nn.conv2d", Role.WEIGHTED),
        ("add", Role.COMPUTED),
        ("mean", Role.COMPUTED),
        ("matmul", Role.WEIGHTED),
    ]
    first, deep = found.weighted[:2]
    assert (first.clamp, deep.clamp) == ((0.0, np.inf), (0.0, 6.0))
    assert (first.is_depthwise, deep.is_depthwise) == (False, True)
    assert first.weights is not None
    assert first.weights.shape == (8, 3, 3, 3)
    assert first.macs == 12 * 12 * 8 * 27


def test_moved_tensors_share_a_scale_with_their_source() -> None:
    found = network()
    first, total = (
        found.weighted[0].output,
        next(layer for layer in found.layers if layer.kind == "add").output,
    )
    joined = next(layer for layer in found.layers if layer.kind == "concat").output
    assert found.groups[first] == found.groups[joined] == found.groups[total]
    boundaries = set(found.boundaries())
    assert first in boundaries
    assert total in boundaries
    assert joined not in boundaries
