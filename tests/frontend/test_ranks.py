# SPDX-License-Identifier: Apache-2.0
"""frontend/ranks.py: dense layers of rank 3 and layers along one axis, on the device and equal to
ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import Compiled, compile
from loadstone.frontend.onnx import from_bytes as load_bytes
from loadstone.frontend.ranks import two_dimensional
from loadstone.relax.compat import bindings, op_name, shape
from tests.onnx_builder import Graph, run
from tests.relax_text import compare_rewritten

RNG = np.random.default_rng(0)


def weights(graph: Graph, *shape: int, axis: int | None) -> str:
    """Scales are powers of two, so that ONNX Runtime's sums in float32 are exact."""
    if axis is None:
        values = graph.constant(RNG.integers(-127, 128, shape).astype(np.int8))
        return graph.dequantize(values, 2**-7, 0)
    scales = np.exp2(-RNG.integers(7, 9, shape[axis])).astype(np.float32)
    values = graph.constant(RNG.integers(-127, 128, shape).astype(np.int8))
    return graph.node(
        "DequantizeLinear",
        values,
        graph.constant(scales),
        graph.constant(np.zeros(shape[axis], np.int8)),
        axis=axis,
    )


def quantized(graph: Graph, x: str, scale: float) -> str:
    return graph.dequantize(graph.quantize(x, scale, -3), scale, -3)


def dense(depth: int) -> tuple[bytes, tuple[int, ...]]:
    """Two layers on rows of 12, a relu between them, a residual behind."""
    graph = Graph()
    shape = (1, *(2, 6)[: depth - 2], 16)
    x = graph.dequantize(graph.input(shape, np.int8), 2**-4, 3)
    y = graph.node("MatMul", x, weights(graph, 16, 24, axis=1))
    y = graph.node("Relu", quantized(graph, y, 2**-4))
    y = graph.node("MatMul", quantized(graph, y, 2**-4), weights(graph, 24, 16, axis=1))
    y = graph.node("Add", quantized(graph, y, 2**-3), x)
    return graph.save([(quantized(graph, y, 2**-3), np.float32)]), shape


def line() -> tuple[bytes, tuple[int, ...]]:
    """A convolution with a bias, a pool, another convolution with a stride."""
    graph, shape = Graph(), (1, 8, 40)
    x = graph.dequantize(graph.input(shape, np.int8), 2**-4, 3)
    bias = graph.constant(RNG.integers(-500, 500, 16).astype(np.int32))
    b = graph.node("DequantizeLinear", bias, graph.constant(np.float32(2**-11)))
    y = graph.node("Conv", x, weights(graph, 16, 8, 3, axis=None), b, pads=[1, 1])
    y = quantized(graph, graph.node("Relu", y), 2**-4)
    y = quantized(graph, graph.node("MaxPool", y, kernel_shape=[2], strides=[2]), 2**-4)
    y = graph.node("Conv", y, weights(graph, 8, 16, 3, axis=0), strides=[2])
    return graph.save([(quantized(graph, y, 2**-3), np.float32)]), shape


def check(data: bytes, shape: tuple[int, ...], folder: Path) -> Compiled:
    (folder / "m.onnx").write_bytes(data)
    compiled = compile(folder / "m.onnx", "vtaq-1x16x16")
    samples = RNG.integers(-128, 128, (4, *shape)).astype(np.int8)
    (got,) = compiled.run(samples)
    for k, sample in enumerate(samples):
        np.testing.assert_array_equal(got[k], run(data, [sample])[0])
    return compiled


def on_device(compiled: Compiled, kind: str) -> int:
    return sum(
        a.operator.kind == kind and a.backend != "host" for a in compiled.partition.assignments
    )


@pytest.mark.parametrize("rank", [3, 4])
def test_dense_layers_of_higher_rank(rank: int, tmp_path: Path) -> None:
    assert on_device(check(*dense(rank), tmp_path), "dense") == 2


def test_convolutions_and_pools_along_a_line(tmp_path: Path) -> None:
    compiled = check(*line(), tmp_path)
    assert on_device(compiled, "conv2d") == 2
    assert on_device(compiled, "max_pool2d") == 1


def test_a_bias_of_reals_joins_its_convolution() -> None:
    """As a float model has it: a constant that is reshaped before it is added."""
    graph = Graph()
    values = graph.constant(RNG.normal(0, 1, (4, 8, 3)).astype(np.float32))
    bias = graph.constant(np.arange(4, dtype=np.float32))
    y = graph.node("Conv", graph.input((1, 8, 10), np.float32), values, bias)
    module = load_bytes(graph.save([(y, np.float32)]), "m.onnx")
    made = [entry for _, entry in bindings(two_dimensional(module["main"]))]
    assert [op_name(entry) for entry in made[-3:-1]] == ["add", "reshape"]
    assert op_name(made[0]) == "reshape"
    assert shape(made[-3]) == (1, 4, 1, 8)


@pytest.mark.parametrize("tail", ["", "Relu"])
def test_a_product_of_two_matrices_is_a_batch_of_one(tail: str, tmp_path: Path) -> None:
    """On the device, keys turned by the model, with ONNX Runtime's integers."""
    graph = Graph()
    a = graph.dequantize(graph.input((19, 32), np.int8), 2**-4, 3)
    b = graph.dequantize(graph.input((23, 32), np.int8), 2**-5, 0)
    turned = quantized(graph, graph.node("Transpose", b, perm=[1, 0]), 2**-5)
    y = graph.node("MatMul", a, turned)
    y = graph.node(tail, y) if tail else y
    model = graph.save([(graph.quantize(y, 2**-2, -3), np.int8)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", "vtaq-1x16x16")
    places = {str(row["kind"]): row["where"] for row in found.explain()}
    assert places["batch_matmul"] != "host"
    x = [RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((19, 32), (23, 32))]
    (wanted,) = run(model, x)
    (y,) = found.run(*(array[None] for array in x))
    np.testing.assert_array_equal(y[0], wanted)


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 32), (7, 32), (1, 7, 32), (2, 3, 5, 32)])
def test_rows_times_a_computed_matrix(
    shape: tuple[int, ...], transposed: bool, target: str, tmp_path: Path
) -> None:
    """As a dense layer has it whose weights are an activation."""
    graph = Graph()
    a = graph.dequantize(graph.input(shape, np.int8), 2**-4, 3)
    own = (24, 32) if transposed else (32, 24)
    b = graph.dequantize(graph.input(own, np.int8), 2**-5, -1)
    turned = graph.node("Transpose", b, perm=[1, 0]) if transposed else b
    y = graph.node("Relu", graph.node("MatMul", a, turned))
    model = graph.save([(graph.quantize(y, 2**-2, -3), np.int8)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", target)
    assert on_device(found, "batch_matmul") == 1
    assert not found.python_steps
    x = [RNG.integers(-128, 128, extents).astype(np.int8) for extents in (shape, own)]
    (wanted,) = run(model, x)
    (y,) = found.run(*(array[None] for array in x))
    np.testing.assert_array_equal(y[0], wanted)


def test_a_product_with_a_computed_constant_stays_a_layer() -> None:
    """Weights behind a transpose are no activation."""
    graph = Graph()
    x = graph.input((4, 8), np.float32)
    w = graph.node("Transpose", graph.constant(np.ones((6, 8), np.float32)), perm=[1, 0])
    module = load_bytes(graph.save([(graph.node("MatMul", x, w), np.float32)]), "m")
    main = module["main"]
    assert two_dimensional(main) is main


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("ranks", two_dimensional, update_golden)
