"""frontend/ranks.py: dense layers of rank 3 and layers along one axis, on the device and equal to
ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.compiler import Compiled, compile
from tests.onnx_builder import Graph, run

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
