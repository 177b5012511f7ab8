# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/: operators between QuantizeLinear and DequantizeLinear equal ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")


from loadstone import graph as g
from loadstone.graph.reference import run as run_graph
from tests.draw import Random
from tests.frontend.onnx.models import kinds
from tests.imported import check_same, onnx_graph
from tests.onnx_builder import Graph, run

Build = Callable[[Graph, str], str]


def between(
    build: Build, shape: tuple[int, ...], out_scale: float = 0.07, unsigned: bool = False
) -> tuple[bytes, g.Graph]:
    """quantize(build(dequantize(x))) of an int8 (uint8) input."""
    graph, dtype, offset = Graph(), np.uint8 if unsigned else np.int8, 128 if unsigned else 0
    x = graph.dequantize(graph.input(shape, dtype), 0.05, 3 + offset, dtype)
    y = graph.quantize(build(graph, x), out_scale, offset - 20, dtype)
    model = graph.save([(y, dtype)])
    return model, onnx_graph(model)


CASES: dict[str, tuple[Build, tuple[int, ...], float, list[str]]] = {
    "relu": (lambda b, x: b.node("Relu", x), (1, 3, 4, 4), 0.07, ["requantize"]),
    "clip": (
        lambda b, x: b.node("Clip", x, b.constant(-1.0, np.float32), b.constant(2.0, np.float32)),
        (1, 3, 4, 4),
        0.07,
        ["requantize"],
    ),
    "requantize": (lambda b, x: b.node("Identity", x), (1, 3, 4, 4), 0.07, ["requantize"]),
    "reshape": (
        lambda b, x: b.node("Reshape", x, b.constant(np.array([1, 48]))),
        (1, 3, 4, 4),
        0.05,
        ["reshape", "requantize"],
    ),
    "transpose": (
        lambda b, x: b.node("Transpose", x, perm=[0, 3, 1, 2]),
        (1, 3, 4, 5),
        0.05,
        ["transpose", "requantize"],
    ),
    "max pool": (
        lambda b, x: b.node(
            "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1
        ),
        (1, 3, 8, 7),
        0.05,
        ["transpose", "max_pool2d", "requantize", "transpose"],
    ),
    "global max pool": (
        lambda b, x: b.node("GlobalMaxPool", x),
        (1, 3, 8, 7),
        0.05,
        ["transpose", "max_pool2d", "requantize", "reshape"],
    ),
    "pad": (
        lambda b, x: b.node(
            "Pad", x, b.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1])), b.constant(0.0, np.float32)
        ),
        (1, 3, 4, 4),
        0.05,
        ["pad", "requantize"],
    ),
    "slice": (
        lambda b, x: b.node(
            "Slice",
            x,
            b.constant(np.array([1])),
            b.constant(np.array([4])),
            b.constant(np.array([2])),
        ),
        (1, 3, 4, 4),
        0.05,
        ["slice", "requantize"],
    ),
    "sigmoid": (lambda b, x: b.node("Sigmoid", x), (1, 3, 4, 4), 1 / 256, ["lookup"]),
    "leaky relu": (lambda b, x: b.node("LeakyRelu", x, alpha=0.1), (1, 3, 4, 4), 0.04, ["lookup"]),
    "softmax": (lambda b, x: b.node("Softmax", x, axis=-1), (3, 10), 1 / 256, ["softmax"]),
}


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_single_operators_equal_onnx_runtime(name: str, *, unsigned: bool) -> None:
    build, shape, scale, expected = CASES[name]
    model, made = between(build, shape, scale, unsigned)
    inner = [o.kind for o in made.operators if "uint8" not in (o.input.dtype, o.output.dtype)]
    assert inner == expected
    draw = Random(5)
    dtype = np.uint8 if unsigned else np.int8
    data = draw.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_two_tensors(kind: str) -> None:
    draw, graph = Random(3), Graph()
    a, b = (
        graph.dequantize(graph.input((1, 4, 5, 6), np.int8), scale, zero)
        for scale, zero in ((0.05, 3), (0.08, -11))
    )
    y = graph.quantize(graph.node(kind, a, b), 0.09, 4)
    model = graph.save([(y, np.int8)])
    data = [draw.int8(1, 4, 5, 6), draw.int8(1, 4, 5, 6)]
    made = onnx_graph(model)
    assert kinds(made) == [kind.lower()]
    check_same(made, data, run(model, data))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per channel"])
def test_weights_that_a_tool_left_in_float_are_quantized(dtype: Any, *, many: bool) -> None:
    """QuantizeLinear of a constant, as quantize_static writes it behind a Reshape of weights; ties
    go to the even number."""
    draw, graph = Random(9), Graph()
    scales, zeros = (np.full(4, 0.25), np.full(4, 3)) if many else (np.float32(0.25), 3)
    weights = graph.constant(draw.rng.integers(-40, 40, (12, 2)) * 0.125, np.float32)
    turned = graph.node("Reshape", weights, graph.constant(np.array([6, 4])))
    parameters = graph.constant(scales, np.float32), graph.constant(zeros, dtype)
    quantized = graph.node("QuantizeLinear", turned, *parameters, axis=1)
    x = graph.input((1, 6), np.int8)
    real = graph.node(
        "MatMul",
        graph.dequantize(x, 0.05, 3),
        graph.node("DequantizeLinear", quantized, *parameters, axis=1),
    )
    model = graph.save([(graph.quantize(real, 0.3, -4), np.int8)])
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    data = draw.int8(1, 6)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("scale", [0.3, 0.45], ids=["the same scale", "another scale"])
def test_a_convolution_that_each_reader_quantizes_for_itself(scale: float) -> None:
    """One quantization serves both readers where they agree (quantize_static's DedicatedQDQPair);
    else the float stays on the host."""
    draw, graph = Random(3), Graph()
    x = graph.input((1, 3, 8, 8), np.int8)
    weights = graph.dequantize(
        graph.constant(draw.rng.integers(-60, 60, (4, 3, 1, 1)).astype(np.int8)), 0.02, 0
    )
    y = graph.node("Conv", graph.dequantize(x, 0.05, 3), weights)
    first, second = (graph.dequantize(graph.quantize(y, own, -4), own, -4) for own in (0.3, scale))
    ends = [graph.node("MaxPool", first, kernel_shape=[2, 2]), graph.node("Relu", second)]
    model = graph.save(
        [
            (graph.quantize(end, own, -4), np.int8)
            for end, own in zip(ends, (0.3, scale), strict=True)
        ]
    )
    made = onnx_graph(model)
    assert kinds(made).count("conv2d") == (scale == 0.3)
    assert kinds(made).count("host") == (scale != 0.3)
    if scale == 0.3:
        data = draw.int8(1, 3, 8, 8)
        check_same(made, [data], run(model, [data]))


def test_a_concatenation_of_different_scales_is_requantized_first() -> None:
    draw, graph = Random(4), Graph()
    a, b = (
        graph.dequantize(graph.input((1, 4, 5, 6), np.int8), scale, zero)
        for scale, zero in ((0.05, 3), (0.08, -11))
    )
    y = graph.quantize(graph.node("Concat", a, b, axis=1), 0.08, -11)
    model = graph.save([(y, np.int8)])
    data = [draw.int8(1, 4, 5, 6), draw.int8(1, 4, 5, 6)]
    made = onnx_graph(model)
    assert kinds(made) == ["requantize", "concatenate"]
    joined = made.operators[1]
    assert isinstance(joined, g.Concatenate)
    assert joined.is_copy
    check_same(made, data, run(model, data))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_becomes_numbers(mode: str) -> None:
    draw, graph = Random(6), Graph()
    x = graph.dequantize(graph.input((1, 3, 9, 10), np.int8), 0.05, 3)
    weights = graph.dequantize(
        graph.constant(draw.rng.integers(-60, 60, (4, 3, 4, 3)).astype(np.int8)), 0.01, 0
    )
    y = graph.quantize(graph.node("Conv", x, weights, auto_pad=mode, strides=[2, 2]), 0.2, 0)
    model = graph.save([(y, np.int8)])
    made = onnx_graph(model)
    assert [kind for kind in kinds(made) if kind != "transpose"] == ["conv2d"]
    data = draw.int8(1, 3, 9, 10)
    wanted = run(model, [data])[0]
    got = run_graph(made, [data])[0]
    assert (
        np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    )  # a float convolution: one unit at ties
    assert np.mean(got != wanted) <= 0.01  # 1 of 100 where the processor has no FMA


def test_batch_normalization_becomes_an_exact_convolution() -> None:
    draw, graph = Random(7), Graph()
    channels = 24
    x = graph.dequantize(graph.input((1, channels, 4, 4), np.int8), 0.05, 3)
    numbers = {
        "scale": draw.rng.normal(0, 1.5, channels),
        "bias": draw.rng.normal(0, 2, channels),
        "mean": draw.rng.normal(0, 2, channels),
    }
    numbers["variance"] = draw.rng.uniform(0.2, 4, channels)
    y = graph.node(
        "BatchNormalization",
        x,
        *(graph.constant(values, np.float32) for values in numbers.values()),
        epsilon=1e-5,
    )
    model = graph.save([(graph.quantize(y, 0.07, -5), np.int8)])
    made = onnx_graph(model)
    assert [kind for kind in kinds(made) if kind != "transpose"] == ["conv2d"]
    data = np.resize(np.arange(-128, 128), (16, 1, channels, 4, 4)).astype(np.int8)
    for sample in data:
        check_same(made, [sample], run(model, [sample]))


@pytest.mark.parametrize(("axis", "quantized"), [(-1, False), (-1, True), (1, False)])
def test_a_layer_normalization_is_one_operator(axis: int, *, quantized: bool) -> None:
    """Over the last axes; quantize_static writes gamma in int8 and beta in int32."""
    draw, graph = Random(9), Graph()
    shape = (1, 6, 20)
    x = graph.dequantize(graph.input(shape, np.int8), 0.05, 3)
    gamma = draw.rng.integers(20, 127, shape[axis:])
    beta = draw.rng.integers(-900, 900, shape[axis:])
    parameters = [
        graph.dequantize(graph.constant(levels, dtype), scale, 0, dtype)
        if quantized
        else graph.constant(levels * scale, np.float32)
        for levels, dtype, scale in ((gamma, np.int8, 0.01), (beta, np.int32, 0.0005))
    ]
    y = graph.node("LayerNormalization", x, *parameters, axis=axis, epsilon=1e-5)
    model = graph.save([(graph.quantize(y, 0.03, -5), np.int8)])
    made = onnx_graph(model)
    assert kinds(made) == ["layer_norm"]
    for sample in draw.int8(16, *shape):
        check_same(made, [sample], run(model, [sample]))


def test_every_form_of_a_network_means_nearly_the_same(shared: Any) -> None:
    """One network as int8 QDQ and as QOperator: the same operators in the same order."""
    made = [
        onnx_graph((shared / "models" / f"mlonmcu_micro_kws_m_{form}.onnx").read_bytes())
        for form in ("qdq", "qoperator")
    ]
    assert kinds(made[0]) == kinds(made[1])
    assert "transpose" not in kinds(
        made[0]
    )  # the file's own transposes cancel against channels last
