# SPDX-License-Identifier: Apache-2.0
"""prove/products.py and operators/products.py: products of two activations are what LiteRT and ONNX
Runtime compute, and another product is not proved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile as compile_model
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from tests.onnx_builder import Graph as OnnxGraph
from tests.prove.test_definition import check
from tests.repeat import times
from tests.tflite_builder import Graph


def of_litert(seed: int, path: Path) -> ModelNetwork:
    """BATCH_MATMUL with all its flags."""
    graph, rng = Graph(), np.random.default_rng(seed)
    batch, rows, width, columns = rng.integers(1, 20, 4).tolist()
    batch = batch % 3 + 1
    flips = bool(seed & 1), bool(seed & 2)
    a = (batch, width, rows) if flips[0] else (batch, rows, width)
    b = (batch, columns, width) if flips[1] else (batch, width, columns)
    scales, zeros = rng.uniform(0.02, 0.1, 3).tolist(), rng.integers(-20, 20, 3).tolist()
    x, y = (graph.input(shape, np.int8, scales[k], zeros[k]) for k, shape in enumerate((a, b)))
    z = graph.tensor((batch, rows, columns), np.int8, scales[2] * 2, zeros[2])
    graph.operator("BATCH_MATMUL", [x, y], [z], adj_x=flips[0], adj_y=flips[1])
    path.write_bytes(graph.save([z]))
    return read_tflite(path.read_bytes(), "net.tflite")


@pytest.mark.parametrize("seed", range(times(8, 200)))
def test_random_products_are_what_they_compute(seed: int, tmp_path: Path) -> None:
    """The reader's network was compared with LiteRT and ONNX Runtime (test_read_*.py)."""
    network = of_litert(seed, tmp_path / "net.tflite")
    rng = np.random.default_rng(seed)
    shapes = [network.tensors[k].shape for k in network.inputs]
    check(network, [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes])


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("seed", range(times(3, 100)))
def test_artifacts_of_products_are_proved(seed: int, device: str, tmp_path: Path) -> None:
    """Or the operator stays on the host, which is said."""
    path = tmp_path / "net.tflite"
    network = of_litert(seed, path)
    verdict = Proof.attempt(network, compile_model(path, device).artifact)
    assert verdict.status is Status.PROVED, verdict.reason


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelNetwork, Path]:
    """Scores of an attention: a projection of the input times another one."""
    graph, rng = OnnxGraph(), np.random.default_rng(7)
    x = graph.dequantize(graph.input((1, 12, 16), np.int8), 0.05, 3)
    sides = []
    for _ in range(2):
        weights = rng.integers(-90, 90, (16, 16)).astype(np.int8)
        w = graph.dequantize(graph.constant(weights), 0.02, 0)
        made = graph.quantize(graph.node("MatMul", x, w), 0.1, -4)
        sides.append(graph.dequantize(made, 0.1, -4))
    turned = graph.node("Transpose", sides[1], perm=[0, 2, 1])
    y = graph.quantize(graph.node("MatMul", sides[0], turned), 0.5, 2)
    path = tmp_path_factory.mktemp("attention") / "net.onnx"
    path.write_bytes(graph.save([(y, np.int8)]))
    return read_onnx(path.read_bytes(), "net.onnx"), path


def test_an_attention_is_proved_and_another_one_is_not(
    attention: tuple[ModelNetwork, Path],
) -> None:
    network, path = attention
    artifact = compile_model(path, "vtaq-1x16x16").artifact
    verdict = Proof.attempt(network, artifact)
    assert verdict.status is Status.PROVED
    *before, product = network.operators
    a, b = product.inputs
    for wrong in (
        replace(product, inputs=(b, a)),
        replace(product, inputs=(a, a), attributes={**product.attributes, "transpose_b": True}),
        replace(product, attributes={**product.attributes, "transpose_a": True}),
    ):
        other = replace(network, operators=(*before, wrong))
        try:
            said = Proof.attempt(other, artifact)
        except ValueError:  # shapes that do not fit
            continue
        assert said.status is Status.NOT_PROVED
    tensors = list(network.tensors)
    tensors[a] = replace(tensors[a], zero_points=(tensors[a].zero_point + 1,))
    said = Proof.attempt(replace(network, tensors=tuple(tensors)), artifact)
    assert said.status is Status.NOT_PROVED


def test_the_bound_of_errors_is_that_of_the_second_degree(
    attention: tuple[ModelNetwork, Path],
) -> None:
    proof = Proof(attention[0])
    assert proof.values.degree == 2
    bits = proof._error_bits()
    proof.values.degree = 1
    assert proof._error_bits() == bits + 4
