"""graph/kernels/tflite against LiteRT's reference kernels, on single-operator models with random
shapes and scales.

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
from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx
from loadstone.graph.kernels import tflite as ops
from loadstone.graph.kernels.tflite import weighted
from loadstone.graph.kernels.windows import Geometry, same_padding
from loadstone.graph.kernels.windows import Weights as WeightConstants
from tests.draw import MILLION, Count, Random
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

#: (fused activation, lower real bound, upper real bound)
ACTIVATIONS = [
    (Activation.NONE, None, None),
    (Activation.RELU, 0.0, None),
    (Activation.RELU6, 0.0, 6.0),
    (Activation.RELU_N1_TO_1, -1.0, 1.0),
]


def fused_activation(draw: Random, q_out: Quantization) -> tuple[int, int, int]:
    """(fused activation, low, high)."""
    kind, low, high = ACTIVATIONS[max(0, draw.int(-3, 3))]  # none at all, mostly
    return kind, *ops.activation_range(q_out, low, high)


def quantized(
    graph: Graph,
    shape: tuple[int, ...],
    q: Quantization,
    *,
    is_input: bool = True,
    unsigned: bool = False,
) -> Tensor:
    """An int8 tensor, or the uint8 tensor of the same real values."""
    dtype, zero_point = (np.uint8, q.zero_point + 128) if unsigned else (np.int8, q.zero_point)
    return (graph.input if is_input else graph.tensor)(shape, dtype, q.scale, zero_point)


def to_uint8(x: NDArray[np.int8]) -> NDArray[np.uint8]:
    """The same real values in a uint8 tensor, whose zero point is 128 more."""
    return (x.astype(np.int16) + 128).astype(np.uint8)


def from_uint8(x: NDArray[np.uint8]) -> NDArray[np.int8]:
    return (x.astype(np.int16) - 128).astype(np.int8)


def litert(
    kind: str,
    arrays: list[NDArray[np.int8]],
    qs: list[Quantization],
    q_out: Quantization,
    shape: tuple[int, ...],
    constants: list[NDArray[np.int32]] | None = None,
    *,
    unsigned: bool = False,
    **options: Any,
) -> NDArray[Any]:
    """One operator of activations and int32 constants; as a uint8 model, its inputs and output
    shifted by 128."""
    graph = Graph()
    inputs = [
        quantized(graph, x.shape, q, unsigned=unsigned) for x, q in zip(arrays, qs, strict=True)
    ]
    inputs += [graph.constant(values) for values in constants or []]
    output = quantized(graph, shape, q_out, is_input=False, unsigned=unsigned)
    graph.operator(kind, inputs, [output], **options)
    if unsigned:
        return from_uint8(run(graph.save([output]), [to_uint8(x) for x in arrays])[0])
    return run(graph.save([output]), arrays)[0]


signed_and_unsigned = pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])


# --------------------------------------------------------------------------------------------------
# Operators that multiply and accumulate
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# Operators on elements
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@signed_and_unsigned
def test_elementwise(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        q_a, q_b = draw.quantization(), draw.quantization()
        spread = q_a.scale * q_b.scale * 75 if kind == "MUL" else max(q_a.scale, q_b.scale)
        q_out = draw.quantization(draw.near(spread * 2))
        shape = (draw.int(1, 2), draw.int(1, 32), draw.int(1, 32), draw.int(1, 24))
        other = [shape, shape, shape[-1:], (1, 1, 1, 1)][draw.int(0, 3)]
        a, b = draw.int8(*shape), draw.int8(*other)
        activation, low, high = fused_activation(draw, q_out)
        want = litert(
            kind,
            [a, b],
            [q_a, q_b],
            q_out,
            shape,
            unsigned=unsigned,
            fused_activation_function=activation,
        )
        count.compare(getattr(ops, kind.lower())(a, b, q_a, q_b, q_out, limits=(low, high)), want)
    count.check(300_000)


@pytest.mark.parametrize(
    "kind", ["QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "LOGISTIC", "HARD_SWISH"]
)
@signed_and_unsigned
def test_functions_of_one_element(kind: str, *, unsigned: bool) -> None:
    """Every int8 value, under many scales: exhaustive where the operator has a table of 256
    values."""
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    bounds = {
        "QUANTIZE": (None, None),
        "RELU": (0.0, None),
        "RELU6": (0.0, 6.0),
        "RELU_N1_TO_1": (-1.0, 1.0),
    }
    for seed in range(300):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale * 2))
        options: dict[str, Any] = {}
        if kind == "LOGISTIC":
            q_out = Quantization(1 / 256, -128)
            got = ops.logistic(x, q_in)
        elif kind == "HARD_SWISH":
            got = ops.hard_swish(x, q_in, q_out)
        elif kind == "LEAKY_RELU":
            options["alpha"] = float(np.float32(draw.rng.uniform(-0.5, 1.5)))
            got = ops.leaky_relu(x, q_in, q_out, options["alpha"])
        else:
            low, high = ops.activation_range(q_out, *bounds[kind])
            got = ops.requantize(x, q_in, q_out, limits=(low, high))
        count.compare(got, litert(kind, [x], [q_in], q_out, x.shape, unsigned=unsigned, **options))
    count.check(5_000)


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


@signed_and_unsigned
def test_softmax(*, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        x = draw.int8(draw.int(1, 200), draw.int(1, 40 if seed % 10 else 500))
        q_in, beta = (
            Quantization(draw.scale(2**-9, 1), draw.int(-128, 127)),
            float(np.float32(draw.rng.choice([1.0, 0.5, 2.0]))),
        )
        want = litert(
            "SOFTMAX",
            [x],
            [q_in],
            Quantization(1 / 256, -128),
            x.shape,
            unsigned=unsigned,
            beta=beta,
        )
        count.compare(ops.softmax(x, q_in, beta), want)
    count.check(200_000)


# --------------------------------------------------------------------------------------------------
# Pooling and reduction
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@signed_and_unsigned
def test_pools(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        kernel, strides = (draw.int(1, 7), draw.int(1, 7)), (draw.int(1, 3), draw.int(1, 3))
        x = draw.int8(draw.int(1, 2), draw.int(7, 30), draw.int(7, 30), draw.int(1, 20))
        q = draw.quantization()
        activation, low, high = fused_activation(draw, q)
        same = draw.rng.random() < 0.5
        padding = same_padding(x.shape[1:3], kernel, strides) if same else (0, 0, 0, 0)
        arguments: dict[str, Any] = {
            "geometry": Geometry(strides, padding),
            "limits": (low, high),
        }
        if kind == "AVERAGE_POOL_2D":
            arguments["unsigned"] = unsigned
        got = getattr(ops, kind.lower())(x, kernel, **arguments)
        options = {
            "filter_height": kernel[0],
            "filter_width": kernel[1],
            "stride_h": strides[0],
            "stride_w": strides[1],
        }
        options |= {
            "padding": Padding.SAME if same else Padding.VALID,
            "fused_activation_function": activation,
        }
        count.compare(got, litert(kind, [x], [q], q, got.shape, unsigned=unsigned, **options))
    count.check(100_000)


@signed_and_unsigned
def test_mean(*, unsigned: bool) -> None:
    count = Count()
    for seed in range(500):
        draw = Random(seed)
        x = draw.int8(draw.int(1, 3), draw.int(1, 20), draw.int(1, 20), draw.int(1, 60))
        axes = [(1, 2), (1, 2), (3,), (1,), (2, 3), (0, 1, 2, 3)][draw.int(0, 5)]
        keep_dims = draw.rng.random() < 0.5
        q_in = draw.quantization()
        q_out = q_in if seed % 2 else draw.quantization(draw.near(q_in.scale))
        got = ops.mean(x, axes, q_in, q_out, keep_dims=keep_dims)
        constants = [np.array(axes, np.int32)]
        count.compare(
            got,
            litert(
                "MEAN",
                [x],
                [q_in],
                q_out,
                got.shape,
                constants,
                unsigned=unsigned,
                keep_dims=keep_dims,
            ),
        )
    count.check(60_000)


# --------------------------------------------------------------------------------------------------
# Operators that move data
# --------------------------------------------------------------------------------------------------


def test_concatenation_of_int8_moves_bytes() -> None:
    draw = Random(1)
    q = draw.quantization()
    parts = [draw.int8(2, 5, 7, n) for n in (1, 16, 5)]
    want = litert("CONCATENATION", parts, [q] * 3, q, (2, 5, 7, 22), axis=-1)
    np.testing.assert_array_equal(ops.concatenate(parts, [q] * 3, q), want)


def test_concatenation_of_uint8_rescales() -> None:
    count = Count()
    for seed in range(200):
        draw = Random(seed)
        qs = [draw.quantization() for _ in range(3)]
        q_out = qs[0] if seed % 2 else draw.quantization(draw.near(qs[1].scale))
        parts = [draw.int8(40, 16) for _ in qs]
        want = litert("CONCATENATION", parts, qs, q_out, (40, 48), unsigned=True, axis=1)
        count.compare(ops.concatenate(parts, qs, q_out, axis=1), want)
    count.check(200_000)


@pytest.mark.parametrize("kind", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
@signed_and_unsigned
def test_resize(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(200):
        draw = Random(seed)
        x = draw.int8(1, draw.int(1, 20), draw.int(1, 20), draw.int(1, 8))
        size = (draw.int(1, 50), draw.int(1, 50))
        align_corners, half_pixel_centers = [(False, False), (True, False), (False, True)][seed % 3]
        q = draw.quantization()
        options: dict[str, Any] = {
            "align_corners": align_corners,
            "half_pixel_centers": half_pixel_centers,
        }
        rule = {"unsigned": unsigned} if kind == "RESIZE_BILINEAR" else {}
        got = getattr(ops, kind.lower())(x, size, **options, **rule)
        count.compare(
            got,
            litert(
                kind,
                [x],
                [q],
                q,
                got.shape,
                [np.array(size, np.int32)],
                unsigned=unsigned,
                **options,
            ),
        )
    count.check(300_000)


@pytest.mark.parametrize("kind", ["PAD", "PADV2"])
def test_pad(kind: str) -> None:
    draw = Random(2)
    x, q = draw.int8(2, 5, 6, 3), draw.quantization()
    pads = np.array([[0, 1], [2, 0], [1, 3], [0, 2]], np.int32)
    value = q.zero_point if kind == "PAD" else 77
    got = ops.pad(x, pads[:, 0].tolist(), pads[:, 1].tolist(), value)
    graph = Graph()
    source, output = quantized(graph, x.shape, q), quantized(graph, got.shape, q, is_input=False)
    filler = (
        [graph.constant(np.array([value], np.int8), q.scale, q.zero_point)]
        if kind == "PADV2"
        else []
    )
    graph.operator(kind, [source, graph.constant(pads), *filler], [output])
    np.testing.assert_array_equal(got, run(graph.save([output]), [x])[0])
