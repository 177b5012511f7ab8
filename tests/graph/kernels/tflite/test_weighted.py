# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/weighted.py against LiteRT's reference kernels, on single-operator models
with random shapes and scales.

Every test counts the elements that differ and demands 0. A third of the scales are powers of two:
ties, where the roundings part, are rare with any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import numerics
from loadstone.graph.kernels import onnx
from loadstone.graph.kernels import tflite as ops
from loadstone.graph.kernels.tflite import weighted
from loadstone.graph.kernels.windows import Geometry
from loadstone.graph.kernels.windows import Weights as WeightConstants
from tests.draw import MILLION, Count, Random
from tests.graph.kernels.tflite.litert import from_uint8, fused_activation, quantized, to_uint8
from tests.padding import same_padding
from tests.tflite_builder import Graph, Padding, Tensor, run


@dataclass
class Weighted:
    """A random convolution, depthwise convolution or dense layer: its model, its input, its
    oracle's arguments."""

    kind: str
    seed: int
    unsigned: bool = False

    def __post_init__(self) -> None:
        draw = Random(self.seed)
        kind = self.kind
        self.draw, self.options = draw, dict[str, Any]()
        if kind == "FULLY_CONNECTED":
            channels, self.out_channels = draw.int(1, 80), draw.int(1, 200)
            self.x = draw.int8(draw.int(100, 400), channels)
            weights_shape: tuple[int, ...] = (self.out_channels, channels)
        else:
            groups = draw.int(1, 3) if kind == "CONV_2D" else draw.int(1, 24)
            group_channels = draw.int(1, 12) if kind == "CONV_2D" else 1
            self.out_channels = groups * (draw.int(1, 24) if kind == "CONV_2D" else draw.int(1, 3))
            kernel, strides, dilation = ((draw.int(1, n), draw.int(1, n)) for n in (5, 2, 2))
            self.x = draw.int8(
                draw.int(1, 2), draw.int(12, 64), draw.int(12, 64), groups * group_channels
            )
            weights_shape = (self.out_channels, *kernel, group_channels)
            self.geometry = {"strides": strides, "dilation": dilation, "groups": groups}
            self.same = draw.rng.random() < 0.5
            if self.same:
                self.geometry["padding"] = same_padding(
                    self.x.shape[1:3], kernel, strides, dilation
                )
        self.weights = draw.rng.integers(-127, 127, weights_shape, np.int8, endpoint=True)
        self.weight_zero_point = draw.int(-128, 127) if self.unsigned else 0
        per_channel = draw.rng.random() < 0.7 and not self.unsigned
        self.weight_scales = draw.weight_scales(self.out_channels if per_channel else 1)
        self.q_in = draw.quantization()
        product = np.float32(self.q_in.scale) * self.weight_scales
        spread = (
            75 * 75 * np.sqrt(self.weights[0].size) / 60
        )  # standard deviation of a sum, in 60 steps
        self.q_out = draw.quantization(draw.near(float(np.median(product)) * spread))
        limit = np.minimum(np.float64(self.q_out.scale) / product * 100, 2**30)
        self.bias = draw.rng.integers(-limit, limit, self.out_channels).astype(np.int32)
        self.activation, self.low, self.high = fused_activation(draw, self.q_out)

    def oracle(self, module: ModuleType = ops) -> NDArray[np.int8]:
        constants = WeightConstants(
            self.weights, self.bias, self.weight_scales, self.weight_zero_point, self.unsigned
        )
        arguments = self.x, constants, self.q_in, self.q_out
        limits = self.low, self.high
        if self.kind == "FULLY_CONNECTED":
            return module.fully_connected(*arguments, limits=limits)
        return module.conv_2d(*arguments, Geometry(**self.geometry), limits=limits)

    def litert(self, *, reference: bool = True) -> NDArray[Any]:
        graph, wanted = Graph(), self.oracle().shape
        depthwise = self.kind == "DEPTHWISE_CONV_2D"
        weights = self.weights.transpose(3, 1, 2, 0) if depthwise else self.weights
        x = quantized(graph, self.x.shape, self.q_in, unsigned=self.unsigned)
        zero_point = self.weight_zero_point + 128 * self.unsigned
        w = graph.constant(
            to_uint8(weights) if self.unsigned else weights,
            self.weight_scales,
            zero_point,
            axis=3 if depthwise else 0,
        )
        b = graph.constant(self.bias, np.float32(self.q_in.scale) * self.weight_scales, 0)
        y = quantized(graph, wanted, self.q_out, is_input=False, unsigned=self.unsigned)
        options: dict[str, Any] = {"fused_activation_function": self.activation}
        if self.kind != "FULLY_CONNECTED":
            (stride_h, stride_w), (dilation_h, dilation_w) = (
                self.geometry["strides"],
                self.geometry["dilation"],
            )
            options |= {
                "stride_h": stride_h,
                "stride_w": stride_w,
                "dilation_h_factor": dilation_h,
                "dilation_w_factor": dilation_w,
            }
            options["padding"] = Padding.SAME if self.same else Padding.VALID
        if depthwise:
            options["depth_multiplier"] = self.out_channels // self.x.shape[3]
        graph.operator(self.kind, [x, w, b], [y], **options)
        result = run(
            graph.save([y]), [to_uint8(self.x) if self.unsigned else self.x], reference=reference
        )[0]
        return from_uint8(result) if self.unsigned else result


def accumulated(kind: str, at_least: int, *, unsigned: bool = False) -> Count:
    count, seed = Count(), 0
    while count.inside < at_least:
        case = Weighted(kind, seed, unsigned)
        count.compare(case.oracle(), case.litert())
        seed += 1
    return count


@pytest.mark.full
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_a_million_accumulated_elements(kind: str) -> None:
    accumulated(kind, MILLION).check(MILLION)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_uint8_models_are_int8_models(kind: str) -> None:
    """Values and zero points less 128 give the same network, weights with a zero point of their own
    included."""
    accumulated(kind, 200_000, unsigned=True).check(200_000)


@dataclass
class OnTheEdge:
    """A layer whose sums are its biases, at and beside those where the output changes: there it
    shows how the scales were multiplied.

    Its scales are drawn until their product in float32 and the one in float64 put an edge at
    different sums.
    """

    kind: str
    seed: int
    unsigned: bool = False
    per_channel: bool = False
    channels: int = 1024

    def __post_init__(self) -> None:
        draw = Random(3 * self.seed + 1)
        while True:
            self.q_in, weight_scale = draw.quantization(), np.float32(draw.scale())
            self.weight_scale = weight_scale
            product = float(np.float32(self.q_in.scale) * weight_scale)
            self.q_out = draw.quantization(draw.scale(product * 2**17, product * 2**19))
            wide, narrow = (
                numerics.tflite_scale(
                    self.q_in.scale, weight_scale, self.q_out.scale, float32_product=short
                )
                for short in (False, True)
            )
            steps = draw.rng.integers(-100, 100, self.channels) + 0.5
            edges = np.rint(np.stack([steps / wide, steps / narrow]))
            if np.any(edges[0] != edges[1]):
                break
        self.bias = (
            edges[draw.int(0, 1)] + draw.rng.integers(-1, 1, self.channels, endpoint=True)
        ).astype(np.int32)
        self.scales = np.full(self.channels if self.per_channel else 1, weight_scale)

    def graph(self) -> tuple[Graph, Tensor]:
        """The model and its output. All weights are zero."""
        graph = Graph()
        shape = (1, 1) if self.kind == "FULLY_CONNECTED" else (1, 1, 1, 1)
        wide = (*shape[:-1], self.channels)
        dtype, zero_point = (np.uint8, 128) if self.unsigned else (np.int8, 0)
        x = quantized(graph, shape, self.q_in, unsigned=self.unsigned)
        depthwise = self.kind == "DEPTHWISE_CONV_2D"
        weights = np.full(wide if depthwise else (self.channels, *shape[1:]), zero_point, dtype)
        w = graph.constant(weights, self.scales, zero_point, axis=3 if depthwise else 0)
        b = graph.constant(self.bias, np.float32(self.q_in.scale) * self.scales)
        y = quantized(graph, wide, self.q_out, is_input=False, unsigned=self.unsigned)
        options = (
            {}
            if self.kind == "FULLY_CONNECTED"
            else {"padding": Padding.VALID, "stride_h": 1, "stride_w": 1}
        )
        graph.operator(
            self.kind,
            [x, w, b],
            [y],
            **options,
            **({"depth_multiplier": self.channels} if depthwise else {}),
        )
        return graph, y

    def litert(self) -> NDArray[np.int8]:
        graph, y = self.graph()
        result = run(graph.save([y]), [np.zeros(t.shape, t.dtype) for t in graph.inputs])[
            0
        ].reshape(-1)
        return from_uint8(result) if self.unsigned else result

    def oracle(self, *, float32_product: bool) -> NDArray[np.int8]:
        x, flat = np.zeros((1, 1), np.int8), np.zeros((self.channels, 1), np.int8)
        if self.kind == "FULLY_CONNECTED":
            constants = WeightConstants(flat, self.bias, self.scales)
            return ops.fully_connected(x, constants, self.q_in, self.q_out)[0]
        constants = WeightConstants(
            flat[:, None, None], self.bias, self.scales, float32_product=float32_product
        )
        return ops.conv_2d(x[:, None, None], constants, self.q_in, self.q_out)[0, 0, 0]


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize(
    ("unsigned", "per_channel"),
    [(False, False), (False, True), (True, False)],
    ids=["int8", "per channel", "uint8"],
)
def test_the_product_of_scales(kind: str, *, unsigned: bool, per_channel: bool) -> None:
    """float32 for the convolutions of uint8 models, float64 for all others."""
    count, other = Count(), 0
    short = unsigned and kind != "FULLY_CONNECTED"
    for seed in range(20):
        case = OnTheEdge(kind, seed, unsigned, per_channel)
        want = case.litert()
        count.compare(case.oracle(float32_product=short), want)
        other += np.count_nonzero(case.oracle(float32_product=not short) != want)
    count.check(10_000)
    assert kind == "FULLY_CONNECTED" or other > 500, (
        "the scales do not tell one product from the other"
    )


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_xnnpack_rounds_as_onnx_runtime(kind: str) -> None:
    """LiteRT's optimised kernels are the float32 rounding: a third of a million elements say which
    kernel a model met."""
    count, seed = Count(), 0
    while count.inside < MILLION // 3:
        case = Weighted(kind, seed)
        count.compare(case.oracle(onnx), case.litert(reference=False))
        seed += 1
    count.check(MILLION // 3)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_another_rounding_in_convolutions_is_seen(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weighted, "requantize_double", numerics.requantize_single)
    assert accumulated(kind, 150_000).wrong > 20


@pytest.mark.parametrize("rounding", ["requantize_single", "requantize_double"])
def test_another_rounding_in_fully_connected_is_seen(
    rounding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fixed_point(acc: NDArray[np.int32], scale: NDArray[np.float64]) -> NDArray[np.int32]:
        return getattr(numerics, rounding)(acc, *numerics.quantize_multiplier(scale))

    monkeypatch.setattr(weighted, "requantize_float64", fixed_point)
    assert accumulated("FULLY_CONNECTED", MILLION // 2).wrong > 5
