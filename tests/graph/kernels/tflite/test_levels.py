# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/levels.py against LiteRT's reference kernels, on single-operator models
with random shapes and scales.

Every test counts the elements that differ and demands 0. A third of the scales are powers of two:
ties, where the roundings part, are rare with any others.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import tflite as ops
from tests.draw import Count, Random
from tests.graph.kernels.tflite.litert import quantized
from tests.tflite_builder import Graph, run


def test_quantize_from_uint8_to_int8() -> None:
    """At the edge of a uint8 model the operator reads uint8: the rule is the same, the zero point
    stays as it is."""
    count = Count()
    x = np.arange(256, dtype=np.uint8)
    for seed in range(200):
        draw = Random(seed)
        q_in = Quantization(draw.scale(), draw.int(0, 255))
        q_out = draw.quantization(draw.near(q_in.scale * 2))
        graph = Graph()
        source, output = (
            graph.input(x.shape, np.uint8, q_in.scale, q_in.zero_point),
            quantized(graph, x.shape, q_out, is_input=False),
        )
        graph.operator("QUANTIZE", [source], [output])
        count.compare(ops.requantize(x, q_in, q_out), run(graph.save([output]), [x])[0])
    count.check(20_000)


def test_quantize_and_dequantize() -> None:
    count = Count()
    for seed in range(60):
        draw = Random(seed)
        q = draw.quantization()
        real = draw.rng.uniform(-200, 200, 10_000).astype(np.float32) * np.float32(q.scale)
        real[:600] = (np.arange(-300, 300) + np.float32(0.5)) * np.float32(q.scale)
        graph = Graph()
        x, y = (
            graph.input(real.shape, np.float32),
            graph.tensor(real.shape, np.int8, q.scale, q.zero_point),
        )
        graph.operator("QUANTIZE", [x], [y])
        count.compare(ops.quantize(real, q), run(graph.save([y]), [real])[0])

        integers = np.arange(-128, 128, dtype=np.int8)
        graph = Graph()
        x, y = quantized(graph, integers.shape, q), graph.tensor(integers.shape, np.float32)
        graph.operator("DEQUANTIZE", [x], [y])
        np.testing.assert_array_equal(
            ops.dequantize(integers, q), run(graph.save([y]), [integers])[0]
        )
    count.check(300_000)
