# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_hybrid.py: dynamic range models give the bits of LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run as run_graph
from tests.compiled import golden, network
from tests.frontend.tflite_models import refusal
from tests.imported import tflite_graph
from tests.repeat import more
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

DRAW = np.random.default_rng(7)


def same_bits(graph: Graph, y: Tensor, *inputs: NDArray[np.float32]) -> None:
    model = graph.save([y])
    made = tflite_graph(model)
    for x in inputs:
        for got, want in zip(run_graph(made, [x]), run(model, [x]), strict=True):
            assert got.tobytes() == want.tobytes()


def numbers(shape: tuple[int, ...]) -> list[NDArray[np.float32]]:
    """On both sides of 0, on one, and zeros."""
    x = DRAW.normal(0.3, 2, shape).astype(np.float32)
    return [x, np.abs(x), -np.abs(x) * np.float32(1e-4), np.zeros_like(x)]


def weights(graph: Graph, shape: tuple[int, ...], scales: int) -> Tensor:
    data = DRAW.integers(-127, 128, shape).astype(np.int8)
    return graph.constant(data, DRAW.uniform(0.001, 0.01, scales).astype(np.float32))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("fused", [Activation.NONE, pytest.param(Activation.RELU, marks=more)])
def test_a_dense_layer_has_a_scale_for_each_row(fused: int, *, asymmetric: bool) -> None:
    graph = Graph()
    x = graph.input((5, 37), np.float32)
    bias = graph.constant(DRAW.normal(size=9).astype(np.float32))
    y = graph.tensor((5, 9), np.float32)
    options = {"fused_activation_function": fused, "asymmetric_quantize_inputs": asymmetric}
    graph.operator("FULLY_CONNECTED", [x, weights(graph, (9, 37), 1), bias], [y], **options)
    given = numbers(x.shape)
    given[0][1] = 0
    same_bits(graph, y, *given)


def test_zero_points_and_integers_near_a_tie() -> None:
    """Rows whose smallest number is half a step from one of their integers."""
    graph, rows = Graph(), 400
    x = graph.input((rows, 3), np.float32)
    y = graph.tensor((rows, 4), np.float32)
    options = {"asymmetric_quantize_inputs": True}
    graph.operator("FULLY_CONNECTED", [x, weights(graph, (4, 3), 1)], [y], **options)
    share = (DRAW.integers(1, 254, rows) + 0.5) / 255
    high = DRAW.uniform(0.5, 3, rows)
    low = -high * share / (1 - share)
    given = np.stack([low, high, DRAW.uniform(low, high)], axis=1).astype(np.float32)
    same_bits(graph, y, given)


@pytest.mark.parametrize("padding", [Padding.SAME, pytest.param(Padding.VALID, marks=more)])
@pytest.mark.parametrize("scales", [1, 6])
def test_a_convolution_has_a_scale_for_each_sample(scales: int, padding: int) -> None:
    """By channel its zero point is found, too, and what padding gives is not there."""
    graph = Graph()
    x = graph.input((2, 7, 6, 3), np.float32)
    size = (4, 3) if padding == Padding.SAME else (3, 2)
    y = graph.tensor((2, *size, 6), np.float32)
    bias = graph.constant(DRAW.normal(size=6).astype(np.float32))
    options = {"stride_h": 2, "stride_w": 2, "padding": padding}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    fused = Activation.RELU6
    kernel = weights(graph, (6, 3, 3, 3), scales)
    graph.operator("CONV_2D", [x, kernel, bias], [y], **options, fused_activation_function=fused)
    same_bits(graph, y, *numbers(x.shape))


def test_other_operators_are_refused_by_name() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 3), np.float32)
    y = graph.tensor((1, 4, 4, 3), np.float32)
    kernel = graph.constant(np.ones((1, 3, 3, 3), np.int8), [0.1] * 3, axis=3)
    options = {"stride_h": 1, "stride_w": 1, "padding": Padding.SAME, "depth_multiplier": 1}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    graph.operator("DEPTHWISE_CONV_2D", [x, kernel], [y], **options)
    text = refusal(graph.save([y]), UnsupportedError)
    assert "DEPTHWISE_CONV_2D (operator 0" in text
    assert "dynamic range quantization), and CONV_2D, FULLY_CONNECTED are done so" in text


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16"])
def test_a_network_s_products_run_on_every_vta(device: str, shared: Path) -> None:
    """MLPerf Tiny's keyword spotting: every float is LiteRT's."""
    file = "mlpt_kws_dynrange.tflite"
    compiled = network(shared, file, device)
    inputs, (want,) = golden(shared, file, 4)
    (got,) = compiled.run(*inputs)
    np.testing.assert_array_equal(got.reshape(want.shape), want)
    kinds = [operator.kind for operator in compiled.partition.graph.operators]
    assert kinds.count("plane_conv2d") == 5
    assert not compiled.python_steps
