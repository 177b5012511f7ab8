# SPDX-License-Identifier: Apache-2.0
"""A transformer's block as onnxruntime's quantize_dynamic writes it: every MatMulInteger on the
device, its integers those of ONNX Runtime, and the same bytes from exported C."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from loadstone.compiler import compile
from tests.hosts.in_c import run_in_c
from tests.onnx_builder import Graph, session
from tests.repeat import more

TOKENS, WIDTH, HEADS, INNER = 12, 32, 2, 80
DRAW = np.random.default_rng(4)


def block() -> bytes:
    """Attention and a dense network, each behind a normalization and added to what it read."""
    graph = Graph()

    def number(*shape: int) -> str:
        return graph.constant(DRAW.normal(size=shape).astype(np.float32) / shape[0] ** 0.5)

    def normal(x: str) -> str:
        return graph.node("LayerNormalization", x, number(WIDTH), number(WIDTH), axis=-1)

    def dense(x: str, inputs: int, outputs: int) -> str:
        return graph.node("Add", graph.node("MatMul", x, number(inputs, outputs)), number(outputs))

    def heads(x: str, *order: int) -> str:
        apart = graph.constant(np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64))
        return graph.node("Transpose", graph.node("Reshape", x, apart), perm=list(order))

    x = graph.input((1, TOKENS, WIDTH), np.float32)
    read = normal(x)
    q, k, v = (dense(read, WIDTH, WIDTH) for _ in range(3))
    scores = graph.node("MatMul", heads(q, 0, 2, 1, 3), heads(k, 0, 2, 3, 1))
    seen = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), heads(v, 0, 2, 1, 3))
    together = graph.constant(np.array([1, TOKENS, WIDTH], np.int64))
    rows = graph.node("Reshape", graph.node("Transpose", seen, perm=[0, 2, 1, 3]), together)
    x = graph.node("Add", x, dense(rows, WIDTH, WIDTH))
    inner = graph.node("Relu", dense(normal(x), WIDTH, INNER))
    y = graph.node("Add", x, dense(inner, INNER, WIDTH))
    return graph.save([(y, np.float32)], [(1, TOKENS, WIDTH)])


@functools.cache
def quantized(folder: Path, *, unsigned: bool) -> onnx.ModelProto:
    """With the integers of all products as further outputs."""
    real, made = folder / "block.onnx", folder / "dynamic.onnx"
    real.write_bytes(block())
    kind = QuantType.QUInt8 if unsigned else QuantType.QInt8
    quantize_dynamic(real, made, weight_type=kind, per_channel=not unsigned)
    model = onnx.load(made)
    for node in model.graph.node:
        if node.op_type == "MatMulInteger":
            entry = onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.INT32, None)
            model.graph.output.append(entry)
    return onnx.shape_inference.infer_shapes(model)


def judged(model: onnx.ModelProto, x: NDArray[np.float32]) -> list[NDArray[np.generic]]:
    opened = session(model.SerializeToString())
    return list(opened.run(None, {opened.get_inputs()[0].name: x}))


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("unsigned", [False, pytest.param(True, marks=more)])
def test_every_product_is_the_device_s_and_every_integer_onnx_runtime_s(
    device: str, tmp_path: Path, *, unsigned: bool
) -> None:
    """Real numbers differ by what another order of sums in a normalization leaves."""
    model = quantized(tmp_path, unsigned=unsigned)
    compiled = compile(model, device)
    kinds = [operator.kind for operator in compiled.partition.graph.operators]
    assert kinds.count("plane_dense") == 6
    x = DRAW.normal(size=(1, 1, TOKENS, WIDTH)).astype(np.float32)
    outputs = compiled.run(x)
    wanted = judged(model, x[0])
    np.testing.assert_allclose(outputs[0][0], wanted[0], rtol=0, atol=1e-5)
    assert len(wanted) == 7
    for got, want in zip(outputs[1:], wanted[1:], strict=True):
        np.testing.assert_array_equal(got[0], want)
    in_c = run_in_c(compiled.artifact, [x], tmp_path)
    for got, ours in zip(in_c, outputs, strict=True):
        assert got.tobytes() == ours.tobytes()
