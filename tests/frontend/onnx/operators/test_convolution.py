# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/operators/convolution.py: convolutions, also transposed, equal ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.errors import ModelError
from tests.frontend.onnx.models import refusal
from tests.frontend.onnx.operators.single import arrays, check, check_model, single
from tests.onnx_builder import Graph, run


def weights(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return (np.random.default_rng(7).integers(-9, 9, shape) / 4).astype(np.float32)


@pytest.mark.parametrize(
    ("sizes", "kernel", "attributes"),
    [
        ((9,), (3,), {"auto_pad": "SAME_LOWER", "dilations": [2], "strides": [2]}),
        ((8, 7), (3, 2), {"auto_pad": "SAME_UPPER", "dilations": [2, 3], "group": 2}),
        ((8, 7), (3, 3), {"auto_pad": "VALID", "strides": [2, 3], "kernel_shape": [3, 3]}),
        ((5, 6, 4), (2, 3, 1), {"pads": [1, 0, 0, 0, 2, 1], "dilations": [2, 1, 1]}),
    ],
)
def test_a_convolution(sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: Any) -> None:
    """ONNX Runtime has no auto_pad with dilations."""
    bias = weights(6)
    kernels = weights(6, 4 // attributes.get("group", 1), *kernel)
    model = single("Conv", [(2, 4, *sizes)], kernels, bias, **attributes)
    dilated = "SAME" in attributes.get("auto_pad", "")
    check_model(model, arrays([(2, 4, *sizes)]), by_reference=dilated, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "kernel", "attributes"),
    [
        ((3, 3), (3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
        ((3, 3), (3, 3), {"strides": [3, 2], "output_shape": [8, 6], "auto_pad": "SAME_UPPER"}),
        ((3, 4), (3, 2), {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 0, 0, 1]}),
        ((5,), (2,), {"strides": [3], "auto_pad": "SAME_UPPER", "group": 4}),
        ((5,), (4,), {"strides": [2], "auto_pad": "SAME_LOWER", "group": 2}),
        ((3, 2, 4), (2, 3, 2), {"dilations": [1, 2, 2], "strides": [2, 1, 3]}),
        (
            (4,),
            (3,),
            {"dilations": [3], "strides": [3], "output_padding": [2], "auto_pad": "VALID"},
        ),
    ],
)
def test_a_transposed_convolution(
    sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: Any
) -> None:
    kernels = weights(4, 8 // attributes.get("group", 1), *kernel)
    check("ConvTranspose", [(2, 4, *sizes)], kernels, weights(8), **attributes)


def test_a_kernel_that_is_not_that_of_the_weights_is_refused() -> None:
    model = single(
        "Conv", [(1, 4, 7, 8)], weights(6, 4, 3, 3), shape=(1, 6, 6, 7), kernel_shape=[2, 2]
    )
    assert "its kernel_shape is [2, 2] and its weights have [3, 3]" in refusal(model, ModelError)


@pytest.mark.parametrize("attributes", [{"output_padding": [1, 1]}, {"output_shape": [9, 9]}])
def test_a_transposed_convolution_of_integers_is_on_the_device(
    attributes: Any, tmp_path: Path
) -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((1, 16, 5, 5), np.int8), 0.5, 0)
    levels = np.random.default_rng(3).integers(-9, 9, (16, 16, 3, 3)).astype(np.int8)
    kernels = graph.dequantize(graph.constant(levels), 0.25, 0)
    y = graph.node("ConvTranspose", x, kernels, strides=[2, 2], pads=[1, 1, 1, 1], **attributes)
    model = graph.save([(graph.quantize(y, 8.0, 3), np.int8)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", "vtaq-1x16x16")
    assert {"conv2d": "vta"}.items() <= {r["kind"]: r["where"] for r in found.explain()}.items()
    data = np.random.default_rng(4).integers(-128, 128, (1, 16, 5, 5)).astype(np.int8)
    got = found.run(data[None])[0][0].astype(int)
    assert np.abs(got - run(model, [data])[0]).max() <= 1
