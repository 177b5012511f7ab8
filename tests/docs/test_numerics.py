# SPDX-License-Identifier: Apache-2.0
"""docs/numerics.md: every line of its table of kernels that disagree is so, and what is followed is
followed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from tests import onnx_builder, tflite_builder
from tests.conftest import ROOT
from tests.partition.patterns.test_reader import pair
from tests.tflite_builder import Padding, Tensor

TITLE = "## Where a framework's kernels disagree"
TARGET = "vtaq-1x16x16"
IMAGE = (1, 12, 12, 8)
SAMPLES = 6


def table() -> list[tuple[str, str]]:
    """(framework, operator) of every line."""
    text = (ROOT / "docs" / "numerics.md").read_text().partition(TITLE)[2].partition("\n## ")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    return [(cells[1].strip(), cells[2].strip()) for cells in rows[2:]]


# --- LiteRT ---------------------------------------------------------------------------------------
Maker = Callable[[tflite_builder.Graph, Tensor], Tensor]


def conv(kind: str, biases: Any = None, scale: float = 0.01, out: float = 1.3) -> Maker:
    def make(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
        random, channels = np.random.default_rng(1), 8
        deep, transposed = kind.startswith("DEPTHWISE"), kind.startswith("TRANSPOSE")
        shape, axis = ((1, 3, 3, 8), 3) if deep else ((8, 3, 3, 8), 0)
        scales, none = [scale * (k + 1) for k in range(channels)], [0] * channels
        values = random.integers(-127, 128, shape).astype(np.int8)
        weights = graph.constant(values, scale=scales, zero_point=none, axis=axis)
        size = 25 if transposed else 12
        y = graph.tensor((1, size, size, 8), np.int8, scale=out, zero_point=-3)
        if transposed:
            extents = graph.constant(np.array(y.shape, np.int32))
            options = {"padding": Padding.VALID, "stride_h": 2, "stride_w": 2}
            graph.operator(kind, [extents, weights, x], [y], **options)
            return y
        given = random.integers(-5000, 5000, channels) if biases is None else np.array(biases)
        own = [x.scale.item() * entry for entry in scales]
        bias = graph.constant(given.astype(np.int32), scale=own, zero_point=none)
        more = {"depth_multiplier": 1} if deep else {}
        same = {"padding": Padding.SAME, "stride_h": 1, "stride_w": 1}
        graph.operator(kind, [x, weights, bias], [y], **same, **more)
        return y

    return make


def dense(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
    random, depth = np.random.default_rng(1), IMAGE[-1] * IMAGE[-2]
    flat = graph.tensor((12, depth), np.int8, scale=0.05, zero_point=3)
    shape = graph.constant(np.array([12, depth], np.int32))
    graph.operator("RESHAPE", [x, shape], [flat], new_shape=[12, depth])
    values = random.integers(-127, 128, (24, depth)).astype(np.int8)
    weights = graph.constant(values, scale=0.01, zero_point=0)
    bias = graph.constant(random.integers(-5000, 5000, 24).astype(np.int32), scale=0.0005)
    y = graph.tensor((12, 24), np.int8, scale=0.4, zero_point=-3)
    graph.operator("FULLY_CONNECTED", [flat, weights, bias], [y])
    return y


def unary(kind: str, scale: float, **options: Any) -> Maker:
    def make(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
        y = graph.tensor(IMAGE, np.int8, scale=scale, zero_point=-10)
        graph.operator(kind, [x], [y], **options)
        return y

    return make


def mul(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
    values = np.random.default_rng(1).integers(-128, 128, IMAGE).astype(np.int8)
    other = graph.constant(values, scale=0.03, zero_point=-8)
    y = graph.tensor(IMAGE, np.int8, scale=0.07, zero_point=-3)
    graph.operator("MUL", [x, other], [y])
    return y


def resize(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
    size = graph.constant(np.array([23, 27], np.int32))
    y = graph.tensor((1, 23, 27, 8), np.int8, scale=0.05, zero_point=3)
    graph.operator("RESIZE_BILINEAR", [x, size], [y], half_pixel_centers=True)
    return y


def summed(graph: tflite_builder.Graph, x: Tensor) -> Tensor:
    axes = graph.constant(np.array([1, 2], np.int32))
    y = graph.tensor((1, 8), np.int8, scale=3.0, zero_point=-3)
    graph.operator("SUM", [x, axes], [y], keep_dims=False)
    return y


def compared(folder: Path, make: Maker, ours: bool = True) -> int:
    """What LiteRT's kernels disagree by at most; Loadstone's integers are the reference's."""
    graph = tflite_builder.Graph()
    y = make(graph, graph.input(IMAGE, np.int8, scale=0.05, zero_point=3))
    data = graph.save(outputs=[y])
    samples = np.random.default_rng(2).integers(-128, 128, (SAMPLES, *IMAGE)).astype(np.int8)
    plain, fast = (
        np.stack([tflite_builder.run(data, [x], reference=reference)[0] for x in samples])
        for reference in (True, False)
    )
    (folder / "m.tflite").write_bytes(data)
    if ours:
        found = compile(folder / "m.tflite", TARGET).run(samples)[0]
        np.testing.assert_array_equal(found, plain)
    return int(np.abs(plain.astype(int) - fast).max())


def layers_of_litert(folder: Path) -> None:
    kinds = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
    apart = [compared(folder, conv(kind)) for kind in kinds]
    assert max(*apart, compared(folder, dense)) == 1


def mul_of_litert(folder: Path) -> None:
    assert compared(folder, mul) == 1


def leaky_relu_of_litert(folder: Path) -> None:
    assert compared(folder, unary("LEAKY_RELU", 0.04, alpha=0.3)) == 1


def resize_of_litert(folder: Path) -> None:
    assert compared(folder, resize) == 2


def sum_of_litert(folder: Path) -> None:
    assert compared(folder, summed, ours=False) > 30
    with pytest.raises(UnsupportedError, match="SUM"):
        compile(folder / "m.tflite", TARGET)


def saturated_of_litert(folder: Path) -> None:
    ends = [2**31 - 1, -(2**31), 7, -5] * 2
    assert compared(folder, conv("CONV_2D", ends, 1e-9, 0.01)) == 0


# --- ONNX Runtime ---------------------------------------------------------------------------------
def onnx_compared(folder: Path, data: bytes, samples: Any, atol: float = 0) -> float:
    """What optimised kernels move the result by at most; Loadstone's is that of the plain ones."""
    (folder / "m.onnx").write_bytes(data)
    plain, fast = (
        np.stack([onnx_builder.run(data, [x], optimize=optimize)[0] for x in samples])
        for optimize in (False, True)
    )
    found = compile(folder / "m.onnx", TARGET).run(samples)[0]
    np.testing.assert_allclose(found, plain, rtol=0, atol=atol)
    return float(np.abs(plain.astype(float) - fast).max())


def saturated_of_onnx(folder: Path) -> None:
    graph, random = onnx_builder.Graph(), np.random.default_rng(3)
    x = graph.dequantize(graph.input((1, 8, 12, 12), np.uint8), 0.05, 130, np.uint8)
    values = graph.constant(random.integers(-127, 128, (8, 8, 3, 3)), np.int8)
    bias = graph.constant([2**31 - 1] * 8, np.int32)
    inputs = [graph.dequantize(values, 1e-9, 0), graph.dequantize(bias, 5e-11, 0, np.int32)]
    y = graph.quantize(graph.node("Conv", x, *inputs), 0.01, 128, np.uint8)
    data = graph.save([(y, np.uint8)])
    samples = random.integers(0, 256, (SAMPLES, 1, 8, 12, 12)).astype(np.uint8)
    assert onnx_compared(folder, data, samples) > 20


def mul_of_onnx(folder: Path) -> None:
    graph, random = onnx_builder.Graph(), np.random.default_rng(3)
    x = graph.dequantize(graph.input((1, 8, 12, 12), np.int8), 0.05, 3)
    other = graph.constant(random.integers(-128, 128, (1, 8, 12, 12)), np.int8)
    y = graph.quantize(graph.node("Mul", x, graph.dequantize(other, 0.03, -8)), 0.07, 1)
    samples = random.integers(-128, 128, (SAMPLES, 1, 8, 12, 12)).astype(np.int8)
    assert onnx_compared(folder, graph.save([(y, np.int8)]), samples) == 1


def wide_of_onnx(folder: Path) -> None:
    graph, random, step = onnx_builder.Graph(), np.random.default_rng(3), 7e-4
    x = pair(graph, graph.input((1, 6, 8, 8), np.float32), 1e-4, np.int16)
    values = graph.constant(random.integers(-127, 128, (8, 6, 3, 3)), np.int8)
    y = pair(graph, graph.node("Conv", x, graph.dequantize(values, 0.01, 0)), step, np.int16)
    data = graph.save([(y, np.float32)], opset=21, ir=10)
    samples = random.normal(0, 1, (SAMPLES, 1, 6, 8, 8)).astype(np.float32)
    assert onnx_compared(folder, data, samples, 1.01 * step) <= 1.01 * step


ROWS: dict[tuple[str, str], Callable[[Path], None]] = {
    (
        "LiteRT",
        "CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV",
    ): layers_of_litert,
    ("LiteRT", "MUL"): mul_of_litert,
    ("LiteRT", "LEAKY_RELU"): leaky_relu_of_litert,
    ("LiteRT", "RESIZE_BILINEAR"): resize_of_litert,
    ("LiteRT", "SUM of int8"): sum_of_litert,
    ("LiteRT", "CONV_2D whose bias is saturated"): saturated_of_litert,
    ("ONNX Runtime", "Conv whose bias is saturated"): saturated_of_onnx,
    ("ONNX Runtime", "Mul"): mul_of_onnx,
    ("ONNX Runtime", "Conv of 16-bit activations"): wide_of_onnx,
}


def test_every_line_has_its_case() -> None:
    assert table() == list(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[" ".join(row) for row in ROWS])
def test_the_line_is_so(row: tuple[str, str], tmp_path: Path) -> None:
    ROWS[row](tmp_path)
