# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_dense.py: a dense layer whose weights are computed equals LiteRT's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import UnsupportedError
from tests.draw import Random
from tests.frontend.tflite_models import check, refusal
from tests.repeat import times
from tests.tflite_builder import Activation, Graph

CLAMPS = (Activation.NONE, Activation.RELU, Activation.RELU_N1_TO_1, Activation.RELU6)


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("fused", CLAMPS)
def test_a_product_of_two_activations(fused: int, *, unsigned: bool) -> None:
    for seed in range(times(2, 30)):
        draw, graph = Random(seed), Graph()
        dtype, offset = (np.uint8, 128) if unsigned else (np.int8, 0)
        rows, depth, units = (draw.int(1, 9) for _ in range(3))
        a, b = draw.quantization(), draw.quantization()
        keeps = draw.chance(2)
        x = graph.input((rows, 2, depth), dtype, a.scale, a.zero_point + offset)
        zero_point = b.zero_point if unsigned or draw.chance(2) else 0
        weights = graph.input((units, depth), dtype, b.scale, zero_point + offset)
        bias = graph.constant(draw.rng.integers(-900, 900, units, np.int32), a.scale * b.scale)
        to = (rows, 2, units) if keeps else (2 * rows, units)
        y = graph.tensor(to, dtype, a.scale * b.scale * draw.int(20, 300), 7 + offset)
        sources = [x, weights, bias if draw.chance(2) else None]
        options = {"keep_num_dims": keeps, "fused_activation_function": fused}
        graph.operator("FULLY_CONNECTED", sources, [y], **options)
        check(graph, [y], draw)


def test_shapes_that_do_not_fit_are_named() -> None:
    graph = Graph()
    x, weights = (graph.input(shape, np.float32) for shape in ((2, 5), (3, 4)))
    y = graph.tensor((2, 3), np.float32)
    graph.operator("FULLY_CONNECTED", [x, weights], [y])
    text = refusal(graph.save([y]), UnsupportedError)
    assert "its weights are [3, 4], its input is [2, 5]" in text
