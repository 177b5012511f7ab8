# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/onnx/pooling.py against ONNX Runtime, on single-operator models with random
shapes and scales.

Every test counts the elements that differ and demands 0.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx as ops
from loadstone.graph.kernels.windows import Geometry
from tests.draw import Count, Random
from tests.graph.kernels.onnx.runtime import nchw, nhwc, operands, trio
from tests.onnx_builder import Graph, run


@pytest.mark.parametrize("count_include_pad", [False, True])
def test_average_pool(*, count_include_pad: bool) -> None:
    count = Count()
    for seed in range(150):
        draw, (kernel, strides, padding) = pool_of(seed)
        x, q_in, q_out = pooled(draw)
        got = ops.average_pool_2d(
            x,
            kernel,
            q_in,
            q_out,
            Geometry(strides, padding),
            count_include_pad=count_include_pad,
        )
        options = {
            "kernel_shape": kernel,
            "strides": strides,
            "pads": padding,
            "count_include_pad": int(count_include_pad),
        }
        count.compare(got, nhwc(trio("AveragePool", [nchw(x)], [q_in], q_out, **options)))
    count.check(100_000)


def test_max_pool() -> None:
    count = Count()
    for seed in range(150):
        draw, (kernel, strides, padding) = pool_of(seed)
        x, q_in, q_out = pooled(draw)
        got = ops.max_pool_2d(x, kernel, q_in, q_out, Geometry(strides, padding))
        count.compare(
            got,
            nhwc(
                trio(
                    "MaxPool",
                    [nchw(x)],
                    [q_in],
                    q_out,
                    kernel_shape=kernel,
                    strides=strides,
                    pads=padding,
                )
            ),
        )
    count.check(100_000)


def test_global_average_pool() -> None:
    """Between Dequantize and Quantize it sums floats; QLinearGlobalAveragePool sums integers: both
    are defined."""
    floats, integers = Count(), Count()
    for seed in range(220):
        draw = Random(seed)
        x, q_in, q_out = pooled(draw, draw.int(1, 40), draw.int(1, 15), draw.int(1, 15), 64)
        floats.compare(
            ops.global_average_pool(x, q_in, q_out),
            nhwc(trio("GlobalAveragePool", [nchw(x)], [q_in], q_out)),
        )
        graph = Graph()
        inputs = (
            graph.input(nchw(x).shape, np.int8),
            *operands(graph, q_in),
            *operands(graph, q_out),
        )
        output = graph.node(
            "QLinearGlobalAveragePool", *inputs, domain="com.microsoft", channels_last=0
        )
        integers.compare(
            ops.mean(x, (1, 2), q_in, q_out, keep_dims=True),
            nhwc(run(graph.save([(output, np.int8)]), [nchw(x)])[0]),
        )
    floats.check(200_000)
    integers.check(200_000)


def pooled(draw: Random, *shape: int) -> tuple[NDArray[np.int8], Quantization, Quantization]:
    """An input with its quantization and the output's: the same scale in every second model, where
    ties are common."""
    x = draw.int8(*(shape or (draw.int(1, 2), draw.int(8, 32), draw.int(8, 32), draw.int(1, 20))))
    q_in = draw.quantization()
    return x, q_in, draw.quantization(q_in.scale if draw.seed % 2 else draw.near(q_in.scale))


def pool_of(
    seed: int,
) -> tuple[Random, tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]]:
    draw = Random(seed)
    kernel, strides = (draw.int(1, 6), draw.int(1, 6)), (draw.int(1, 3), draw.int(1, 3))
    top, left, bottom, right = (draw.int(0, kernel[i % 2] // 2) for i in range(4))
    return draw, (kernel, strides, (top, left, bottom, right))
