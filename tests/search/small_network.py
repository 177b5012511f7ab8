# SPDX-License-Identifier: Apache-2.0
"""A network of two convolutions and an addition, small enough to be tuned in a test.

In:   nothing.
Out:  `small_network`: its ONNX file's bytes, QDQ in powers of two, weights from a seed.
Next: the tests of loadstone.search.
"""

from __future__ import annotations

import numpy as np

from tests.onnx_builder import Graph

__all__ = ["small_network"]

SIZE = 20


def small_network(channels: int = 16) -> bytes:
    """x -> conv 3x3 -> conv 3x3 + x."""
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.dequantize(graph.input((1, channels, SIZE, SIZE), np.int8), 0.125, 0)
    y = x
    for _ in range(2):
        weights = rng.integers(-128, 128, (channels, channels, 3, 3))
        w = graph.dequantize(graph.constant(weights, np.int8), 2.0**-9, 0)
        bias = rng.integers(-500, 500, channels)
        b = graph.dequantize(graph.constant(bias, np.int32), 0.125 * 2.0**-9, 0, np.int32)
        y = graph.node("Conv", y, w, b, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        y = graph.dequantize(graph.quantize(y, 0.125, 0), 0.125, 0)
    out = graph.quantize(graph.node("Add", y, x), 0.125, 0)
    return graph.save([(out, np.int8)])
