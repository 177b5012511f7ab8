# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/pooling.py: every pool equals ONNX Runtime, and int8 ones stay on the
device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import check, single
from tests.onnx_builder import Graph, run

OVERHANGING = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}


@pytest.mark.parametrize(
    ("kind", "shape", "attributes"),
    [
        ("AveragePool", (1, 3, 8, 8), {**OVERHANGING, "count_include_pad": 1}),
        ("AveragePool", (1, 3, 8, 8), OVERHANGING),
        ("AveragePool", (2, 3, 9), {"kernel_shape": [3], "dilations": [2], "pads": [1, 2]}),
        ("AveragePool", (1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2], "auto_pad": "SAME_LOWER"}),
        ("AveragePool", (1, 2, 5, 6), {"kernel_shape": [2, 3], "auto_pad": "VALID"}),
        ("MaxPool", (1, 16, 7, 7), {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER"}),
        ("MaxPool", (1, 2, 7, 7), {"kernel_shape": [2, 2], "strides": [3, 2], "ceil_mode": 1}),
        ("MaxPool", (1, 2, 9), {"kernel_shape": [3], "dilations": [3], "auto_pad": "VALID"}),
        ("MaxPool", (1, 2, 5, 6, 7), {"kernel_shape": [2, 2, 3], "auto_pad": "SAME_UPPER"}),
        ("LpPool", (1, 2, 7, 8), {**OVERHANGING, "p": 3}),
        ("LpPool", (2, 2, 9), {"kernel_shape": [2], "p": 1}),
        ("LpPool", (1, 2, 5, 6, 4), {"kernel_shape": [2, 2, 3], "auto_pad": "SAME_UPPER"}),
        ("GlobalAveragePool", (2, 3, 7), {}),
        ("GlobalAveragePool", (1, 2, 3, 4, 5), {}),
        ("GlobalMaxPool", (1, 2, 3, 4, 5), {}),
        ("GlobalLpPool", (1, 2, 3, 4), {"p": 3}),
        ("GlobalLpPool", (1, 2, 3, 4, 5), {}),
    ],
)
def test_a_pool_equals_onnx_runtime(kind: str, shape: tuple[int, ...], attributes: Any) -> None:
    check(kind, [shape], opset=21, **attributes)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_the_places_of_the_largest(order: int, ceil_mode: int) -> None:
    """The first of many that are equal."""
    draw = np.random.default_rng(2).integers(-3, 3, (2, 3, 7, 6)).astype(np.float32)
    attributes = {**OVERHANGING, "ceil_mode": ceil_mode, "dilations": [1, 2]}
    check("MaxPool", [draw], outputs=2, storage_order=order, **attributes)


def test_elements_go_back_to_their_places() -> None:
    places = np.array([[[[5, 7], [13, 8]]]])
    check("MaxUnpool", [(1, 1, 2, 2), places], kernel_shape=[2, 2], strides=[2, 2])
    larger = np.array([1, 1, 5, 5])
    model = single(
        "MaxUnpool", [(1, 1, 2, 2), places], larger, shape=(1, 1, 5, 5), kernel_shape=[2, 2]
    )
    text = refusal(model, UnsupportedError)
    assert "its output_shape is [1, 1, 5, 5], and its kernel, strides and pads give" in text


def test_padding_that_runtimes_do_not_agree_on_is_refused() -> None:
    model = single("MaxPool", [(1, 1, 9)], kernel_shape=[3], dilations=[2], auto_pad="SAME_UPPER")
    text = refusal(model, UnsupportedError)
    assert "its auto_pad is SAME_UPPER with strides [1] and dilations [2]" in text


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq", "vtab-1x16x16"])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_pool_of_integers_stays_on_the_device(kind: str, target: str, tmp_path: Path) -> None:
    """Between convolutions: alone it would not be worth a transfer."""
    graph = Graph()
    x = graph.dequantize(graph.input((1, 16, 9, 9), np.int8), 0.5, 0)
    weights = graph.dequantize(graph.constant(np.ones((16, 16, 1, 1), np.int8)), 0.5, 0)
    y = graph.dequantize(graph.quantize(graph.node("Conv", x, weights), 0.5, 0), 0.5, 0)
    counted = {"count_include_pad": 1} if kind == "AveragePool" else {}
    pool = graph.node(kind, y, **OVERHANGING, **counted)
    z = graph.dequantize(graph.quantize(pool, 0.5, 0), 0.5, 0)
    end = graph.quantize(graph.node("Conv", z, weights), 0.5, 0)
    (tmp_path / "m.onnx").write_bytes(graph.save([(end, np.int8)], [(1, 16, 5, 5)]))
    found = compile(tmp_path / "m.onnx", target)
    assert not found.python_steps
    places = {row["kind"]: row["where"] for row in found.explain()}
    kind = {"MaxPool": "max_pool2d", "AveragePool": "average_pool2d"}[kind]
    assert places[f"real_{kind[-6:]}" if target.startswith("vtab") else kind] == "vta"
    data = np.random.default_rng(4).integers(-128, 128, (1, 16, 9, 9)).astype(np.int8)
    np.testing.assert_array_equal(
        found.run(data[None])[0][0], run((tmp_path / "m.onnx").read_bytes(), [data])[0]
    )
