# SPDX-License-Identifier: Apache-2.0
"""quantization/chains.py: activations of several operators are one layer, and leave no float
between layers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

import loadstone
from loadstone.compiler import compile
from loadstone.frontend import load
from loadstone.quantization.fold import fold
from loadstone.quantization.network import TABLE, Network
from loadstone.quantization.read_network import read_network
from tests.frontend.test_tables import FUNCTIONS, gelu, hard_swish, silu
from tests.onnx_builder import Graph, run

RNG = np.random.default_rng(5)
SHAPE = (1, 3, 8, 8)


def convolution(graph: Graph, x: str, channels: int, source: int) -> str:
    weights = RNG.normal(0, 0.4, (channels, source, 3, 3))
    return graph.node(
        "Conv",
        x,
        graph.constant(weights, np.float32),
        graph.constant(RNG.normal(0, 0.3, channels), np.float32),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
    )


def model() -> bytes:
    """Three convolutions with activations; the second one's result is read twice."""
    graph = Graph()
    first = silu(graph, convolution(graph, graph.input(SHAPE, np.float32), 16, 3))
    second = gelu(graph, convolution(graph, first, 16, 16))
    third = hard_swish(graph, graph.node("Add", convolution(graph, second, 16, 16), second))
    return graph.save([(convolution(graph, third, 8, 16), np.float32)], [(1, 8, 8, 8)])


def network(data: bytes, folder: Path) -> Network:
    (folder / "m.onnx").write_bytes(data)
    return read_network(fold(load(folder / "m.onnx")))


def test_each_activation_is_one_layer(tmp_path: Path) -> None:
    kinds = [layer.kind for layer in network(model(), tmp_path).layers if layer.kind != "reshape"]
    moved = ("permute_dims",)
    assert [kind for kind in kinds if kind not in moved] == [
        *("nn.conv2d", TABLE, "nn.conv2d", TABLE, "nn.conv2d", "add", TABLE, "nn.conv2d")
    ]


def test_no_float_is_left_between_layers(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model())
    images = RNG.normal(0, 1, (12, *SHAPE)).astype(np.float32)
    quantized = loadstone.quantize(tmp_path / "m.onnx", images[:8])
    compiled = compile(quantized.module, "vtaq-1x16x16")
    host = Counter(row["kind"] for row in compiled.explain() if row["where"] == "host")
    assert host["lookup"] == 3
    assert set(host) <= {"lookup", "quantize", "dequantize", "transpose"}
    assert not compiled.python_steps
    (got,) = compiled.run(images[8:])
    want = np.stack([run((tmp_path / "m.onnx").read_bytes(), [image])[0] for image in images[8:]])
    noise = np.mean((got.reshape(want.shape) - want) ** 2) / np.mean(want**2)
    assert noise < 2e-3


def test_a_function_at_the_end_stays_float(tmp_path: Path) -> None:
    """The host computes it anyway: one rounding less."""
    graph = Graph()
    last = silu(graph, convolution(graph, graph.input(SHAPE, np.float32), 4, 3))
    found = network(graph.save([(last, np.float32)], [(1, 4, 8, 8)]), tmp_path)
    (table,) = (layer for layer in found.layers if layer.kind == TABLE)
    assert table.output not in found.quantized
    assert table.inputs[0] in found.quantized


def test_every_function_is_found(tmp_path: Path) -> None:
    for name, make in FUNCTIONS.items():
        graph = Graph()
        before = convolution(graph, graph.input(SHAPE, np.float32), 4, 3)
        after = convolution(graph, make(graph, before), 4, 4)
        found = network(graph.save([(after, np.float32)], [(1, 4, 8, 8)]), tmp_path)
        assert [layer.kind for layer in found.layers].count(TABLE) == 1, name
