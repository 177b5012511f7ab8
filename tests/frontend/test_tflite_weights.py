# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_weights.py, and weights of 4 bits: dead channels and narrow integers equal
LiteRT."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import ModelError
from tests.draw import Random
from tests.frontend.tflite_models import check, refusal
from tests.tflite_builder import Graph, Padding, Tensor

#: Operator -> the shape of its weights on channels (3 -> 5, or 3 -> 3), and the axis of outputs.
WEIGHTED: dict[str, tuple[tuple[int, ...], int]] = {
    "FULLY_CONNECTED": ((5, 3), 0),
    "CONV_2D": ((5, 3, 3, 3), 0),
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 3), 3),
    "TRANSPOSE_CONV": ((5, 3, 3, 3), 0),
}


#: What LiteRT has kernels for.
NARROW = [("FULLY_CONNECTED", 4), ("FULLY_CONNECTED", 2), ("CONV_2D", 4), ("DEPTHWISE_CONV_2D", 4)]


def layer(
    draw: Random, kind: str, scales: Any, *, bits: int = 0, with_bias: bool = True
) -> tuple[Graph, Tensor]:
    """An operator on (1, 4, 4, 3) or (3, 3) with such weights."""
    graph, (shape, axis) = Graph(), WEIGHTED[kind]
    count, high = shape[axis], (1 << (bits or 8) - 1) - 1
    dense = kind == "FULLY_CONNECTED"
    x = graph.input((3, 3) if dense else (1, 4, 4, 3), np.int8, 0.04, -7)
    values = draw.rng.integers(-high, high, shape, np.int8, endpoint=True)
    scales = np.asarray(scales, np.float32)
    weights = graph.constant(values, scales, axis=axis, packed_bits=bits)
    biases = draw.rng.integers(-900, 900, count, np.int32)
    bias = [graph.constant(biases, np.float32(0.04) * scales)] * with_bias
    y = graph.tensor((3, 5) if dense else (1, 4, 4, count), np.int8, 0.05, 3)
    strides = {"stride_h": 1, "stride_w": 1, "padding": Padding.SAME}
    if kind == "TRANSPOSE_CONV":
        size = graph.constant(np.array(y.shape, np.int32))
        graph.operator(kind, [size, weights, x, *bias], [y], **strides)
    else:
        if kind == "DEPTHWISE_CONV_2D":
            strides["depth_multiplier"] = 1
        graph.operator(kind, [x, weights, *bias], [y], **({} if dense else strides))
    return graph, y


@pytest.mark.parametrize("kind", WEIGHTED)
def test_a_channel_of_scale_0_is_the_zero_point(kind: str) -> None:
    draw, (shape, axis) = Random(3), WEIGHTED[kind]
    for with_bias in (True, False)[: 2 - (kind == "CONV_2D")]:  # LiteRT wants one
        scales = draw.weight_scales(shape[axis])
        scales[1] = 0
        graph, y = layer(draw, kind, scales, with_bias=with_bias)
        check(graph, [y], draw)
        if kind != "FULLY_CONNECTED":
            graph, y = layer(draw, kind, np.float32([0]), with_bias=with_bias)
            check(graph, [y], draw)


def test_a_constant_of_scale_0_is_0() -> None:
    draw, graph = Random(0), Graph()
    x, y = (make((2, 3), np.float32) for make in (graph.input, graph.tensor))
    weights = graph.constant(draw.int8(2, 3), [0.5, 0], axis=0)
    real = graph.tensor((2, 3), np.float32)
    graph.operator("DEQUANTIZE", [weights], [real])
    graph.operator("ADD", [x, real], [y])
    check(graph, [y], draw)


def test_a_bias_of_a_dead_and_of_a_living_channel_is_refused() -> None:
    graph = Graph()
    x = graph.input((1, 3), np.int8, 0.04, 0)
    bias = graph.constant(np.int32([5, 6]), 0.02)
    for scales in ([0.5, 0], [0.5, 0.5]):
        weights = graph.constant(np.ones((2, 3), np.int8), scales)
        y = graph.tensor((1, 2), np.int8, 0.3, 0)
        graph.operator("FULLY_CONNECTED", [x, weights, bias], [y])
    assert 'its bias "t1" belongs to another operator, too' in refusal(graph.save([y]))


def test_a_scale_of_0_that_is_no_operators_weights_is_refused() -> None:
    graph = Graph()
    x, y = graph.input((1, 2), np.int8, 0.1, 0), graph.tensor((1, 2), np.int8, 0.1, 0)
    graph.operator("ADD", [x, graph.constant(np.int8([[1, 2]]), [0.1, 0], axis=1)], [y])
    text = refusal(graph.save([y]), ModelError)
    assert "has a scale that is not positive, and it is no operator" in text


@pytest.mark.parametrize(("kind", "bits"), NARROW)
def test_narrow_weights_are_widened(kind: str, bits: int) -> None:
    """Odd numbers of them among these."""
    draw, (shape, axis) = Random(bits), WEIGHTED[kind]
    for scales in (draw.weight_scales(shape[axis]), draw.weight_scales(1)):
        graph, y = layer(draw, kind, scales, bits=bits)
        check(graph, [y], draw)


@pytest.mark.parametrize("bits", [4, 2])
def test_narrow_constants_are_dequantized(bits: int) -> None:
    draw, graph = Random(0), Graph()
    x, y = (make((5, 3), np.float32) for make in (graph.input, graph.tensor))
    values = draw.rng.integers(-(1 << bits - 1), 1 << bits - 1, (5, 3), np.int8)
    real = graph.tensor((5, 3), np.float32)
    graph.operator("DEQUANTIZE", [graph.constant(values, 0.5, packed_bits=bits)], [real])
    graph.operator("ADD", [x, real], [y])
    check(graph, [y], draw)


def test_narrow_activations_are_refused() -> None:
    graph = Graph()
    source = graph.input((1, 3), np.int8, 0.1, 0)
    graph.tensors[source.index] = replace(source, packed_bits=4)
    y = graph.tensor((1, 3), np.int8, 0.1, 0)
    graph.operator("ADD", [source, source], [y])
    text = refusal(graph.save([y]))
    assert '"in0" is int4 and no constant: only weights can be' in text
