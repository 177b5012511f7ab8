# SPDX-License-Identifier: Apache-2.0
"""Models as people reported them: constants as outputs, inputs passed through, names, clipped
weights, padding that crops, recurrent layers as torch.onnx.export writes them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
from onnx import TensorProto, helper

from loadstone.compiler import Compiled, compile
from tests.onnx_builder import Graph, run

DEVICE = "vtaq-1x16x16"
RNG = np.random.default_rng(3)


def checked(model: bytes, *inputs: Any) -> Compiled:
    """Equal to ONNX Runtime in every bit, by C alone."""
    compiled = compile(onnx.load_model_from_string(model), DEVICE, as_float=True)
    assert not compiled.python_steps
    got = compiled.run(*(x[None] for x in inputs))
    for stored, want in zip(got, run(model, list(inputs)), strict=True):
        assert stored.dtype == want.dtype
        np.testing.assert_array_equal(stored[0].reshape(want.shape), want)
    return compiled


def image(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def test_constants_and_inputs_are_outputs() -> None:
    graph = Graph()
    x = graph.input((1, 3), np.float32)
    constant = graph.constant(np.arange(6).reshape(2, 3), np.int64)
    real = graph.dequantize(graph.constant([[1, 2], [3, 4]], np.int8), [0.5, 0.25], [0, 0], axis=0)
    shape = graph.node("Shape", x)
    outputs = [(constant, np.int64), (real, np.float32), (shape, np.int64), (x, np.float32)]
    checked(graph.save(outputs, [(2, 3), (2, 2), (2,), (1, 3)]), image(1, 3))


def test_integers_beyond_32_bits_stay() -> None:
    graph = Graph()
    x = graph.input((2,), np.int64)
    y = graph.node("Add", x, graph.constant([2**40, -(2**50)], np.int64))
    checked(graph.save([(y, np.int64)], [(2,)]), np.array([1, 2**41], np.int64))


@pytest.mark.parametrize(
    ("given", "made"), [("x", "main"), ("main", "main1"), ("a.b", "y/0:1"), ("int", "main.1")]
)
def test_names_are_those_of_the_file(given: str, made: str) -> None:
    nodes = [helper.make_node("Relu", [given], ["t"]), helper.make_node("Neg", ["t"], [made])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 3)) for n in (given, made)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    artifact = checked(model.SerializeToString(), image(1, 3)).artifact
    ends_in_artifact = [artifact.tensors[k].name for k in (*artifact.inputs, *artifact.outputs)]
    assert ends_in_artifact == [given, made]


def test_clipped_weights_are_on_the_device() -> None:
    """Brevitas writes constant int8 weights through a Clip."""
    graph = Graph()
    x = graph.dequantize(graph.quantize(graph.input((1, 6, 5, 5), np.float32), 0.05, 0), 0.05, 0)
    weights = graph.constant(RNG.integers(-128, 128, (8, 6, 3, 3)), np.int8)
    low, high = graph.constant(-127, np.int8), graph.constant(127, np.int8)
    clipped = graph.dequantize(graph.node("Clip", weights, low, high), 0.01, 0)
    y = graph.quantize(graph.node("Conv", x, clipped), 0.2, 0)
    y = graph.dequantize(y, 0.2, 0)
    compiled = checked(graph.save([(y, np.float32)], [(1, 8, 3, 3)]), image(1, 6, 5, 5))
    places = {row["kind"]: row["where"] for row in compiled.explain()}
    assert places["conv2d"] == "vta"


@pytest.mark.parametrize("value", [None, 0.5])
@pytest.mark.parametrize("pads", [[0, 0, -1, 1, 0, 0, -2, 2], [0, 0, 1, 1, 0, 0, 1, 1]])
def test_padding_crops_and_takes_its_value_from_integers(
    pads: list[int], value: float | None
) -> None:
    """quantize_static gives the constant value a DequantizeLinear."""
    graph = Graph()
    x = graph.dequantize(graph.quantize(graph.input((1, 4, 5, 6), np.float32), 0.05, 0), 0.05, 0)
    more = []
    if value is not None:
        integer = graph.constant(round(value / 0.05), np.int8)
        more = [graph.dequantize(integer, 0.05, 0)]
    y = graph.node("Pad", x, graph.constant(pads, np.int64), *more)
    y = graph.dequantize(graph.quantize(y, 0.05, 0), 0.05, 0)
    shape = [n + b + a for n, b, a in zip((1, 4, 5, 6), pads[:4], pads[4:], strict=True)]
    checked(graph.save([(y, np.float32)], [shape]), image(1, 4, 5, 6))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_as_pytorch_exports_it(kind: str) -> None:
    """Its weights, larger than what the exporter folds, come in slices."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    torch.manual_seed(1)
    layer = getattr(torch.nn, kind)(40, 48, batch_first=True).eval()
    x = torch.randn(1, 3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(layer, (x,), verbose=False, dynamo=True).model_proto
    compiled = compile(exported, DEVICE, as_float=True)
    assert not compiled.python_steps
    (got, *_) = compiled.run(x.numpy()[None])
    np.testing.assert_allclose(got[0], layer(x)[0].detach().numpy(), rtol=1e-4, atol=1e-6)
