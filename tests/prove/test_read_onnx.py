# SPDX-License-Identifier: Apache-2.0
"""prove/read_onnx.py and tests/prove/definition.py against ONNX Runtime without optimisations:
random QDQ and QOperator networks; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.errors import ModelError, UnsupportedError
from loadstone.prove.read_onnx import read_onnx
from tests.onnx_builder import Graph, run
from tests.prove.comparison import differing
from tests.random_onnx import network as random_network
from tests.repeat import times

Make = Callable[[Graph], str]


@pytest.mark.parametrize("seed", range(times(30, 1000)))
def test_random_networks_are_onnx_runtime_s(seed: int) -> None:
    drawn = random_network(seed)
    if b"linear" in drawn.model:
        with pytest.raises(UnsupportedError, match=r"Resize .* resizes 4 axes, mode linear: "):
            read_onnx(drawn.model, "random.onnx")
        return
    network = read_onnx(drawn.model, "random.onnx")
    inputs = [array[0] for array in drawn.draw_inputs(seed, 1)]
    assert differing(network, inputs, run(drawn.model, inputs)) == 0


def test_a_normalization_between_quantizers_is_onnx_runtime_s() -> None:
    graph, rng = Graph(), np.random.default_rng(3)
    x = graph.dequantize(graph.input((1, 6, 16, 16), np.int8), 0.05, 3)
    parameters = [rng.uniform(0.2, 2.0, 6).astype(np.float32) for _ in range(4)]
    names = [graph.constant(values) for values in parameters]
    y = graph.quantize(graph.node("BatchNormalization", x, *names, epsilon=1e-3), 0.07, -5)
    model = graph.save([(y, np.int8)])
    inputs = [rng.integers(-128, 128, (1, 6, 16, 16)).astype(np.int8)]
    assert differing(read_onnx(model, "normal"), inputs, run(model, inputs)) == 0


def test_a_chain_of_functions_is_one_table() -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((256,), np.int8), 0.05, 3)
    y = graph.quantize(graph.node("Mul", x, graph.node("Sigmoid", x)), 0.05, -5)
    model, inputs = graph.save([(y, np.int8)]), [np.arange(-128, 128).astype(np.int8)]
    network = read_onnx(model, "swish")
    assert [operator.kind for operator in network.operators] == ["table"]
    assert differing(network, inputs, run(model, inputs)) == 0


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize(
    "positions", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
)
def test_resizes_to_the_nearest_are_onnx_runtime_s(positions: str, rounding: str) -> None:
    """Of many sizes; refused are those at ties that float32 does not hold."""
    refused = compared = 0
    for extent, size in product((1, 7, 10, 52), range(1, times(34, 80), 3)):
        graph = Graph()
        x = np.arange(extent, dtype=np.int8).reshape(1, 1, extent, 1)
        real = graph.dequantize(graph.input(x.shape, np.int8), 0.05, 3)
        sizes = graph.constant(np.array([1, 1, size, 1], np.int64))
        said = {"coordinate_transformation_mode": positions, "nearest_mode": rounding}
        made = graph.node("Resize", real, "", "", sizes, mode="nearest", **said)
        model = graph.save([(graph.quantize(made, 0.05, 3), np.int8)])
        try:
            network = read_onnx(model, "resize")
        except UnsupportedError:
            with pytest.raises(UnsupportedError, match="takes elements at ties"):
                read_onnx(model, "resize")
            refused += 1
            continue
        compared += 1
        assert differing(network, [x], run(model, [x])) == 0
    assert compared > 2 * refused


def test_a_resize_by_factors() -> None:
    graph = Graph()
    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 7, 8)).astype(np.int8)
    real = graph.dequantize(graph.input(x.shape, np.int8), 0.05, 3)
    factors = graph.constant(np.array([1, 1, 2, 0.5], np.float32))
    made = graph.node("Resize", real, "", factors, mode="nearest")
    model = graph.save([(graph.quantize(made, 0.05, 3), np.int8)])
    network = read_onnx(model, "resize")
    assert network.tensors[network.outputs[0]].shape == (1, 2, 14, 4)
    assert differing(network, [x], run(model, [x])) == 0


# -- what is refused -------------------------------------------------------------------------------


def _float(graph: Graph) -> str:
    return graph.node("Relu", graph.input((4,), np.float32))


def _unknown(graph: Graph) -> str:
    x = graph.dequantize(graph.input((4,), np.int8), 0.05, 3)
    return graph.quantize(graph.node("Erf", x), 0.05, 3)


def _real_convolution(graph: Graph) -> str:
    w = graph.constant(np.ones((2, 3, 1, 1), np.float32))
    x = graph.dequantize(graph.input((1, 3, 4, 4), np.int8), 0.05, 3)
    return graph.quantize(graph.node("Conv", x, w), 0.05, 3)


def _without_quantizer(graph: Graph) -> str:
    x = graph.dequantize(graph.input((1, 8), np.int8), 0.05, 3)
    w = graph.dequantize(graph.constant(np.ones((8, 8), np.int8)), 0.05, 0)
    y = graph.node("MatMul", graph.node("MatMul", x, w), w)
    return graph.quantize(y, 0.05, 3)


def _bias_of_halves(graph: Graph) -> str:
    x = graph.dequantize(graph.input((1, 3, 4, 4), np.int8), 0.5, 3)
    w = graph.dequantize(graph.constant(np.ones((2, 3, 1, 1), np.int8)), 0.5, 0)
    b = graph.constant(np.array([0.125, 0.0], np.float32))
    return graph.quantize(graph.node("Conv", x, w, b), 8.0, 3)


def _dilated_pool(graph: Graph) -> str:
    x = graph.dequantize(graph.input((1, 3, 8, 8), np.int8), 0.05, 3)
    y = graph.node("MaxPool", x, kernel_shape=[2, 2], dilations=[2, 2])
    return graph.quantize(y, 0.05, 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_float, "no operator computes on int8 or uint8: a proof compares integers"),
        (_unknown, r'Erf \(node 1, output "n1"\) is not known: a proof knows Add, '),
        (_real_convolution, "has weights at input 1 that are no constant levels"),
        (_without_quantizer, "has input 0 that is no function of levels: put DequantizeLinear"),
        (_bias_of_halves, "has a real bias that is no whole step of its sums"),
        (_dilated_pool, "is dilated or gives positions"),
    ],
    ids=["float", "unknown", "weights", "no quantizer", "bias", "dilated"],
)
def test_what_is_not_understood_is_refused_by_one_line(make: Make, said: str) -> None:
    graph = Graph()
    output = make(graph)
    kind = ModelError if make is _float else UnsupportedError
    with pytest.raises(kind, match=said) as refused:
        read_onnx(graph.save([(output, np.float32 if make is _float else np.int8)]), "net.onnx")
    assert str(refused.value).startswith("net.onnx: ")
    assert "\n" not in str(refused.value)


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^net.onnx: damaged ONNX file"):
        read_onnx(b"no protobuf", "net.onnx")
