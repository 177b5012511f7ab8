# SPDX-License-Identifier: Apache-2.0
"""Networks with an operator in the middle that no accelerator takes, and what a host keeps of them.

In:   nothing.
Out:  `onnx_with_sine`: convolution, sine of real numbers, convolution, as ONNX, and `images` for
      it; `tflite_with`: the same with any operator of one input, as TFLite.
Next: the tests of each host: two artifacts, and the host's own sine between them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests import tflite_builder
from tests.onnx_builder import Graph

__all__ = ["images", "onnx_with_sine", "tflite_with"]

SHAPE = (1, 8, 6, 6)


def onnx_with_sine(seed: int = 0) -> bytes:
    """int8 to int8; channels in the middle are 16."""
    random = np.random.default_rng(seed)
    graph = Graph()
    x = graph.input(SHAPE, np.int8)
    real = graph.dequantize(x, 0.05, 3)
    for channels in (16, 8):
        before = SHAPE[1] if channels == 16 else 16
        weights = random.integers(-127, 128, (channels, before, 3, 3)).astype(np.int8)
        scale = np.float32(0.01)
        kernel = graph.dequantize(graph.constant(weights), scale, 0)
        bias = graph.dequantize(
            graph.constant(random.integers(-2000, 2000, channels).astype(np.int32)),
            np.float32((0.05 if channels == 16 else 0.008) * 0.01),
            np.int32(0),
            np.int32,
        )
        y = graph.node("Conv", real, kernel, bias, pads=[1, 1, 1, 1])
        quantized = graph.quantize(y, 0.1, -4)
        real = graph.dequantize(quantized, 0.1, -4)
        if channels == 16:
            # not the same function of every element, which would be a table
            shifts = random.normal(size=(1, 16, 6, 6)).astype(np.float32)
            moved = graph.node("Add", real, graph.constant(shifts))
            middle = graph.quantize(graph.node("Sin", moved), 0.008, 0)
            real = graph.dequantize(middle, 0.008, 0)
    return graph.save([(quantized, np.int8)], [SHAPE])


def images(count: int, seed: int = 1) -> NDArray[np.int8]:
    """(count, *SHAPE)."""
    random = np.random.default_rng(seed)
    return random.integers(-128, 128, (count, *SHAPE)).astype(np.int8)


def tflite_with(middle: str, seed: int = 0) -> bytes:
    """Convolution, a float operator between DEQUANTIZE and QUANTIZE, convolution, as TFLite: int8
    to int8, channels last."""
    random = np.random.default_rng(seed)
    graph = tflite_builder.Graph()
    x = graph.input((1, 6, 6, 8), np.int8, 0.05, 3)
    for channels in (16, 8):
        before = x.shape[-1]
        w = graph.constant(
            random.integers(-127, 128, (channels, 3, 3, before)).astype(np.int8),
            np.linspace(0.008, 0.01, channels),
            np.zeros(channels, np.int64),
        )
        bias = graph.constant(
            random.integers(-2000, 2000, channels).astype(np.int32),
            x.scale[0] * w.scale,
            np.zeros(channels, np.int64),
        )
        y = graph.tensor((1, 6, 6, channels), np.int8, 0.1, -4)
        options = {"padding": tflite_builder.Padding.SAME, "stride_h": 1, "stride_w": 1}
        graph.operator(
            "CONV_2D", [x, w, bias], [y], **options, dilation_h_factor=1, dilation_w_factor=1
        )
        x = y
        if channels == 16:
            real, out = (graph.tensor(y.shape, np.float32) for _ in range(2))
            graph.operator("DEQUANTIZE", [y], [real])
            graph.operator(middle, [real], [out])
            x = graph.tensor(y.shape, np.int8, 0.05, 0)
            graph.operator("QUANTIZE", [out], [x])
    return graph.save([x])
