# SPDX-License-Identifier: Apache-2.0
"""Small float networks, made by tests: as ONNX bytes, as a canonical module, as a Network.

images (1, 3, 12, 12) -> conv 3x3, 8, relu -> max pool -> depthwise 3x3, batch normalization, relu6
                      -> 1x1 twice, added -> concatenated with its input -> mean -> dense 5
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.fold import fold
from loadstone.quantization.network import Network
from loadstone.quantization.read_network import read_network
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests.onnx_builder import Graph

__all__ = ["SHAPE", "images", "module", "network", "runner", "small_onnx"]

SHAPE = (1, 3, 12, 12)


def images(count: int, seed: int = 0) -> NDArray[np.float32]:
    """(count, *SHAPE), smooth, as pictures are."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(count, 1, 3, 4, 4)).astype(np.float32)
    return np.kron(coarse, np.ones((3, 3), np.float32)) + 0.1 * rng.normal(
        size=(count, *SHAPE)
    ).astype(np.float32)


def small_onnx(seed: int = 0) -> bytes:
    """The network above, with random weights whose channels differ in size."""
    rng = np.random.default_rng(seed)
    graph = Graph()

    def weights(*shape: int) -> str:
        spread = np.exp(rng.normal(0, 0.7, (shape[0],) + (1,) * (len(shape) - 1)))
        return graph.constant(
            rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape) * spread, np.float32
        )

    def vector(size: int, mean: float = 0.0) -> str:
        return graph.constant(rng.normal(mean, 0.2, size), np.float32)

    x = graph.input(SHAPE, np.float32)
    first = graph.node(
        "Relu",
        graph.node(
            "Conv", x, weights(8, 3, 3, 3), vector(8), kernel_shape=[3, 3], pads=[1, 1, 1, 1]
        ),
    )
    pooled = graph.node("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    deep = graph.node(
        "Conv", pooled, weights(8, 1, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8
    )
    normal = graph.node(
        "BatchNormalization",
        deep,
        vector(8, 1),
        vector(8),
        vector(8),
        graph.constant(rng.uniform(0.5, 2, 8), np.float32),
    )
    six = graph.node(
        "Clip", normal, graph.constant(0.0, np.float32), graph.constant(6.0, np.float32)
    )
    left, right = (
        graph.node("Conv", six, weights(8, 8, 1, 1), vector(8), kernel_shape=[1, 1])
        for _ in range(2)
    )
    joined = graph.node("Concat", graph.node("Add", left, right), pooled, axis=1)
    flat = graph.node("Flatten", graph.node("GlobalAveragePool", joined))
    scores = graph.node("Gemm", flat, weights(5, 16), vector(5), transB=1)
    return graph.save([(scores, np.float32)], [(1, 5)])


def module(seed: int = 0) -> Any:
    """In canonical form, not folded."""
    return canonical(onnx.from_bytes(small_onnx(seed), "small.onnx"))


def network(seed: int = 0) -> Network:
    """Folded and read."""
    return read_network(fold(module(seed)))


@cache
def runner(seed: int = 0) -> FakeQuantizedRunner:
    """Of that network; compiling it takes longer than most tests."""
    return FakeQuantizedRunner(network(seed))
