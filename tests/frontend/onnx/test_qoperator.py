# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/qoperator.py: operators on integers, also com.microsoft's, equal ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")


from loadstone import graph as g
from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run as run_graph
from loadstone.numerics import Rounding
from tests.draw import Random
from tests.frontend.onnx.models import kinds, operands, refusal
from tests.imported import check_same, onnx_graph
from tests.onnx_builder import Graph, run

Array = NDArray[Any]


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("seed", range(6))
def test_qlinear_conv_equals_onnx_runtime(seed: int, *, unsigned: bool) -> None:
    """Also in opsets that know no QDQ per channel, and in files of IR 3, whose initializers a
    quantizer did not make inputs."""
    draw, graph = Random(seed), Graph()
    dtype = np.uint8 if unsigned else np.int8
    groups = draw.int(1, 3)
    channels, out = groups * draw.int(1, 4), groups * draw.int(1, 4)
    shape = (1, channels, draw.int(6, 12), draw.int(6, 12))
    weights = draw.rng.integers(
        -60, 60, (out, channels // groups, draw.int(1, 3), draw.int(1, 3))
    ).astype(np.int8)
    scales = draw.weight_scales(out) if seed % 2 else draw.weight_scales(1)[0]
    x = graph.input(shape, dtype)
    q_in, q_out = (
        operands(graph, 0.05, 3 + 128 * unsigned, dtype),
        operands(graph, 0.05 * 2.0**-6 * 30, 128 * unsigned - 4, dtype),
    )
    w = (
        graph.constant(weights),
        graph.constant(scales, np.float32),
        graph.constant(np.zeros_like(scales, np.int8)),
    )
    bias = graph.constant(draw.rng.integers(-5000, 5000, out).astype(np.int32))
    y = graph.node(
        "QLinearConv",
        x,
        *q_in,
        *w,
        *q_out,
        bias,
        group=groups,
        strides=[draw.int(1, 2)] * 2,
        pads=[1, 0, 2, 1],
    )
    opset, ir = ((17, 8), (11, 4), (10, 3))[seed // 2]
    model = graph.save([(y, dtype)], opset=opset, ir=ir)
    data = draw.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    made = onnx_graph(model)
    conv = next(o for o in made.operators if isinstance(o, g.Conv2D))
    assert conv.rounding is Rounding.FLOAT32
    assert conv.weights.shape == (out, *weights.shape[2:], channels // groups)
    check_same(made, [data], run(model, [data]))


def test_qlinear_matmul_and_the_adding_of_a_constant_become_dense_layers() -> None:
    draw, graph = Random(1), Graph()
    x = graph.input((2, 24), np.int8)
    weights = graph.constant(draw.rng.integers(-60, 60, (24, 10)).astype(np.int8))
    middle, end = operands(graph, 0.4, -7), operands(graph, 0.3, 5)
    y = graph.node(
        "QLinearMatMul", x, *operands(graph, 0.05, 3), weights, *operands(graph, 0.02, 0), *middle
    )
    constant = graph.constant(draw.int8(10))
    z = graph.node(
        "QLinearAdd", y, *middle, constant, *operands(graph, 0.11, 0), *end, domain="com.microsoft"
    )
    model = graph.save([(z, np.int8)])
    made = onnx_graph(model)
    assert kinds(made) == ["dense", "dense"]
    data = draw.int8(2, 24)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", ["MaxPool", "Reshape", "Transpose", "Flatten"])
def test_operators_on_integers_keep_their_quantization(kind: str) -> None:
    """ONNX defines them on int8 tensors, with no scale in sight: it is the one of the operator
    before."""
    draw, graph = Random(2), Graph()
    x = graph.input((1, 3, 6, 6), np.int8)
    weights = graph.constant(draw.rng.integers(-60, 60, (4, 3, 1, 1)).astype(np.int8))
    q_out = operands(graph, 0.3, -9)
    y = graph.node(
        "QLinearConv", x, *operands(graph, 0.05, 3), weights, *operands(graph, 0.02, 0), *q_out
    )
    arguments: dict[str, tuple[list[str], dict[str, Any]]] = {
        "MaxPool": ([], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        "Reshape": ([graph.constant(np.array([1, 4, 36]))], {}),
        "Transpose": ([], {"perm": [0, 2, 3, 1]}),
        "Flatten": ([], {}),
    }
    more, attributes = arguments[kind]
    model = graph.save([(graph.node(kind, y, *more, **attributes), np.int8)])
    data = draw.int8(1, 3, 6, 6)
    made = onnx_graph(model)
    assert "host" not in kinds(made)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("operator", ["QLinearConv", "QLinearMatMul"])
def test_scales_whose_product_float32_cannot_hold_are_refused(operator: str) -> None:
    """0.25 * 1e-42 has eight bits, and over 1e-42 it is 0.2493 in ONNX Runtime."""
    graph = Graph()
    is_conv = operator == "QLinearConv"
    x = graph.input((1, 4, 1, 1) if is_conv else (1, 4), np.int8)
    weights = np.ones((3, 4, 1, 1) if is_conv else (4, 3), np.int8)
    small = operands(graph, 1e-42, 0, np.int8)
    y = graph.node(
        operator, x, *operands(graph, 0.25, 0, np.int8), graph.constant(weights), *small, *small
    )
    with pytest.raises(UnsupportedError, match=r"product of its scales, 2\.49e-43, is no normal"):
        onnx_graph(graph.save([(y, np.int8)]))


@pytest.mark.parametrize("alpha", [0.5, 3.0])
@pytest.mark.parametrize("real", [False, True], ids=["int8", "float"])
def test_a_gemm_times_alpha_with_or_without_a_scale(alpha: float, *, real: bool) -> None:
    """The bias has the scale of alpha times the product; without y_scale the result is float."""
    draw, graph = Random(3), Graph()
    x = graph.input((2, 10), np.int8)
    weights = graph.constant(draw.rng.integers(-60, 60, (10, 7)).astype(np.int8))
    bias = graph.constant(draw.rng.integers(-900, 900, 7).astype(np.int32))
    scales = graph.constant(draw.rng.integers(1, 9, 7) / 256, np.float32)
    zeros = graph.constant(np.zeros(7), np.int8)
    end = [] if real else operands(graph, 0.5, -3)
    inputs = [x, *operands(graph, 0.25, 3), weights, scales, zeros, bias, *end]
    y = graph.node("QGemm", *inputs, alpha=alpha, domain="com.microsoft")
    model = graph.save([(y, np.float32 if real else np.int8)], [(2, 7)])
    data = draw.int8(2, 10)
    made = onnx_graph(model)
    assert ("dense" in kinds(made)) == (not real)
    want = run(model, [data])[0]
    np.testing.assert_allclose(run_graph(made, [data])[0], want, rtol=1e-5, atol=1e-4)
    text = refusal(model.replace(np.float32(alpha).tobytes(), np.float32(-1).tobytes()))
    assert "its alpha is -1, and one above 0 is imported" in text


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("axis", [1, -1])
def test_a_softmax_says_whose_it_is(opset: int, axis: int) -> None:
    """That of opset 12 is over all axes from `axis` on, in a model of opset 17, too."""
    draw, graph = Random(6), Graph()
    x = graph.input((1, 6, 5, 5), np.uint8)
    zero = operands(graph, 0.1, 100, np.uint8), operands(graph, 1 / 256, 0, np.uint8)
    inputs = [x, *zero[0], *zero[1]]
    y = graph.node("QLinearSoftmax", *inputs, axis=axis, opset=opset, domain="com.microsoft")
    model = graph.save([(y, np.uint8)], [(1, 6, 5, 5)])
    data = draw.rng.integers(0, 256, (1, 6, 5, 5)).astype(np.uint8)
    want = run(model, [data])[0].astype(int)
    assert np.abs(run_graph(onnx_graph(model), [data])[0] - want).max() <= 1


def test_a_zero_point_that_is_left_out_is_zero() -> None:
    """As if it were said: ONNX Runtime asks for it, the operator's definition does not."""
    data, graphs = [Random(6).int8(2, 8), Random(7).int8(2, 8)], []
    for is_said in (True, False):
        graph = Graph()
        a, b = graph.input((2, 8), np.int8), graph.input((2, 8), np.int8)
        scale, zero = graph.constant(0.25, np.float32), graph.constant(0, np.int8)
        inputs = [a, scale, zero, b, scale, zero if is_said else "", scale]
        inputs += [zero] if is_said else []
        y = graph.node("QLinearAdd", *inputs, domain="com.microsoft")
        graphs.append(graph.save([(y, np.int8)], [(2, 8)]))
    check_same(onnx_graph(graphs[1]), data, run(graphs[0], data))
