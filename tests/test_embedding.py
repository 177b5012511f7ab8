# SPDX-License-Identifier: Apache-2.0
"""Two uint8 networks that end in embeddings, as phones had them: a MobileNetV1 without its
classifier, and a table of words with a dense layer. Every element equals LiteRT's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import graph as g
from loadstone.compiler import compile
from loadstone.frontend import tflite
from loadstone.graph import reference
from tests.imported import imported
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

FEATURES = 1024
#: Blocks of a depthwise and a pointwise convolution: stride, channels. MobileNetV1's, a quarter of
#: its width, and the last one as wide as the embedding.
BLOCKS = [(1, 16), (2, 32), (1, 32), (2, 64), (1, 64), (2, 128), *[(1, 128)] * 5, (2, 256)]


def _layer(
    graph: Graph, rng: np.random.Generator, x: Tensor, kind: str, channels: int, stride: int
) -> Tensor:
    """A convolution of per-tensor weights around a zero point, a bias, ReLU6. The product of the
    scales is close to a power of two: many sums lie on the edge of two integers, and the last bit
    of the product decides."""
    inputs, kernel = x.shape[3], 1 if kind == "CONV_2D" and x.shape[3] > 3 else 3
    depthwise = kind == "DEPTHWISE_CONV_2D"
    shape = (1, 3, 3, inputs) if depthwise else (channels, kernel, kernel, inputs)
    data = np.clip(rng.normal(130, 40, shape), 0, 255).astype(np.uint8)
    taps = kernel * kernel * (1 if depthwise else inputs)
    grid = np.float32(rng.uniform(0.9, 1.1) * 6 / 255)
    power = np.round(np.log2(1.2 / 40 / np.sqrt(taps) * float(x.scale[0]) / grid))
    scale = np.float32(grid * 2.0**power / x.scale[0])
    weights = graph.constant(data, scale, int(rng.integers(120, 140)))
    step = np.float32(x.scale[0]) * scale
    bias = graph.constant(rng.integers(-1, 2, shape[3 if depthwise else 0]).astype(np.int32), step)
    bias.data[...] = (bias.data * 0.8 / step).astype(np.int32)  # type: ignore[index]
    size = [-(-n // stride) for n in x.shape[1:3]]
    y = graph.tensor((1, *size, shape[3 if depthwise else 0]), np.uint8, grid, 0)
    graph.operator(
        kind,
        [x, weights, bias],
        [y],
        padding=Padding.SAME,
        stride_h=stride,
        stride_w=stride,
        fused_activation_function=Activation.RELU6,
        **({"depth_multiplier": 1} if depthwise else {}),
    )
    return y


def _image_network(rng: np.random.Generator) -> bytes:
    graph = Graph()
    x = _layer(graph, rng, graph.input((1, 64, 64, 3), np.uint8, 1 / 128, 128), "CONV_2D", 8, 2)
    for stride, channels in [*BLOCKS, (1, FEATURES)]:
        x = _layer(graph, rng, x, "DEPTHWISE_CONV_2D", x.shape[3], stride)
        x = _layer(graph, rng, x, "CONV_2D", channels, 1)
    y = graph.tensor((1, 1, 1, FEATURES), np.uint8, x.scale, x.zero_point)
    size = {"filter_height": x.shape[1], "filter_width": x.shape[2]}
    options = {"padding": Padding.VALID, "stride_h": 1, "stride_w": 1}
    graph.operator("AVERAGE_POOL_2D", [x], [y], **options, **size)
    return graph.save([y])


def _word_network(rng: np.random.Generator) -> bytes:
    graph = Graph()
    words = graph.input((1, 8), np.int32)
    table = graph.constant(rng.integers(0, 256, (100, 64), np.uint8), 0.0173, 121)
    rows = graph.tensor((1, 8, 64), np.uint8, 0.0173, 121)
    graph.operator("GATHER", [table, words], [rows], axis=0)
    flat = graph.tensor((1, 512), np.uint8, 0.0173, 121)
    graph.operator("RESHAPE", [rows, graph.constant(np.int32([1, 512]))], [flat])
    weights = graph.constant(rng.integers(0, 256, (FEATURES, 512), np.uint8), 0.00391, 117)
    bias = graph.constant(rng.integers(-9000, 9000, FEATURES).astype(np.int32), 0.0173 * 0.00391)
    y = graph.tensor((1, FEATURES), np.uint8, 0.0931, 126)
    graph.operator("FULLY_CONNECTED", [flat, weights, bias], [y])
    return graph.save([y])


def _pixels(rng: np.random.Generator) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (2, 1, 64, 64, 3), np.uint8)


def _indices(rng: np.random.Generator) -> NDArray[np.int32]:
    return rng.integers(0, 100, (2, 1, 8)).astype(np.int32)


@pytest.mark.parametrize(
    ("network", "draw"), [(_image_network, _pixels), (_word_network, _indices)]
)
def test_an_embedding_equals_litert_s(
    network: Callable[[np.random.Generator], bytes],
    draw: Callable[[np.random.Generator], NDArray[np.uint8]],
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    rng = np.random.default_rng(7)
    model, samples = network(rng), draw(rng)
    (tmp_path / "embedding.tflite").write_bytes(model)
    wanted = np.stack([run(model, [sample])[0] for sample in samples]).reshape(2, FEATURES)
    got = (
        compile(tmp_path / "embedding.tflite", "vtaq-1x16x16").run(samples)[0].reshape(2, FEATURES)
    )
    wrong = np.count_nonzero(got != wanted)
    figure(f"{network.__name__.strip('_')}: {wrong} of {got.size} elements differ")
    assert wrong == 0
    assert len(np.unique(wanted)) > 50, "it saturates"


def test_the_product_of_scales_in_float64_would_differ() -> None:
    """What the embedding shows: with float64 it has other integers."""
    rng = np.random.default_rng(7)
    model = _image_network(rng)
    sample = _pixels(rng)[0]
    graph = imported(tflite, model)
    assert any(isinstance(o, g.Conv2D) and o.float32_product for o in graph.operators)
    exact = reference.run(graph, [sample])[0]
    for operator in graph.operators:
        if isinstance(operator, g.Conv2D):
            object.__setattr__(operator, "float32_product", False)
    other = reference.run(graph, [sample])[0]
    assert np.count_nonzero(exact != other) > 0
