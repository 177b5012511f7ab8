# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/onnx/weighted.py against ONNX Runtime, on single-operator models with random
shapes and scales.

Every test counts the elements that differ and demands 0; the models are of the integer kernels.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import numerics
from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx as ops
from loadstone.graph.kernels.onnx import levels, weighted
from loadstone.graph.kernels.windows import Geometry
from loadstone.graph.kernels.windows import Weights as WeightConstants
from tests.draw import MILLION, Count, Random
from tests.graph.kernels.onnx.runtime import nchw, nhwc, operands
from tests.onnx_builder import Graph, run


class Weighted:
    """Random scales, weights and bias of a convolution or product: accumulators up to `acc_bits`
    bits.

    Weights stay within 7 bits: on processors without dot product instructions the kernels of ONNX
    Runtime saturate the sum of two products to 16 bits.
    """

    def __init__(self, seed: int, weights_shape: tuple[int, ...], *, per_channel: bool) -> None:
        self.draw = draw = Random(seed)
        channels = weights_shape[0]
        self.weights = draw.rng.integers(-63, 63, weights_shape, np.int8, endpoint=True)
        self.weight_scales = draw.weight_scales(channels if per_channel else 1)
        self.q_in = draw.quantization()
        product = np.float32(self.q_in.scale) * self.weight_scales
        large = seed % 2  # sums beyond 2^24 meet float32's own rounding
        spread = (
            2.0 ** draw.rng.uniform(16, 20)
            if large
            else 75 * 37 * np.sqrt(self.weights[0].size) / 60
        )
        self.q_out = draw.quantization(draw.near(float(np.median(product)) * spread))
        limit = np.minimum(np.float64(self.q_out.scale) / product * 60, 2**30)
        self.bias = draw.rng.integers(-limit, limit, channels).astype(np.int32)

    def weight_operands(self, graph: Graph, weights: NDArray[np.int8]) -> tuple[str, str, str]:
        scales = self.weight_scales if self.weight_scales.size > 1 else self.weight_scales[0]
        zeros = np.zeros_like(scales, np.int8)
        return graph.constant(weights), graph.constant(scales, np.float32), graph.constant(zeros)


def convolution(seed: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """(ours, QLinearConv's) of one random convolution."""
    shape = Random(seed + 1000)
    groups = shape.int(1, 4)
    channels, out_channels = groups * shape.int(1, 8), groups * shape.int(1, 16)
    kernel, strides, dilation = ((shape.int(1, n), shape.int(1, n)) for n in (5, 2, 2))
    case = Weighted(
        seed, (out_channels, *kernel, channels // groups), per_channel=shape.rng.random() < 0.7
    )
    padding = tuple(shape.int(0, 2) for _ in range(4))
    x = shape.int8(shape.int(1, 2), shape.int(12, 48), shape.int(12, 48), channels)
    ours = ops.conv_2d(
        x,
        WeightConstants(case.weights, case.bias, case.weight_scales),
        case.q_in,
        case.q_out,
        Geometry(strides, padding, dilation, groups),
    )
    graph = Graph()
    inputs = (
        graph.input(nchw(x).shape, np.int8),
        *operands(graph, case.q_in),
        *case.weight_operands(graph, nchw(case.weights)),
    )
    options = {
        "strides": strides,
        "pads": padding,
        "dilations": dilation,
        "group": groups,
        "kernel_shape": kernel,
    }
    output = graph.node(
        "QLinearConv", *inputs, *operands(graph, case.q_out), graph.constant(case.bias), **options
    )
    return ours, nhwc(run(graph.save([(output, np.int8)]), [nchw(x)])[0])


def product(kind: str, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """(ours, QLinearMatMul's or QGemm's) of one random matrix product."""
    shape = Random(seed + 1000)
    size, out_size = shape.int(1, 300), shape.int(2, 100)
    case = Weighted(seed, (out_size, size), per_channel=shape.rng.random() < 0.7)
    x = shape.int8(shape.int(100, 500), size)
    graph = Graph()
    inputs = (
        graph.input(x.shape, np.int8),
        *operands(graph, case.q_in),
        *case.weight_operands(graph, case.weights.T.copy()),
    )
    if kind == "QGemm":
        output = graph.node(
            kind,
            *inputs,
            graph.constant(case.bias),
            *operands(graph, case.q_out),
            domain="com.microsoft",
        )
    else:
        case.bias[:] = 0
        case.q_out = Quantization(
            float(np.float32(case.q_in.scale * np.median(case.weight_scales) * 60 * np.sqrt(size))),
            case.q_out.zero_point,
        )
        output = graph.node(kind, *inputs, *operands(graph, case.q_out))
    ours = ops.fully_connected(
        x,
        WeightConstants(case.weights, case.bias, case.weight_scales),
        case.q_in,
        case.q_out,
    )
    return ours, run(graph.save([(output, np.int8)]), [x])[0]


def accumulated(kind: str, at_least: int) -> Count:
    count, seed = Count(), 0
    while count.inside < at_least:
        count.compare(*(convolution(seed) if kind == "QLinearConv" else product(kind, seed)))
        seed += 1
    return count


@pytest.mark.parametrize("kind", ["QLinearConv", "QLinearMatMul", "QGemm"])
def test_a_million_accumulated_elements(kind: str) -> None:
    accumulated(kind, MILLION).check(MILLION)


@pytest.mark.parametrize("kind", ["QLinearConv", "QGemm"])
@pytest.mark.parametrize("rounding", ["requantize_double", "requantize_single"])
def test_another_rounding_is_seen(
    kind: str, rounding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fixed_point(acc: NDArray[np.int32], scale: NDArray[np.float32]) -> NDArray[np.int32]:
        return getattr(numerics, rounding)(acc, *numerics.quantize_multiplier(scale))

    monkeypatch.setattr(levels, "requantize_float32", fixed_point)
    assert accumulated(kind, 150_000).wrong > 10


def test_another_order_of_the_scales_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """s_in * (s_w / s_out) is another float32 in one case of four; a few accumulators in a million
    tell."""

    def other(s_in: float, s_w: NDArray[np.float32], s_out: float) -> NDArray[np.float32]:
        return np.float32(s_in) * (s_w / np.float32(s_out))

    monkeypatch.setattr(weighted, "onnx_scale", other)
    assert accumulated("QGemm", MILLION).wrong > 0
