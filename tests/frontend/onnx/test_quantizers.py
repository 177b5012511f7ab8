# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/quantizers.py: few bits, blocks, scales of 0 and com.microsoft's forms mean what
ONNX Runtime makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run as run_graph
from tests.draw import Random
from tests.frontend.onnx.models import kinds, refusal
from tests.imported import check_same, onnx_graph
from tests.onnx_builder import Graph, run


def dense(levels: Any, scale: Any, zero: Any, out: float = 0.5, **node: Any) -> tuple[bytes, Any]:
    """A product of int8 activations with weights (12, 8), and an input for it."""
    graph = Graph()
    x = graph.dequantize(graph.input((2, 12), np.int8), 0.05, 3)
    constants = [graph.constant(np.asarray(c)) for c in (levels, scale, zero)]
    weights = graph.node("DequantizeLinear", *constants, **node)
    y = graph.quantize(graph.node("MatMul", x, weights), out, -4)
    model = graph.save([(y, np.int8)], [(2, 8)], opset=21, ir=10)
    return model, Random(4).int8(2, 12)


def few(kind: int, numbers: Any) -> Any:
    return np.asarray(numbers).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per column"])
def test_weights_of_four_bits_are_integers_of_the_device(kind: int, *, many: bool) -> None:
    low = -8 if kind == onnx.TensorProto.INT4 else 0
    levels = few(kind, Random(1).rng.integers(low, low + 16, (12, 8)))
    scale = np.full(8, 0.25, np.float32) if many else np.float32(0.25)
    zero = few(kind, np.full(8, low + 8) if many else low + 8)
    model, data = dense(levels, scale, zero, 0.5, axis=1)
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.INT8])
def test_blocks_of_weights_are_float(kind: int) -> None:
    levels = few(kind, Random(1).rng.integers(-8, 8, (12, 8)))
    scale = (Random(2).rng.integers(1, 9, (3, 8)) / 64).astype(np.float32)
    zero = few(kind, Random(2).rng.integers(-2, 3, (3, 8)))
    model, data = dense(levels, scale, zero, 0.05, axis=0, block_size=4)
    got = run_graph(onnx_graph(model), [data])[0].astype(int)
    assert np.abs(got - run(model, [data])[0]).max() <= 1


def test_a_column_of_scale_zero_is_zeros() -> None:
    levels = Random(1).rng.integers(-90, 90, (12, 8)).astype(np.int8)
    scale = np.array([0.1, 0, 0.3, 0.1, 0, 0.2, 0.1, 0.1], np.float32)
    model, data = dense(levels, scale, np.zeros(8, np.int8), axis=1)
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    check_same(made, [data], run(model, [data]))


def test_the_quantizers_of_com_microsoft_are_the_standards() -> None:
    graph, data = Graph(), (Random(4).int8(2, 12) / 16).astype(np.float32)
    parameters = graph.constant(0.05, np.float32), graph.constant(3, np.int8)
    x = graph.input((2, 12), np.float32)
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        x = graph.node(kind, x, *parameters, domain="com.microsoft")
    scales = graph.constant(np.full(8, 0.25), np.float32), graph.constant(np.zeros(8), np.int8)
    levels = graph.constant(Random(1).rng.integers(-90, 90, (12, 8)).astype(np.int8))
    weights = graph.node("DequantizeLinear", levels, *scales, axis=1, domain="com.microsoft")
    y = graph.quantize(graph.node("MatMul", x, weights), 0.5, -4)
    model = graph.save([(y, np.int8)], [(2, 8)])
    made = onnx_graph(model)
    assert "dense" in kinds(made)
    check_same(made, [data], run(model, [data]))


def test_a_type_that_the_node_says() -> None:
    graph, data = Graph(), (Random(4).int8(2, 12) / 16).astype(np.float32)
    scale = graph.constant(0.05, np.float32)
    y = graph.node(
        "QuantizeLinear",
        graph.input((2, 12), np.float32),
        scale,
        output_dtype=onnx.TensorProto.INT8,
    )
    model = graph.save([(y, np.int8)], [(2, 12)], opset=21, ir=10)
    check_same(onnx_graph(model), [data], run(model, [data]))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rows", [32, 40])
def test_a_product_with_weights_of_n_bits(rows: int, *, zeros: bool) -> None:
    draw, graph = np.random.default_rng(5), Graph()
    blocks = -(-rows // 16)
    x = graph.input((2, rows), np.float32)
    packed = draw.integers(0, 256, (6, blocks, 8)).astype(np.uint8)
    scales = (draw.integers(1, 9, 6 * blocks) / 64).astype(np.float32)
    inputs = [graph.constant(packed), graph.constant(scales)]
    if zeros:
        size = 6 * -(-blocks // 2)
        inputs.append(graph.constant(draw.integers(0, 256, size).astype(np.uint8)))
    attributes = {"K": rows, "N": 6, "block_size": 16, "domain": "com.microsoft"}
    y = graph.node("MatMulNBits", x, *inputs, bits=4, **attributes)
    model = graph.save([(y, np.float32)], [(2, 6)])
    data = draw.normal(size=(2, rows)).astype(np.float32)
    want = run(model, [data])[0]
    np.testing.assert_allclose(run_graph(onnx_graph(model), [data])[0], want, rtol=1e-4, atol=1e-4)
    graph.nodes[-1] = onnx.helper.make_node("MatMulNBits", [x, *inputs], [y], bits=2, **attributes)
    text = refusal(graph.save([(y, np.float32)], [(2, 6)]), UnsupportedError)
    assert "it has 2 bits: 4 bits, constant weights and no g_idx are imported" in text
