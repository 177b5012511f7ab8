# SPDX-License-Identifier: Apache-2.0
"""quantization/read_network.py: what is a layer of its own, what becomes int8, and what stays on
the host."""

from __future__ import annotations

import numpy as np

from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.fold import fold
from loadstone.quantization.network import Network, Role
from loadstone.quantization.read_network import read_network
from tests.float_models import SHAPE
from tests.onnx_builder import Graph


def read(graph: Graph, output: str, shape: tuple[int, ...]) -> Network:
    return read_network(
        fold(
            canonical(
                onnx.from_bytes(graph.save([(output, np.float32)], [shape]), "made by a test")
            )
        )
    )


def conv(graph: Graph, x: str, inputs: int, outputs: int) -> str:
    weights = graph.constant(np.ones((outputs, inputs, 1, 1)), np.float32)
    return graph.node(
        "Conv", x, weights, graph.constant(np.zeros(outputs), np.float32), kernel_shape=[1, 1]
    )


def test_a_relu_that_another_branch_goes_around_is_a_layer_of_its_own() -> None:
    graph = Graph()
    one = conv(graph, graph.input(SHAPE, np.float32), 3, 4)
    positive = graph.node("Relu", one)
    found = read(graph, conv(graph, graph.node("Add", one, positive), 4, 4), (1, 4, 12, 12))
    relu = next(layer for layer in found.layers if layer.kind == "nn.relu")
    assert relu.role is Role.MOVED
    assert found.groups[relu.output] == found.groups[relu.inputs[0]]


def test_what_only_the_host_reads_stays_there() -> None:
    graph = Graph()
    x = graph.input(SHAPE, np.float32)
    heads = [
        graph.node("Reshape", conv(graph, x, 3, 4), graph.constant([1, 576], np.int64))
        for _ in range(2)
    ]
    found = read(graph, graph.node("Concat", *heads, axis=1), (1, 1152))
    assert all(
        layer.output not in found.quantized
        for layer in found.layers
        if layer.role is Role.MOVED and layer.kind == "concat"
    )
    assert (
        len({found.groups[layer.output] for layer in found.weighted}) == 2
    )  # each head has its own scale


def test_arithmetic_on_inputs_stays_on_the_host() -> None:
    graph = Graph()
    centred = graph.node(
        "Sub", graph.input(SHAPE, np.float32), graph.constant(np.ones((1, 3, 1, 1)), np.float32)
    )
    found = read(graph, conv(graph, centred, 3, 4), (1, 4, 12, 12))
    subtract = next(layer for layer in found.layers if layer.kind == "subtract")
    assert subtract.output not in found.quantized
    assert not any(parameter in found.quantized for parameter in found.parameters)
    assert found.weighted[0].inputs[0] in found.quantized  # what the convolution reads


def test_float_operators_stand_between_dequantize_and_quantize() -> None:
    graph = Graph()
    shaped = graph.node("Softmax", conv(graph, graph.input(SHAPE, np.float32), 3, 4), axis=1)
    found = read(graph, conv(graph, shaped, 4, 4), (1, 4, 12, 12))
    softmax = next(layer for layer in found.layers if layer.kind == "nn.softmax")
    assert softmax.role is Role.FLOAT
    assert {*softmax.inputs, softmax.output} <= set(found.quantized)
    assert set(found.results()) == {softmax.inputs[0], found.weighted[1].output}
