# SPDX-License-Identifier: Apache-2.0
"""TFLite models of one operator, random tensors of theirs, and the comparison with LiteRT.

In:   a graph of tflite_builder.py under construction.
Out:  inputs drawn, int8 or uint8; `check`, LiteRT's integers and ours; `refusal`, one line.
Next: test_tflite.py, test_tflite_file.py, test_tflite_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import graph as g
from loadstone.errors import ModelError
from loadstone.frontend.tflite import from_bytes
from tests.draw import Random
from tests.imported import check_same, tflite_graph
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run


def activation(
    graph: Graph, draw: Random, shape: tuple[int, ...], *, unsigned: bool, is_input: bool = True
) -> Tensor:
    q = draw.quantization()
    zero_point = q.zero_point + (128 if unsigned else 0)
    make = graph.input if is_input else graph.tensor
    return make(shape, np.uint8 if unsigned else np.int8, q.scale, zero_point)


def values(draw: Random, tensor: Tensor) -> NDArray[Any]:
    if np.issubdtype(tensor.dtype, np.floating):
        return draw.rng.normal(0, 3, tensor.shape).astype(tensor.dtype)
    limits = np.iinfo(tensor.dtype)
    return draw.rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def check(graph: Graph, outputs: list[Tensor], draw: Random, model: bytes | None = None) -> g.Graph:
    """LiteRT's integers and ours. model: the graph's, where it has more than one."""
    model = graph.save(outputs) if model is None else model
    inputs = [values(draw, tensor) for tensor in graph.inputs]
    made = tflite_graph(model)
    check_same(made, inputs, run(model, inputs))
    return made


def weighted(
    draw: Random, graph: Graph, x: Tensor, kind: str, *, unsigned: bool
) -> tuple[Tensor, Tensor, int]:
    """Weights and bias of an operator on x, and its output channels."""
    channels, kernel = x.shape[-1], (draw.int(1, 4), draw.int(1, 4))
    out = draw.int(1, 12) if kind != "DEPTHWISE_CONV_2D" else channels * draw.int(1, 2)
    shape = {
        "CONV_2D": (out, *kernel, channels),
        "DEPTHWISE_CONV_2D": (1, *kernel, out),
        "FULLY_CONNECTED": (out, channels),
    }[kind]
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    scales = draw.weight_scales(1 if unsigned else out)
    dtype = np.uint8 if unsigned else np.int8
    data = draw.rng.integers(
        0 if unsigned else -127, 255 if unsigned else 127, shape, dtype, endpoint=True
    )
    weights = graph.constant(data, scales, draw.int(0, 255) if unsigned else 0, axis=axis)
    bias = graph.constant(
        draw.rng.integers(-9000, 9000, out, np.int32), np.float32(x.scale) * scales
    )
    return weights, bias, out


def windows(kind: str, fused: int = Activation.NONE) -> Callable[[Random, Graph, Tensor], Tensor]:
    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        size = [-(-n // 2) for n in x.shape[1:3]]
        y = graph.tensor((1, *size, x.shape[3]), x.dtype, x.scale, x.zero_point)
        options = {
            "filter_height": 3,
            "filter_width": 2,
            "stride_h": 2,
            "stride_w": 2,
            "padding": Padding.SAME,
        }
        graph.operator(kind, [x], [y], **options, fused_activation_function=fused)
        return y

    return add


def refusal(model: bytes, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        from_bytes(model, "m.tflite")
    text = str(caught.value)
    assert text.startswith("m.tflite: ")
    assert "\n" not in text
    return text


def dense_model(**changes: Any) -> bytes:
    """x (1, 4) int8 -> FULLY_CONNECTED -> (1, 2); `changes` replace what is passed to the
    builder."""
    graph = Graph()
    x = (
        changes.get("x", lambda: graph.input((1, 4), np.int8, 0.1, 0))()
        if "x" not in changes
        else changes["x"](graph)
    )
    weights = (
        changes["weights"](graph)
        if "weights" in changes
        else graph.constant(np.ones((2, 4), np.int8), 0.5)
    )
    y = changes["y"](graph) if "y" in changes else graph.tensor((1, 2), np.int8, 0.3, 0)
    graph.operator(changes.get("kind", "FULLY_CONNECTED"), [x, weights], [y])
    return graph.save([y])
