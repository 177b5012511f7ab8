# SPDX-License-Identifier: Apache-2.0
"""prove/tflite/operators.py: which versions and how many inputs are read, and what of an operator
is refused; what each means is asked of LiteRT in test_read_tflite.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadstone.errors import UnsupportedError
from loadstone.prove.network import ModelTensor
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.tflite import operators
from loadstone.prove.tflite.file import TfliteModel, TfliteOperator
from loadstone.prove.tflite.graph import TfliteGraph
from tests.tflite_builder import Graph

Make = Callable[[Graph], Any]
#: Greatest version, fewest and most inputs.
LIMITS = {
    "ADD": (5, 2, 2), "ARG_MAX": (3, 2, 2), "AVERAGE_POOL_2D": (3, 1, 1), "BATCH_MATMUL": (4, 2, 2),
    "CONCATENATION": (4, 1, 1 << 16), "CONV_2D": (8, 2, 3), "DEPTHWISE_CONV_2D": (7, 2, 3),
    "DEQUANTIZE": (6, 1, 1), "EXPAND_DIMS": (1, 2, 2), "FULLY_CONNECTED": (13, 2, 3),
    "LEAKY_RELU": (2, 1, 1), "LOGISTIC": (3, 1, 1), "MAX_POOL_2D": (3, 1, 1), "MEAN": (3, 2, 2),
    "MUL": (7, 2, 2), "PAD": (4, 2, 2), "PADV2": (4, 3, 3), "QUANTIZE": (4, 1, 1),
    "RELU": (3, 1, 1), "RELU6": (3, 1, 1), "RELU_N1_TO_1": (1, 1, 1), "RESHAPE": (2, 1, 2),
    "RESIZE_BILINEAR": (4, 2, 2), "RESIZE_NEAREST_NEIGHBOR": (4, 2, 2), "SLICE": (6, 3, 3),
    "SOFTMAX": (3, 1, 1), "SQUEEZE": (2, 1, 1), "STRIDED_SLICE": (8, 4, 4), "SUB": (5, 2, 2),
    "TANH": (3, 1, 1), "TRANSPOSE": (6, 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("code", LIMITS)
def test_versions_and_inputs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version, fewest, most = LIMITS[code]
    read: list[TfliteOperator] = []
    known = operators._TAKEN
    taken = known[code]._replace(read=lambda _, operator: read.append(operator))
    monkeypatch.setitem(known, code, taken)
    graph = TfliteGraph(TfliteModel("net", (ModelTensor("x", (1,), "int8"),), (), (), ()))

    def tried(version: int, inputs: int, outputs: int = 1) -> int:
        names = (0,) * inputs, (0,) * outputs
        before = len(read)
        operators.read_operator(graph, TfliteOperator(0, code, version, *names, "options", {}))
        return len(read) - before

    for count in (fewest, most):
        assert tried(version, count) == tried(1, count) == 1
    with pytest.raises(UnsupportedError, match=f"version {version + 1}, the limit is {version}: "):
        tried(version + 1, fewest)
    for count, outputs in ((fewest - 1, 1), (most + 1, 1), (fewest, 0), (fewest, 2)):
        said = f"{count} inputs and {outputs} outputs: {fewest} to {most} and one are understood"
        with pytest.raises(UnsupportedError, match=said):
            tried(version, count, outputs)


def test_no_other_operators_are_read() -> None:
    assert set(LIMITS) == set(operators._TAKEN)


def test_operators_of_real_numbers_are_kept_by_name() -> None:
    graph = Graph()
    x, y = graph.input((4,), np.int8, 0.1, 0), graph.tensor((4,), np.int8, 0.1, 0)
    graph.operator("RELU", [x], [y])
    z, out = graph.tensor((4,), np.float32), graph.tensor((4,), np.float32)
    graph.operator("DEQUANTIZE", [y], [z])
    graph.operator("RELU", [z], [out])
    last = graph.tensor((2, 2), np.float32)
    graph.operator("RESHAPE", [out, graph.constant(np.array([2, 2], np.int32))], [last])
    kinds = [operator.kind for operator in read_tflite(graph.save([last]), "net").operators]
    assert kinds == ["table", "dequantize", "float:RELU", "float:RESHAPE"]


def of(
    code: str,
    shape: tuple[int, ...],
    made: tuple[int, ...],
    *constants: Any,
    x: tuple[Any, ...] = (np.int8, 0.1, 4),
    y: tuple[Any, ...] = (np.int8, 0.1, 4),
    **said: Any,
) -> Make:
    """An operator of one input, from a shape to another one, and constants; x, y: types."""

    def make(graph: Graph) -> Any:
        held = [graph.constant(np.asarray(some, np.int32)) for some in constants]
        read, out = graph.input(shape, *x), graph.tensor(made, *y)
        graph.operator(code, [read, *held], [out], **said)
        return out

    return make


def joined(*shapes: tuple[int, ...], made: tuple[int, ...], axis: int, **said: Any) -> Make:
    def make(graph: Graph) -> Any:
        parts = [graph.input(shape, np.int8, 0.1, 0) for shape in shapes]
        y = graph.tensor(made, np.int8, 0.1, 0)
        graph.operator("CONCATENATION", parts, [y], axis=axis, **said)
        return y

    return make


def padded(graph: Graph) -> Any:
    """With a level of another scale."""
    x, y = graph.input((2,), np.int8, 0.1, 4), graph.tensor((4,), np.int8, 0.1, 4)
    around = graph.constant(np.array([[1, 1]], np.int32))
    graph.operator("PADV2", [x, around, graph.constant(np.array([9], np.int8), 0.2, 4)], [y])
    return y


_POOL = {"padding": 1, "stride_h": 1, "stride_w": 1, "filter_height": 2, "filter_width": 2}
_OTHER, _REAL, _WIDE = (np.int8, 0.2, 4), (np.float32,), (np.int16, 0.1, 0)
_INT64 = (np.int64,)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (of("AVERAGE_POOL_2D", (1, 4, 4, 1), (1, 3, 3, 1), y=_OTHER, **_POOL), "different scales"),
        (of("AVERAGE_POOL_2D", (1, 4, 4, 1), (1, 3, 4, 1), **_POOL), r"gives \[1, 3, 3, 1\]"),
        (of("MAX_POOL_2D", (4, 4, 1), (3, 3, 1), **_POOL), r"a window of \[2, 2\] on \[4, 4, 1\]"),
        (of("MAX_POOL_2D", (1, 1, 4, 1), (1, 1, 3, 1), **_POOL), r"a window of \[2, 2\] on"),
        (of("MEAN", (2, 3), (2, 1), [2], keep_dims=True), r"has axes \[2\] of 2: axes of its"),
        (of("MEAN", (2, 3), (2, 1), [-3], keep_dims=True), r"has axes \[-3\] of 2: axes of its"),
        (of("MEAN", (2, 3), (2, 1), [1, 5], keep_dims=True), r"has axes \[1, 5\] of 2: axes of"),
        (of("MEAN", (2, 3), (2, 1), [1], keep_dims=False), r"shape \[2, 1\], and gives \[2\]"),
        (joined((1, 2), (1, 3), made=(1, 5), axis=2), "has axis 2 of 2 axes, or an activation"),
        (joined((1, 2), (1, 3), made=(1, 5), axis=-3), "has axis -3 of 2 axes, or an activation"),
        (joined((1, 2), (1, 3), made=(1, 5), axis=1, fused_activation_function=1), "has axis 1 of"),
        (joined((1, 2), (2, 3), made=(1, 5), axis=1), r"joins shapes \[\[1, 2\], \[2, 3\]\] along"),
        (joined((1, 2), (1, 3), made=(2, 2), axis=0), r"joins shapes \[\[1, 2\], \[1, 3\]\] along"),
        (joined((1, 2), (3,), made=(1, 5), axis=1), r"\[1, 5\], and gives \[1, 2\]"),
        (joined((1, 2), (1, 3), made=(1, 6), axis=1), r"\[1, 6\], and gives \[1, 5\]"),
        (of("RESHAPE", (2, 3), (5,), [5]), r"turns shape \[2, 3\] into \[5\]: sizes must be equal"),
        (of("TRANSPOSE", (2, 3), (3, 2), [1, 1]), r"has axes \[1, 1\] of 2: each axis once"),
        (of("TRANSPOSE", (2, 3), (2, 3), [1, 0]), r"shape \[2, 3\], and gives \[3, 2\]"),
        (of("PAD", (2,), (3,), [[1, -1]]), r"has paddings \[1, -1\] of 1 axes: two of each"),
        (of("PAD", (2,), (4,), [1, 1, 0]), r"has paddings \[1, 1, 0\] of 1 axes: two of each"),
        (of("PAD", (2,), (4,), [[1, 2]]), r"shape \[4\], and gives \[5\]"),
        (of("PAD", (2,), (4,), [[1, 1]], y=_OTHER), "moves levels between tensors of different"),
        (padded, "moves levels between tensors of different"),
        (of("SLICE", (4,), (2,), [1], [4]), r"has positions \[\[1\], \[4\]\] in \[4\]: pos"),
        (of("SLICE", (4,), (2,), [1], [3]), r"shape \[2\], and gives \[3\]"),
        (of("RESIZE_BILINEAR", (4, 4, 1), (2, 2, 1), [2, 2]), r"resizes \[4, 4, 1\] to \[2, 2\]"),
        (of("RESIZE_BILINEAR", (1, 4, 4, 1), (1, 2, 2, 1), [2]), r"resizes .* to \[2\]: rows and"),
        (of("RESIZE_BILINEAR", (1, 4, 4, 1), (1, 2, 0, 1), [2, 0]), r"resizes .* to \[2, 0\]: ro"),
        (of("RESIZE_BILINEAR", (1, 4, 4, 1), (1, 2, 3, 1), [2, 2]), r"and gives \[1, 2, 2, 1\]"),
        (of("SOFTMAX", (1, 4), (1, 4), beta=1.0), r"the output's scale 0.1: LiteRT knows 1/256"),
        (of("SOFTMAX", (1, 4), (1, 4), y=(np.int8, 1 / 256, 0), beta=1.0), "scale 0.00390625: Li"),
        (of("SOFTMAX", (1, 4), (4,), y=(np.int8, 1 / 256, -128), beta=1.0), r"and gives \[1, 4\]"),
        (of("ARG_MAX", (2, 3), (2,), [1, 0], y=_INT64), r"has axes \[1, 0\] of 2: one axis of its"),
        (of("ARG_MAX", (2, 3), (2,), 2, y=_INT64), r"has axes \[2\] of 2: one axis of its input"),
        (of("ARG_MAX", (2, 3), (2,), -3, y=_INT64), r"has axes \[-3\] of 2: one axis of its input"),
        (of("ARG_MAX", (2, 3), (3,), 1, y=_INT64), r"shape \[3\], and gives \[2\]"),
        (of("ARG_MAX", (2, 3), (2,), 1, y=_OTHER), "turns int8 into int8: int8 or uint8 to int32"),
        (of("ARG_MAX", (2, 3), (2,), 1, x=_WIDE, y=_INT64), "turns int16 into int64: int8 or uin"),
        (of("QUANTIZE", (4,), (4,), x=_REAL, y=_WIDE), "has levels of int16: int8 and uint8 of o"),
        (of("QUANTIZE", (4,), (4,), x=_REAL, y=(np.int8,)), "has levels of int8: int8 and uint8"),
        (of("QUANTIZE", (4,), (4,), x=_WIDE), "turns int16 into int8: float32, int8 and uint8 are"),
        (of("DEQUANTIZE", (4,), (4,), y=_OTHER), "turns int8 into int8: float32, int8 and uint8"),
        (of("QUANTIZE", (4,), (2, 2), x=_REAL), r"shape \[2, 2\], and gives \[4\]"),
        (of("RELU", (4,), (2, 2)), r"shape \[2, 2\], and gives \[4\]"),
        (of("TANH", (4,), (2, 2)), r"shape \[2, 2\], and gives \[4\]"),
        (of("STRIDED_SLICE", (4,), (2,), [0], [4], [2], ellipsis_mask=1), "has EllipsisMask=1: o"),
    ],
)
def test_what_is_not_understood_is_refused_by_one_line(make: Make, said: str) -> None:
    graph = Graph()
    with pytest.raises(UnsupportedError, match=said) as refused:
        read_tflite(graph.save([make(graph)]), "net.tflite")
    assert "\n" not in str(refused.value)
