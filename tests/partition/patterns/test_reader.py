# SPDX-License-Identifier: Apache-2.0
"""partition/patterns/reader.py: activations of 16 bits are real numbers of the host; it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.compiler import Compiled, compile
from loadstone.errors import Refusal
from loadstone.partition.patterns.reader import Mismatch
from tests import onnx_builder
from tests.onnx_builder import Graph

TARGETS = ("vtaq-1x16x16", "vta-pynq")
STEP = 7e-4


def pair(graph: Graph, x: str, scale: float, dtype: Any) -> str:
    zero_point = 0 if dtype is np.int16 else 32000
    return graph.dequantize(graph.quantize(x, scale, zero_point, dtype), scale, zero_point, dtype)


def compared(graph: Graph, y: str, path: Path, target: str, atol: float) -> Compiled:
    data = graph.save([(y, np.float32)], opset=21, ir=10)
    (path / "m.onnx").write_bytes(data)
    made = compile(path / "m.onnx", target)
    assert made.python_steps == []
    x = np.random.default_rng(1).normal(0, 1, (4, 1, 6, 8, 8)).astype(np.float32)
    for sample, out in zip(x, made.run(x)[0], strict=True):
        (wanted,) = onnx_builder.run(data, [sample])
        np.testing.assert_allclose(out, wanted, rtol=0, atol=atol)
    return made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_a_layer_of_16_bit_activations_is_computed_by_the_host(
    dtype: Any, target: str, tmp_path: Path
) -> None:
    """In C; float32 sums may be a step of the 16 bits off, whatever their order."""
    graph, random = Graph(), np.random.default_rng(0)
    x = pair(graph, graph.input((1, 6, 8, 8), np.float32), 1e-4, dtype)
    weights = graph.constant(random.integers(-127, 128, (8, 6, 3, 3)), np.int8)
    scales = random.uniform(0.002, 0.01, 8).astype(np.float32)
    weights = graph.dequantize(weights, scales, np.zeros(8, np.int8), axis=0)
    bias = graph.constant(random.normal(0, 1, 8), np.float32)
    y = graph.node("Relu", graph.node("Conv", x, weights, bias))
    made = compared(graph, pair(graph, y, STEP, dtype), tmp_path, target, 1.01 * STEP)
    said = " ".join(row["why"] for row in made.explain())
    assert f"16-bit activations ({np.dtype(dtype).name})" in said
    assert "8-bit activations" in " ".join(row["remedy"] for row in made.explain())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_what_moves_or_compares_16_bits_is_exact(dtype: Any, target: str, tmp_path: Path) -> None:
    graph = Graph()
    x = pair(graph, graph.input((1, 6, 8, 8), np.float32), 1e-4, dtype)
    pooled = pair(graph, graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 1e-4, dtype)
    turned = graph.node("Transpose", pooled, perm=[0, 2, 3, 1])
    narrow = graph.dequantize(graph.quantize(turned, 0.01, 3), 0.01, 3)
    compared(graph, pair(graph, narrow, 1e-3, dtype), tmp_path, target, 0)


def test_a_mismatch_is_a_refusal() -> None:
    assert Mismatch("dilated").refusal == Refusal(
        "dilated", "another form of the operator in the model"
    )
    assert Mismatch(Refusal("dilated", "dilation 1")).refusal == Refusal("dilated", "dilation 1")
