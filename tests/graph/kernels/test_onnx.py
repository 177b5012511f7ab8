"""graph/kernels/onnx against ONNX Runtime, on single-operator models with random shapes and
scales.

Every test counts the elements that differ and demands 0, but for sigmoid and softmax, whose exp is
MLAS's own.
Convolutions and products are compared with the integer kernels; the others with the float operator
between
DequantizeLinear and QuantizeLinear, graph optimisations off.
"""

from __future__ import annotations

from typing import Any

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
from tests.onnx_builder import Graph, run


def nchw(x: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def nhwc(x: NDArray[Any]) -> NDArray[Any]:
    return x.transpose(0, 2, 3, 1)


def operands(graph: Graph, q: Quantization) -> tuple[str, str]:
    """A scale and a zero point, as the QLinear operators want them."""
    return graph.constant(q.scale, np.float32), graph.constant(q.zero_point, np.int8)


def trio(
    kind: str,
    arrays: list[NDArray[np.int8]],
    qs: list[Quantization],
    q_out: Quantization,
    *constants: str | float,
    **options: Any,
) -> NDArray[Any]:
    """DequantizeLinear of every input, the operator, QuantizeLinear."""
    graph = Graph()
    inputs = [
        graph.dequantize(graph.input(x.shape, np.int8), q.scale, q.zero_point)
        for x, q in zip(arrays, qs, strict=True)
    ]
    inputs += [
        value if isinstance(value, str) else graph.constant(value, np.float32)
        for value in constants
    ]
    output = graph.quantize(graph.node(kind, *inputs, **options), q_out.scale, q_out.zero_point)
    return run(graph.save([(output, np.int8)]), arrays)[0]


# --------------------------------------------------------------------------------------------------
# Operators that multiply and accumulate
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# Operators on elements
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_elementwise(kind: str) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        q_a, q_b = draw.quantization(), draw.quantization()
        spread = q_a.scale * q_b.scale * 75 if kind == "Mul" else max(q_a.scale, q_b.scale)
        q_out = draw.quantization(draw.near(spread * 2))
        a = draw.int8(draw.int(1, 4), draw.int(1, 64), draw.int(1, 64))
        b = draw.int8(*a.shape) if draw.int(0, 2) else draw.int8(a.shape[-1])
        got = getattr(ops, kind.lower())(a, b, q_a, q_b, q_out)
        count.compare(got, trio(kind, [a, b], [q_a, q_b], q_out))
    count.check(200_000)


@pytest.mark.parametrize("kind", ["Identity", "Relu", "Clip", "LeakyRelu"])
def test_functions_of_one_element(kind: str) -> None:
    """Every int8 value, under many scales."""
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    for seed in range(200):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale * 2))
        if kind == "LeakyRelu":
            count.compare(
                ops.leaky_relu(x, q_in, q_out, 0.1), trio(kind, [x], [q_in], q_out, alpha=0.1)
            )
            continue
        bounds = {"Identity": (), "Relu": (0.0,), "Clip": (-1.5, 6.0)}[kind]
        limits = ops.activation_range(q_out, *bounds)
        want = trio(kind, [x], [q_in], q_out, *(bounds if kind == "Clip" else ()))
        count.compare(ops.requantize(x, q_in, q_out, limits=limits), want)
    count.check(5_000)


def test_quantize_saturates_and_takes_ties_to_even() -> None:
    q = Quantization(0.5, 3)
    real = np.array([0.25, 0.75, 1.25, -0.25, -0.75, 3e38, -3e38, np.inf, -np.inf], np.float32)
    graph = Graph()
    want = run(
        graph.save(
            [(graph.quantize(graph.input(real.shape, np.float32), q.scale, q.zero_point), np.int8)]
        ),
        [real],
    )[0]
    np.testing.assert_array_equal(ops.quantize(real, q), want)
    assert want.tolist() == [3, 5, 5, 3, 1, 127, -128, 127, -128]


def test_logistic() -> None:
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    for seed in range(1000):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = (
            Quantization(1 / 256, -128) if seed % 2 else draw.quantization(draw.scale(2**-9, 2**-7))
        )
        count.compare(ops.logistic(x, q_in, q_out), trio("Sigmoid", [x], [q_in], q_out))
    count.check(50_000)


def test_softmax_differs_in_a_few_elements_of_a_million() -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        x = draw.int8(draw.int(100, 1000), draw.int(1, 50))
        q_in, q_out = draw.quantization(), Quantization(1 / 256, -128)
        got, want = ops.softmax(x, q_in, q_out), trio("Softmax", [x], [q_in], q_out, axis=-1)
        assert np.abs(got.astype(int) - want).max() <= 1
        count.compare(got, want)
    assert count.total > MILLION
    assert count.wrong <= count.total / 100_000


# --------------------------------------------------------------------------------------------------
# Pooling and reduction
# --------------------------------------------------------------------------------------------------


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


# --------------------------------------------------------------------------------------------------
# Operators that move data
# --------------------------------------------------------------------------------------------------


def test_concatenate() -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        qs = [draw.quantization() for _ in range(3)]
        q_out = draw.quantization(draw.near(qs[0].scale))
        parts = [draw.int8(40, draw.int(1, 60)) for _ in qs]
        count.compare(
            ops.concatenate(parts, qs, q_out, axis=1), trio("Concat", parts, qs, q_out, axis=1)
        )
    count.check(100_000)


MODES = [
    ("asymmetric", "floor", {}),
    ("half_pixel", "round_prefer_ceil", {"half_pixel_centers": True}),
    ("align_corners", "round_prefer_ceil", {"align_corners": True}),
]


def resized(
    mode: str,
    x: NDArray[np.int8],
    size: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    transformation: str,
    nearest: str,
) -> NDArray[Any]:
    graph = Graph()
    real = graph.dequantize(graph.input(nchw(x).shape, np.int8), q_in.scale, q_in.zero_point)
    sizes = graph.constant([x.shape[0], x.shape[3], *size], np.int64)
    options = {
        "mode": mode,
        "coordinate_transformation_mode": transformation,
        "nearest_mode": nearest,
    }
    output = graph.quantize(
        graph.node("Resize", real, "", "", sizes, **options), q_out.scale, q_out.zero_point
    )
    return nhwc(run(graph.save([(output, np.int8)]), [nchw(x)])[0])


@pytest.mark.parametrize(("transformation", "nearest", "flags"), MODES)
def test_resize_nearest_takes_the_same_samples(
    transformation: str, nearest: str, flags: dict[str, bool]
) -> None:
    """A ramp shows which sample is taken: 900 pairs of sizes, up to 30 to 60."""
    q = Quantization(1.0, 0)
    for size in range(1, 31):
        x = np.arange(size, dtype=np.int8)[None, None, :, None]
        for out in range(1, 61, 2):
            got = ops.resize_nearest_neighbor(x, (1, out), **flags)
            np.testing.assert_array_equal(
                got, resized("nearest", x, (1, out), q, q, transformation, nearest)
            )


@pytest.mark.parametrize(("transformation", "nearest", "flags"), MODES)
def test_resize_bilinear(transformation: str, nearest: str, flags: dict[str, bool]) -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        x = draw.int8(1, draw.int(1, 16), draw.int(1, 16), draw.int(1, 8))
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale))
        factor = draw.int(1, 4)
        size = (
            (x.shape[1] * factor, x.shape[2] * factor)
            if seed % 2
            else (draw.int(1, 40), draw.int(1, 40))
        )
        count.compare(
            ops.resize_bilinear(x, size, q_in, q_out, **flags),
            resized("linear", x, size, q_in, q_out, transformation, nearest),
        )
    count.check(50_000)
