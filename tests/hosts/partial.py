"""Networks with an operator in the middle that no accelerator takes, and what a host keeps of them.

In:   nothing.
Out:  `onnx_with_sine`: convolution, sine of real numbers, convolution, as ONNX; `images` for it.
Next: the tests of each host: two artifacts, and the host's own sine between them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.onnx_builder import Graph

__all__ = ["images", "onnx_with_sine"]

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
            middle = graph.quantize(graph.node("Sin", real), 0.008, 0)
            real = graph.dequantize(middle, 0.008, 0)
    return graph.save([(quantized, np.int8)], [SHAPE])


def images(count: int, seed: int = 1) -> NDArray[np.int8]:
    """(count, *SHAPE)."""
    random = np.random.default_rng(seed)
    return random.integers(-128, 128, (count, *SHAPE)).astype(np.int8)
