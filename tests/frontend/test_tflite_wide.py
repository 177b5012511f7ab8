# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_wide.py: 16x8 operators give the integers of LiteRT's reference kernels; what is
not known beside int16 is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError, UnsupportedError
from loadstone.frontend.tflite import from_bytes
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

WIDE = np.int16
SHAPE = (1, 7, 6, 4)
#: Of inputs and outputs.
X, Y = 0.0013, 0.0029
Case = Callable[[Graph, np.random.Generator], Tensor]


def bias(graph: Graph, rng: np.random.Generator, count: int, kind: type = np.int64) -> Tensor:
    return graph.constant(rng.integers(-(2**24), 2**24, count).astype(kind), [0.001] * count)


def window(**others: Any) -> dict[str, Any]:
    return {"stride_h": 1, "stride_w": 1, "padding": Padding.SAME, **others}


def conv(
    kind: type | None = np.int64,
    activation: int = Activation.NONE,
    scale: float = Y,
    **options: Any,
) -> Case:
    def build(graph: Graph, rng: np.random.Generator) -> Tensor:
        x = graph.input(SHAPE, WIDE, X, 0)
        weights = rng.integers(-127, 128, (5, 3, 3, 4)).astype(np.int8)
        w = graph.constant(weights, rng.uniform(0.002, 0.01, 5) * scale / Y, [0] * 5)
        chosen = window(fused_activation_function=activation, **options)
        size = (1, 7, 6) if chosen["padding"] == Padding.SAME else (1, 3, 2)
        y = graph.tensor((*size, 5), WIDE, scale, 0)
        inputs = [x, w] if kind is None else [x, w, bias(graph, rng, 5, kind)]
        graph.operator("CONV_2D", inputs, [y], dilation_h_factor=1, dilation_w_factor=1, **chosen)
        return y

    return build


def depthwise(graph: Graph, rng: np.random.Generator) -> Tensor:
    x = graph.input(SHAPE, WIDE, X, 0)
    weights = rng.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8)
    w = graph.constant(weights, rng.uniform(0.01, 0.05, 8), [0] * 8, axis=3)
    y = graph.tensor((1, 4, 3, 8), WIDE, Y, 0)
    options = window(stride_h=2, stride_w=2, depth_multiplier=2)
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    graph.operator("DEPTHWISE_CONV_2D", [x, w, bias(graph, rng, 8)], [y], **options)
    return y


def dense(per_channel: bool, kind: type | None = np.int64) -> Case:
    def build(graph: Graph, rng: np.random.Generator) -> Tensor:
        x = graph.input((9, 40), WIDE, X, 0)
        scales = list(rng.uniform(0.004, 0.01, 6)) if per_channel else [0.007]
        weights = rng.integers(-127, 128, (6, 40)).astype(np.int8)
        w = graph.constant(weights, scales, [0] * len(scales))
        y = graph.tensor((9, 6), WIDE, 3 * Y, 0)
        inputs = [x, w] if kind is None else [x, w, bias(graph, rng, 6, kind)]
        graph.operator("FULLY_CONNECTED", inputs, [y])
        return y

    return build


def binary(kind: str, activation: int = Activation.NONE, scale: float = Y) -> Case:
    def build(graph: Graph, rng: np.random.Generator) -> Tensor:
        x, z = graph.input(SHAPE, WIDE, X, 0), graph.input((1, 1, 1, 4), WIDE, 0.0021, 0)
        y = graph.tensor(SHAPE, WIDE, scale, 0)
        options: dict[str, Any] = {"fused_activation_function": activation}
        options |= {"pot_scale_int16": False} if kind == "ADD" else {}
        graph.operator(kind, [x, z], [y], **options)
        return y

    return build


def pool(kind: str, padding: int, activation: int = Activation.NONE) -> Case:
    def build(graph: Graph, rng: np.random.Generator) -> Tensor:
        x = graph.input(SHAPE, WIDE, X, 0)
        size = (1, 4, 3, 4) if padding == Padding.SAME else (1, 3, 2, 4)
        y = graph.tensor(size, WIDE, X, 0)
        options = window(padding=padding, stride_h=2, stride_w=2)
        options |= {"filter_height": 3, "filter_width": 3}
        graph.operator(kind, [x], [y], fused_activation_function=activation, **options)
        return y

    return build


def moves(graph: Graph, rng: np.random.Generator) -> Tensor:
    x = graph.input(SHAPE, WIDE, X, 0)
    padded = graph.tensor((1, 9, 6, 4), WIDE, X, 0)
    widths = graph.constant(np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    joined, flat = (graph.tensor(s, WIDE, X, 0) for s in ((1, 9, 6, 8), (1, 432)))
    graph.operator("PAD", [x, widths], [padded])
    graph.operator("CONCATENATION", [padded, padded], [joined], axis=3)
    graph.operator("RESHAPE", [joined], [flat], new_shape=[1, 432])
    return flat


def quantize(source: Any, target: Any) -> Case:
    def build(graph: Graph, rng: np.random.Generator) -> Tensor:
        x = graph.input(SHAPE, *source)
        y = graph.tensor(SHAPE, *target)
        graph.operator("DEQUANTIZE" if target[0] is np.float32 else "QUANTIZE", [x], [y])
        return y

    return build


CASES: dict[str, Case] = {
    "conv": conv(),
    "conv relu": conv(activation=Activation.RELU),
    "conv relu6": conv(activation=Activation.RELU6, scale=0.0007),
    "conv valid": conv(padding=Padding.VALID, stride_h=2, stride_w=2),
    "depthwise": depthwise,
    "dense": dense(per_channel=False),
    "dense per channel": dense(per_channel=True),
    "dense without bias": dense(per_channel=False, kind=None),
    "add": binary("ADD"),
    "add relu": binary("ADD", Activation.RELU),
    "mul": binary("MUL", scale=0.05),
    "mul relu6": binary("MUL", Activation.RELU6, scale=0.0007),
    "average": pool("AVERAGE_POOL_2D", Padding.SAME),
    "average valid": pool("AVERAGE_POOL_2D", Padding.VALID, Activation.RELU),
    "max": pool("MAX_POOL_2D", Padding.SAME),
    "max valid": pool("MAX_POOL_2D", Padding.VALID, Activation.RELU),
    "moves": moves,
    "quantize": quantize((np.float32,), (WIDE, X, 0)),
    "dequantize": quantize((WIDE, X, 0), (np.float32,)),
    "narrower": quantize((WIDE, X, 0), (np.int8, 0.31, 5)),
    "wider": quantize((np.int8, 0.1, -7), (WIDE, 0.0011, 0)),
    "other scale": quantize((WIDE, X, 0), (WIDE, Y, 0)),
}


def drawn(graph: Graph, rng: np.random.Generator) -> list[NDArray[Any]]:
    """All sizes of numbers, the ends among them."""
    found = []
    for tensor in graph.inputs:
        if tensor.dtype == np.float32:
            array = rng.normal(0, 20, tensor.shape)
            array.reshape(-1)[:6] = np.array([0.5, -0.5, 1.5, 40000, -2.5, -40000]) * np.float32(X)
        else:
            ends = np.iinfo(tensor.dtype)
            array = rng.integers(ends.min, ends.max + 1, tensor.shape)
            array.reshape(-1)[:4] = (ends.min, ends.max, 0, -1)
        found.append(array.astype(tensor.dtype))
    return found


def test_litert_gives_the_same_integers(tmp_path: Path) -> None:
    """All in one model: LiteRT and the C compiler are called once."""
    rng, graph = np.random.default_rng(0), Graph()
    outputs = [build(graph, rng) for build in CASES.values()]
    model = graph.save(outputs)
    (tmp_path / "m.tflite").write_bytes(model)
    compiled = compile(tmp_path / "m.tflite", "vtaq-tiny", as_float=True)
    assert not compiled.python_steps
    for _ in range(3):
        inputs = drawn(graph, rng)
        wanted = run(model, dict(enumerate(inputs)))
        found = compiled.run(*(array[None] for array in inputs))
        for name, want, got in zip(CASES, wanted, found, strict=True):
            assert len(np.unique(want)) > 6, name
            np.testing.assert_array_equal(got[0], want, err_msg=name)


def potent(graph: Graph, rng: np.random.Generator) -> Tensor:
    x, y = graph.input(SHAPE, WIDE, 2.0**-10, 0), graph.tensor(SHAPE, WIDE, 2.0**-9, 0)
    graph.operator("ADD", [x, x], [y], pot_scale_int16=True)
    return y


def softmax(graph: Graph, rng: np.random.Generator) -> Tensor:
    x, y = graph.input((1, 8), WIDE, X, 0), graph.tensor((1, 8), WIDE, 2.0**-15, 0)
    graph.operator("SOFTMAX", [x], [y], beta=1.0)
    return y


def mixed(graph: Graph, rng: np.random.Generator) -> Tensor:
    x, z = graph.input(SHAPE, WIDE, X, 0), graph.input(SHAPE, np.int8, 0.1, 0)
    y = graph.tensor(SHAPE, WIDE, Y, 0)
    graph.operator("MUL", [x, z], [y])
    return y


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (conv(kind=np.int32), "its bias .* is int32: constants of int64 are known"),
        (conv(kind=None), "it has no bias, without which LiteRT has no kernel: add zeros"),
        (potent, "pot_scale_int16 and scales that are powers of two"),
        (softmax, "SOFTMAX .* is int16, and with 16x8 quantization ADD, AVERAGE_POOL_2D, .* done"),
        (mixed, "MUL .* int16 and int8, and only one type is taken|int16, int8"),
    ],
)
def test_what_is_not_known_is_one_line(case: Case, words: str) -> None:
    graph = Graph()
    y = case(graph, np.random.default_rng(0))
    with pytest.raises(LoadstoneError, match=words) as caught:
        from_bytes(graph.save([y]), "m.tflite")
    assert isinstance(caught.value, UnsupportedError)
    assert "\n" not in str(caught.value)
