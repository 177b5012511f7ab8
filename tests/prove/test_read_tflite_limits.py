# SPDX-License-Identifier: Apache-2.0
"""prove/read_tflite.py: what is not understood is refused by one line, and what is nearly that is
read as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import ModelError, UnsupportedError
from loadstone.prove.read_tflite import read_tflite
from tests.repeat import times
from tests.tflite_builder import Graph, Padding

Make = Callable[[Graph], Any]


def _convolution(
    graph: Graph,
    *,
    zero: int = 0,
    shape: tuple[int, ...] = (1, 4, 4, 2),
    weights: tuple[int, ...] = (2, 1, 1, 3),
    code: str = "CONV_2D",
    dtype: type[np.integer[Any]] = np.int8,
    **options: Any,
) -> Any:
    axis = 3 if code.startswith("DEPTH") else 0
    x = graph.input((1, 4, 4, 3), dtype, 0.1, 1)
    n = weights[axis]
    w = graph.constant(np.ones(weights, dtype), [0.1 + k for k in range(n)], [zero] * n, axis=axis)
    b = graph.constant(np.zeros(n, np.int32), 0.01)
    y = graph.tensor(shape, dtype, 0.1, 1)
    fields = {"padding": Padding.VALID, "stride_h": 1, "stride_w": 1}
    fields |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    fields |= {"depth_multiplier": 1} if axis else {}
    graph.operator(code, [x, w, b], [y], **(fields | options))
    return y


def _dense_of_int16(graph: Graph) -> Any:
    x = graph.input((1, 4), np.int16, 0.1, 0)
    w = graph.constant(np.ones((2, 4), np.int8), 0.1)
    y = graph.tensor((1, 2), np.int16, 0.1, 0)
    graph.operator("FULLY_CONNECTED", [x, w], [y])
    return y


def _concat_of_scales(graph: Graph) -> Any:
    parts = [graph.input((1, 4), np.int8, scale, 0) for scale in (0.1, 0.2)]
    y = graph.tensor((1, 8), np.int8, 0.1, 0)
    graph.operator("CONCATENATION", parts, [y], axis=1)
    return y


def _unknown(graph: Graph) -> Any:
    x, y = graph.input((4, 4), np.int8, 0.1, 0), graph.tensor((4, 4), np.int8, 0.1, 0)
    graph.operator("CUMSUM", [x, graph.constant(np.array(0, np.int32))], [y])
    return y


def _float(graph: Graph) -> Any:
    x, y = graph.input((4,), np.float32), graph.tensor((4,), np.float32)
    graph.operator("RELU", [x], [y])
    return y


def _dense(graph: Graph, weights: Any, *quantization: Any, bias: Any = None, **axis: int) -> Any:
    """weights: (2, 4), of a layer that has four inputs and two outputs."""
    x, y = graph.input((1, 4), np.int8, 0.1, 1), graph.tensor((1, 2), np.int8, 0.1, 1)
    inputs = [x, graph.constant(weights, *quantization, **axis)]
    graph.operator(
        "FULLY_CONNECTED", inputs + ([] if bias is None else [graph.constant(bias)]), [y]
    )
    return y


def _sum(graph: Graph, *operands: tuple[Any, ...], shape: tuple[int, ...] = (1, 4)) -> Any:
    """operands: shape, type, scales, zero points."""
    y = graph.tensor(shape, np.int8, 0.1, 0)
    graph.operator("ADD", [graph.input(*operand) for operand in operands], [y])
    return y


def _mean_over(graph: Graph, axes: Any) -> Any:
    """axes: an array, or None for an input."""
    x, y = graph.input((1, 4), np.int8, 0.1, 0), graph.tensor((1, 1), np.int8, 0.1, 0)
    held = graph.input((1,), np.int32) if axes is None else graph.constant(axes)
    graph.operator("MEAN", [x, held], [y], keep_dims=True)
    return y


def _resize(graph: Graph, kind: str) -> Any:
    x, y = graph.input((1, 5, 5, 1), np.int8, 0.1, 0), graph.tensor((1, 2, 2, 1), np.int8, 0.1, 0)
    size = graph.constant(np.array([2, 2], np.int32))
    graph.operator(f"RESIZE_{kind}", [x, size], [y], align_corners=True, half_pixel_centers=True)
    return y


def _product(graph: Graph, left: tuple[int, ...], right: tuple[int, ...], *out: int) -> Any:
    tensors = [graph.input(shape, np.int8, 0.1, 0) for shape in (left, right)]
    y = graph.tensor(out, np.int8, 0.1, 0)
    graph.operator("BATCH_MATMUL", tensors, [y], adj_x=False, adj_y=False)
    return y


def _rows(graph: Graph, keeps: bool, *out: int) -> Any:
    x, y = graph.input((2, 3, 4), np.int8, 0.1, 1), graph.tensor(out, np.int8, 0.1, 1)
    graph.operator("FULLY_CONNECTED", [x, graph.constant(_W, 0.1)], [y], keep_num_dims=keeps)
    return y


def _resize_of_ten_bits(graph: Graph, *sizes: int) -> Any:
    """Rows and columns of the input, and of the output: steps are rounded up to 1/1024."""
    x = graph.input((1, *sizes[:2], 1), np.int8, 0.1, 0)
    y = graph.tensor((1, *sizes[2:], 1), np.int8, 0.1, 0)
    size = graph.constant(np.array(sizes[2:], np.int32))
    said = {"align_corners": False, "half_pixel_centers": False}
    graph.operator("RESIZE_BILINEAR", [x, size], [y], **said)
    return y


def _real_numbers(graph: Graph) -> Any:
    """Levels that become real numbers, and nothing else."""
    x, y = graph.input((4,), np.int8, 0.1, 0), graph.tensor((4,), np.float32)
    graph.operator("DEQUANTIZE", [x], [y])
    z = graph.tensor((4,), np.float32)
    graph.operator("RELU", [y], [z])
    return z


_LEVELS = (1, 4), np.int8, 0.1, 0
_W = np.ones((2, 4), np.int8)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_unknown, r'CUMSUM \(operator 0, output "t\d"\) is not known: a proof knows ADD, '),
        (_float, "no operator computes on int8 or uint8: a proof compares integers"),
        (_real_numbers, "no operator computes on int8 or uint8: a proof compares integers"),
        (lambda g: _sum(g, _LEVELS, ((1, 4), np.uint8, 0.1, 0)), "has tensors of int8, uint8: ten"),
        (
            lambda g: _sum(g, _LEVELS, ((1, 3), np.int8, 0.1, 0)),
            r"shapes \[1, 4\] and \[1, 3\]: th",
        ),
        (
            lambda g: _sum(g, _LEVELS, ((4,), np.int8, [0.1] * 4, [0] * 4)),
            "with 4 scales: one is",
        ),
        (lambda g: _mean_over(g, None), "has input 1 that is no constant: make it one"),
        (lambda g: _mean_over(g, np.array([1], np.uint8)), "has input 1 of uint8: int32 is"),
        (_dense_of_int16, "has tensors of int16: tensors of int8 alone or of uint8 alone"),
        (_concat_of_scales, "moves levels between tensors of different scales"),
        (lambda g: _convolution(g, zero=1), "has int8 weights with a zero point"),
        (
            lambda g: _convolution(g, weights=(2, 1, 1, 2)),
            r"weights of shape \[2, 1, 1, 2\] .* whole",
        ),
        (
            lambda g: _convolution(g, weights=(2, 1, 1, 1)),
            r"weights of shape \[2, 1, 1, 1\] .* whole",
        ),
        (
            lambda g: _convolution(g, weights=(2, 1, 1, 4)),
            r"weights of shape \[2, 1, 1, 4\] .* whole",
        ),
        (
            lambda g: _convolution(g, dtype=np.uint8),
            "has uint8 activations and a scale for each ch",
        ),
        (
            lambda g: _resize(g, "BILINEAR"),
            "aligns corners and takes centers of half a pixel: LiteRT",
        ),
        (
            lambda g: _resize(g, "NEAREST_NEIGHBOR"),
            "aligns corners and takes centers of half a pix",
        ),
        (
            lambda g: _product(g, (3, 4), (5, 6), 3, 6),
            r"multiplies \[3, 4\] and \[5, 6\]: matrices",
        ),
        (lambda g: _product(g, (4,), (4, 6), 1, 6), r"multiplies \[4\] and \[4, 6\]: matrices"),
        (lambda g: _product(g, (3, 4), (4,), 3, 1), r"multiplies \[3, 4\] and \[4\]: matrices"),
        (lambda g: _product(g, (3, 4), (4, 6), 6, 3), r"shape \[6, 3\], and gives \[3, 6\]"),
        (lambda g: _rows(g, True, 6, 2), r"shape \[6, 2\], and gives \[2, 3, 2\]"),
        (lambda g: _rows(g, False, 2, 3, 2), r"shape \[2, 3, 2\], and gives \[6, 2\]"),
        (lambda g: _resize_of_ten_bits(g, 33, 3, 500, 3), "LiteRT reads beyond the last row"),
        (lambda g: _resize_of_ten_bits(g, 3, 33, 3, 500), "LiteRT reads beyond the last row"),
        (lambda g: _dense(g, _W, 0.1, 1), "has int8 weights with a zero point"),
        (lambda g: _dense(g, _W, [0.1, 0.2], [0, 1], axis=0), "has int8 weights with a zero point"),
        (lambda g: _dense(g, _W[..., None], 0.1), r"has weights of shape \[2, 4, 1\]: 2 axes are"),
        (lambda g: _dense(g, _W), "has weights of int8: quantized int8 and uint8 are understood"),
        (lambda g: _dense(g, _W.astype(np.int16), 0.1), "has weights of int16: quantized int8 and"),
        (lambda g: _dense(g, _W, [0.1] * 4, [0] * 4, axis=1), "has scales along axis 1 of its wei"),
        (
            lambda g: _dense(g, _W, 0.1, bias=np.zeros(3, np.int32)),
            r"a bias of int32 and shape \[3",
        ),
        (
            lambda g: _dense(g, _W, 0.1, bias=np.zeros(2, np.int64)),
            r"a bias of int64 and shape \[2",
        ),
        (
            lambda g: _dense(g, np.zeros((2, 3), np.int8), 0.1),
            r"has 3 weights a channel for \[1, 4",
        ),
        (lambda g: _convolution(g, shape=(1, 3, 4, 2)), r"shape \[1, 3, 4, 2\], and gives \[1, 4"),
        (lambda g: _convolution(g, stride_h=0), "a stride, a dilation or a padding that means"),
        (lambda g: _convolution(g, fused_activation_function=4), "has the fused activation 4"),
    ],
)
def test_what_is_not_understood_is_refused_by_one_line(make: Make, said: str) -> None:
    graph = Graph()
    model = graph.save([make(graph)])
    kind = ModelError if said.startswith("no operator") else UnsupportedError
    with pytest.raises(kind, match=said) as refused:
        read_tflite(model, "net.tflite")
    assert str(refused.value).startswith("net.tflite: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "kind", "weights"),
    [("CONV_2D", "conv2d", (3, 1, 1, 3)), ("DEPTHWISE_CONV_2D", "depthwise_conv2d", (1, 1, 1, 3))],
)
def test_convolutions_have_their_kind(code: str, kind: str, weights: tuple[int, ...]) -> None:
    graph = Graph()
    made = _convolution(graph, code=code, weights=weights, shape=(1, 4, 4, 3))
    (operator,) = read_tflite(graph.save([made]), "net").operators
    assert operator.kind == kind


def test_scales_of_weights_lie_along_their_first_axis() -> None:
    for quantization, axis in (((0.1, 0), None), (([0.1, 0.2], [0, 0]), 0)):
        graph = Graph()
        network = read_tflite(graph.save([_dense(graph, _W, *quantization, axis=0)]), "dense")
        (operator,) = network.operators
        assert network.tensors[operator.inputs[1]].axis == axis


def test_a_resize_whose_steps_are_rounded_down_is_read() -> None:
    graph = Graph()
    network = read_tflite(graph.save([_resize_of_ten_bits(graph, 33, 33, 510, 510)]), "resize")
    assert [operator.kind for operator in network.operators] == ["resize_bilinear"]


def test_a_later_version_of_an_operator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_versions(), "CONV_2D", 99)
    graph = Graph()
    with pytest.raises(UnsupportedError, match="has version 99, the limit is 8"):
        read_tflite(graph.save([_convolution(graph)]), "net.tflite")


def _versions() -> dict[str, int]:
    from tests import tflite_builder

    found: dict[str, int] = vars(tflite_builder)["_VERSIONS"]
    return found


@pytest.mark.parametrize("seed", range(times(60, 3000)))
def test_a_spoilt_file_is_refused_and_never_a_traceback(seed: int) -> None:
    graph = Graph()
    data = bytearray(graph.save([_convolution(graph)]))
    rng = np.random.default_rng(seed)
    for place in rng.integers(8, len(data), rng.integers(1, 5)):
        data[place] = rng.integers(0, 256)
    try:
        read_tflite(bytes(data), "spoilt")
    except ModelError as refused:  # UnsupportedError is one
        said = str(refused)
    else:
        return
    assert re.match(r"spoilt: ", said)
    assert "\n" not in said


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(ModelError, match=r"not a TFLite file \(the identifier at byte 4 is b''"):
        read_tflite(b"PK", "net.zip")
