# SPDX-License-Identifier: Apache-2.0
"""prove/onnx/averages.py against ONNX Runtime: its integer kernel exactly, its kernels on real
numbers but for ties; and averages of artifacts, right and wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile as compile_model
from loadstone.prove.network import ModelNetwork, ModelOperator
from loadstone.prove.proof import Proof
from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.requantize import Float32, Requantizer
from loadstone.prove.verdict import Status
from tests.onnx_builder import Graph, run
from tests.prove.comparison import differing
from tests.repeat import times


def rule(operator: ModelOperator) -> Requantizer:
    found = operator.attributes["requantization"]
    assert isinstance(found, Requantizer)
    return found


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("seed", range(times(6, 200)))
def test_global_averages_of_integers_are_onnx_runtime_s(seed: int, dtype: type[np.integer]) -> None:
    """Every element, ties too: input and output have one scale in half of the cases."""
    rng, limits, graph = np.random.default_rng(seed), np.iinfo(dtype), Graph()
    height, width = rng.integers(1, 9, 2).tolist()
    scale = float(np.float32(rng.uniform(0.01, 0.2)))
    other = scale if seed % 2 else float(np.float32(rng.uniform(0.01, 0.2)))
    zeros = rng.integers(limits.min, limits.max + 1, 2).tolist()
    operands = [
        graph.input((2, 40, height, width), dtype),
        *(
            graph.constant(value, kind)
            for value, kind in (
                (scale, np.float32),
                (zeros[0], dtype),
                (other, np.float32),
                (zeros[1], dtype),
            )
        ),
    ]
    y = graph.node("QLinearGlobalAveragePool", *operands, domain="com.microsoft")
    model = graph.save([(y, dtype)])
    x = rng.integers(limits.min, limits.max + 1, (2, 40, height, width)).astype(dtype)
    network = read_onnx(model, "net.onnx")
    (operator,) = network.operators
    sums = (x.astype(np.int64) - zeros[0]).sum((2, 3), keepdims=True)
    assert np.array_equal(rule(operator).levels(sums, 0), run(model, [x])[0])


@pytest.mark.parametrize("padded", [0, 1])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_averages_of_real_numbers(stride: int, padded: int) -> None:
    """As ONNX Runtime adds them, and as stated but for a level at ties (tests/prove/float32.py)."""
    graph, rng = Graph(), np.random.default_rng(stride)
    x = graph.dequantize(graph.input((1, 8, 9, 10), np.int8), 0.05, 3)
    said = {"kernel_shape": [3, 2], "strides": [2, stride], "pads": [1, 1, 1, 0]}
    y = graph.node("AveragePool", x, **said, count_include_pad=padded)
    model = graph.save([(graph.quantize(y, 0.05 if padded else 0.04, -5), np.int8)])
    inputs = [rng.integers(-128, 128, (1, 8, 9, 10)).astype(np.int8)]
    network = read_onnx(model, "net.onnx")
    assert differing(network, inputs, run(model, inputs)) == 0
    averages = network.operators[0].attributes["averages"]
    assert isinstance(averages, dict)
    assert len({held.scaling.reals[0] for held in averages.values()}) == (1 if padded else 4)


def averaged(folder: Path) -> tuple[ModelNetwork, Path]:
    """A layer and the average of its rows and columns, which the device computes."""
    graph, rng = Graph(), np.random.default_rng(3)
    x = graph.dequantize(graph.input((1, 3, 8, 8), np.int8), 0.05, 3)
    weights = rng.integers(-90, 90, (20, 3, 3, 3)).astype(np.int8)
    w = graph.dequantize(graph.constant(weights), 0.01, 0)
    y = graph.dequantize(graph.quantize(graph.node("Conv", x, w), 0.06, -4), 0.06, -4)
    z = graph.quantize(graph.node("GlobalAveragePool", y), 0.03, 5)
    path = folder / "net.onnx"
    path.write_bytes(graph.save([(z, np.int8)]))
    return read_onnx(path.read_bytes(), "net.onnx"), path


def test_another_scale_is_not_proved(tmp_path: Path) -> None:
    """The next float32 number, or the mean of 35 elements in place of 36."""
    network, path = averaged(tmp_path)
    artifact = compile_model(path, "vtaq-1x16x16").artifact
    assert Proof.attempt(network, artifact).status is Status.PROVED
    before, operator = network.operators[:-1], network.operators[-1]
    held = rule(operator)
    assert isinstance(held.scaling, Float32)
    real = held.scaling.reals
    for other in (real * 36 / 35, real * 1.001):
        wrong = replace(held, scaling=Float32(other.astype(np.float32).astype(np.float64)))
        attributes = {**operator.attributes, "requantization": wrong}
        operators = (*before, replace(operator, attributes=attributes))
        verdict = Proof.attempt(replace(network, operators=operators), artifact)
        assert verdict.status is Status.NOT_PROVED
        assert "for sum " in verdict.reason


def test_a_table_of_another_channel_is_not_proved(tmp_path: Path) -> None:
    graph, rng = Graph(), np.random.default_rng(3)
    x = graph.dequantize(graph.input((1, 6, 8, 8), np.int8), 0.05, 3)
    parameters = [rng.uniform(0.2, 2.0, 6).astype(np.float32) for _ in range(4)]
    names = [graph.constant(values) for values in parameters]
    y = graph.quantize(graph.node("BatchNormalization", x, *names, epsilon=1e-3), 0.07, -5)
    path = tmp_path / "net.onnx"
    path.write_bytes(graph.save([(y, np.int8)]))
    network = read_onnx(path.read_bytes(), "net.onnx")
    artifact = compile_model(path, "vtaq-1x16x16").artifact
    assert Proof.attempt(network, artifact).status is Status.PROVED
    (operator,) = network.operators
    table = operator.attributes["table"]
    assert isinstance(table, np.ndarray)
    table = table.copy()
    table[4, 200] += 1
    wrong = replace(operator, attributes={**operator.attributes, "table": table})
    verdict = Proof.attempt(replace(network, operators=(wrong,)), artifact)
    assert verdict.status is Status.NOT_PROVED
