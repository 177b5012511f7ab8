# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/fused.py: what ONNX Runtime's optimizer fuses gives what it gives there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
import onnxruntime

from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import arrays, check_model
from tests.onnx_builder import Graph

MICROSOFT = "com.microsoft"


def model(
    op_type: str,
    inputs: list[Any],
    outputs: dict[int, tuple[int, ...]],
    opset: int = 17,
    **attributes: Any,
) -> bytes:
    """One node. inputs: a shape is one of the model, an array is a constant, None is left out.
    outputs: shapes of those that are read."""
    graph = Graph()
    names = [
        ""
        if given is None
        else graph.input(given, np.float32)
        if isinstance(given, tuple)
        else graph.constant(given)
        for given in inputs
    ]
    made = graph.node(op_type, *names, domain=MICROSOFT, **attributes)
    del graph.nodes[-1].output[:]
    all_names = [f"{made}_{k}" if k in outputs else "" for k in range(max(outputs) + 1)]
    graph.nodes[-1].output.extend(all_names)
    entries = [(f"{made}_{k}", np.float32) for k in outputs]
    return graph.save(entries, list(outputs.values()), opset=opset)


def check(
    op_type: str, inputs: list[Any], outputs: dict[int, tuple[int, ...]], **given: Any
) -> None:
    drawn = arrays([x for x in inputs if isinstance(x, tuple)])
    check_model(model(op_type, inputs, outputs, **given), [x / 2 for x in drawn], atol=1e-5)


def refused(op_type: str, inputs: list[Any], **given: Any) -> str:
    outputs = given.pop("outputs", {0: (2, 3, 4)})
    return refusal(model(op_type, inputs, outputs, **given), UnsupportedError)


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [
        ("", []),
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.25]),
        ("Clip", [-1.0, 2.5]),
        ("HardSigmoid", [0.1, 0.75]),
    ],
)
def test_a_convolution_with_what_follows_it(activation: str, numbers: list[float]) -> None:
    weights, bias = arrays([(4, 3, 3, 3), (4,)])
    said: dict[str, Any] = {"activation": activation} if activation else {}
    if numbers:
        said["activation_params"] = numbers
    inputs = [(1, 3, 6, 6), weights / 16, bias]
    check("FusedConv", inputs, {0: (1, 4, 3, 3)}, strides=[2, 2], pads=[1, 1, 1, 1], **said)


def test_a_convolution_with_another_tensor_added() -> None:
    weights, bias = arrays([(4, 3, 1, 1), (4,)])
    shape = (1, 4, 5, 5)
    check("FusedConv", [(1, 3, 5, 5), weights, bias, shape], {0: shape}, activation="Relu")


@pytest.mark.parametrize("alpha", [1.0, 0.125])
@pytest.mark.parametrize(("turn_a", "turn_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_product_of_turned_matrices(turn_a: int, turn_b: int, alpha: float) -> None:
    a = (2, 4, 3) if turn_a else (2, 3, 4)
    b = (2, 5, 4) if turn_b else (2, 4, 5)
    check("FusedMatMul", [a, b], {0: (2, 3, 5)}, transA=turn_a, transB=turn_b, alpha=alpha)


@pytest.mark.parametrize("op_type", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
def test_curves(op_type: str) -> None:
    (bias,) = arrays([(4,)])
    check(op_type, [(2, 3, 4), bias] if op_type == "BiasGelu" else [(2, 3, 4)], {0: (2, 3, 4)})


def test_curves_with_what_can_be_said_of_them() -> None:
    check("FastGelu", [(2, 3, 4), arrays([(4,)])[0]], {0: (2, 3, 4)})
    check("QuickGelu", [(2, 3, 4)], {0: (2, 3, 4)}, alpha=1.0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("skip", [(2, 3, 4), (1, 3, 4)])
def test_a_sum_that_is_normalized(beta: bool, bias: bool, skip: tuple[int, ...]) -> None:
    gamma, shift, more = arrays([(4,)] * 3)
    inputs = [(2, 3, 4), skip, gamma, shift if beta else None, more if bias else None]
    check("SkipLayerNormalization", inputs, {0: (2, 3, 4), 3: (2, 3, 4)}, epsilon=1e-3)
    check("SkipLayerNormalization", inputs, {0: (2, 3, 4)})


def test_what_is_not_taken_is_named() -> None:
    (weights,) = arrays([(4, 3, 1, 1)])
    convolution: list[Any] = [(1, 3, 5, 5), weights]
    text = refused("FusedConv", convolution, outputs={0: (1, 4, 5, 5)}, activation="Softsign")
    assert "its activation is Softsign, and Relu, Tanh, " in text
    text = refused("FusedConv", convolution, outputs={0: (1, 4, 5, 5)}, activation="Clip")
    assert "its activation_params are 0, and Clip has 2" in text
    text = refused("FusedMatMul", [(2, 3, 4), (2, 4, 4)], transBatchA=1)
    assert "its attribute transBatchA is 1, and only 0 is imported: export it" in text
    normalized: list[Any] = [(2, 3, 4), (2, 3, 4), arrays([(4,)])[0]]
    shapes = {0: (2, 3, 4), 1: (2, 3, 1)}
    text = refused("SkipLayerNormalization", normalized, outputs=shapes)
    assert "its output 1 (mean), which training uses, is read" in text
    assert "the model has opset 13" in refused("SkipLayerNormalization", normalized, opset=13)


def test_a_model_that_onnx_runtime_has_optimized(tmp_path: Any) -> None:
    """Its fused nodes stand one behind the other, with no shape between them."""
    graph = Graph()
    weights, more, bias = arrays([(4, 3, 3, 3), (4, 4, 1, 1), (4,)])
    x = graph.node("Conv", graph.input((1, 3, 6, 6), np.float32), graph.constant(weights / 16))
    x = graph.node("Conv", graph.node("Relu", x), graph.constant(more), graph.constant(bias))
    y = graph.node("LeakyRelu", x, alpha=0.25)
    plain = graph.save([(y, np.float32)], [(1, 4, 4, 4)])
    options, path = onnxruntime.SessionOptions(), tmp_path / "m.onnx"
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
    found = onnx.load(path)
    assert [node.op_type for node in found.graph.node] == ["FusedConv", "FusedConv"]
    check_model(found.SerializeToString(), arrays([(1, 3, 6, 6)]), atol=1e-5)
