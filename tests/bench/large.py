# SPDX-License-Identifier: Apache-2.0
"""Two networks of sizes that people deploy, built here with random weights: ResNet-50 in int8, and
YOLOv8n in float.

In:   nothing.
Out:  the bytes of ONNX files.
Next: compiler.py compiles the one, quantization.py quantizes the other.
"""

from __future__ import annotations

import numpy as np

from tests.onnx_builder import Graph

__all__ = ["resnet50", "yolov8n"]

#: Blocks and inner channels of ResNet-50's four stages.
_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
#: Scale of all its tensors: in quantized steps a random network stays within its range.
_SCALE = 0.05


def resnet50() -> bytes:
    """25.5 M parameters, 4.1 G multiply-accumulates at 224 x 224, QDQ, a scale per channel."""
    rng = np.random.default_rng(50)
    graph = Graph()

    def real(x: str) -> str:
        return graph.dequantize(x, _SCALE, 0)

    def conv(
        x: str, inputs: int, outputs: int, size: int, stride: int = 1, relu: bool = True
    ) -> str:
        integers = rng.integers(-127, 128, (outputs, inputs, size, size), np.int8)
        scales = rng.uniform(0.5, 1.5, outputs) / (64 * np.sqrt(inputs * size * size))
        weights = graph.dequantize(
            graph.constant(integers), scales.astype(np.float32), np.zeros(outputs, np.int8), axis=0
        )
        bias = graph.constant(rng.normal(0, 0.1, outputs), np.float32)
        pads = [size // 2] * 4
        made = graph.node("Conv", real(x), weights, bias, strides=[stride] * 2, pads=pads)
        return graph.quantize(graph.node("Relu", made) if relu else made, _SCALE, 0)

    x = conv(graph.input((1, 3, 224, 224), np.int8), 3, 64, 7, 2)
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    x, channels = graph.quantize(graph.node("MaxPool", real(x), **pool), _SCALE, 0), 64
    for stage, (blocks, inner) in enumerate(_STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = conv(x, channels, inner, 1)
            y = conv(y, inner, inner, 3, stride)
            y = conv(y, inner, 4 * inner, 1, relu=False)
            side = x if block else conv(x, channels, 4 * inner, 1, stride, relu=False)
            total = graph.node("Relu", graph.node("Add", real(y), real(side)))
            x, channels = graph.quantize(total, _SCALE, 0), 4 * inner
    mean = graph.quantize(graph.node("GlobalAveragePool", real(x)), _SCALE, 0)
    flat = graph.node("Flatten", real(mean))
    integers = rng.integers(-127, 128, (channels, 1000), np.int8)
    weights = graph.dequantize(graph.constant(integers), 0.0005, 0)
    scores = graph.quantize(graph.node("MatMul", flat, weights), _SCALE, 0)
    return graph.save([(scores, np.int8)])


def yolov8n(size: int = 640, gain: float = 1.0) -> bytes:
    """3.2 M parameters, in float32: backbone, neck, and three heads as they stand before boxes are
    decoded. size: of the image. gain: of the weights: at 1 SiLU makes what it gets ever smaller, at
    1.8 tensors stay as large as they were."""
    rng = np.random.default_rng(8)
    graph = Graph()

    def plain(x: str, inputs: int, outputs: int, taps: int, stride: int = 1) -> str:
        weights = rng.normal(0, gain / np.sqrt(inputs * taps * taps), (outputs, inputs, taps, taps))
        bias = graph.constant(rng.normal(0, 0.1, outputs), np.float32)
        pads = [taps // 2] * 4
        made = graph.constant(weights, np.float32)
        return graph.node("Conv", x, made, bias, strides=[stride] * 2, pads=pads)

    def conv(x: str, inputs: int, outputs: int, taps: int = 3, stride: int = 1) -> str:
        made = plain(x, inputs, outputs, taps, stride)
        return graph.node("Mul", made, graph.node("Sigmoid", made))

    def sliced(x: str, begin: int, end: int) -> str:
        ends = [graph.constant(np.array([entry], np.int64)) for entry in (begin, end, 1)]
        return graph.node("Slice", x, *ends)

    def c2f(x: str, inputs: int, outputs: int, count: int, *, shortcut: bool) -> str:
        half, made = outputs // 2, conv(x, inputs, outputs, 1)
        parts = [sliced(made, 0, half), sliced(made, half, outputs)]
        for _ in range(count):
            y = conv(conv(parts[-1], half, half), half, half)
            parts.append(graph.node("Add", parts[-1], y) if shortcut else y)
        return conv(graph.node("Concat", *parts, axis=1), half * (2 + count), outputs, 1)

    def sppf(x: str, channels: int) -> str:
        parts = [conv(x, channels, channels // 2, 1)]
        for _ in range(3):
            window = {"kernel_shape": [5, 5], "strides": [1, 1], "pads": [2] * 4}
            parts.append(graph.node("MaxPool", parts[-1], **window))
        return conv(graph.node("Concat", *parts, axis=1), 2 * channels, channels, 1)

    def larger(x: str) -> str:
        scales = graph.constant(np.array([1, 1, 2, 2], np.float32))
        mode = {"mode": "nearest", "nearest_mode": "floor"}
        transformation = {"coordinate_transformation_mode": "asymmetric"}
        return graph.node("Resize", x, "", scales, **mode, **transformation)

    def head(x: str, channels: int, inner: int, outputs: int) -> str:
        return plain(conv(conv(x, channels, inner), inner, inner), inner, outputs, 1)

    x = conv(conv(graph.input((1, 3, size, size), np.float32), 3, 16, 3, 2), 16, 32, 3, 2)
    x = conv(c2f(x, 32, 32, 1, shortcut=True), 32, 64, 3, 2)
    eighth = c2f(x, 64, 64, 2, shortcut=True)
    sixteenth = c2f(conv(eighth, 64, 128, 3, 2), 128, 128, 2, shortcut=True)
    last = sppf(c2f(conv(sixteenth, 128, 256, 3, 2), 256, 256, 1, shortcut=True), 256)
    middle = graph.node("Concat", larger(last), sixteenth, axis=1)
    middle = c2f(middle, 384, 128, 1, shortcut=False)
    fine = c2f(graph.node("Concat", larger(middle), eighth, axis=1), 192, 64, 1, shortcut=False)
    joined = graph.node("Concat", conv(fine, 64, 64, 3, 2), middle, axis=1)
    middle = c2f(joined, 192, 128, 1, shortcut=False)
    joined = graph.node("Concat", conv(middle, 128, 128, 3, 2), last, axis=1)
    coarse = c2f(joined, 384, 256, 1, shortcut=False)
    levels = ((fine, 64), (middle, 128), (coarse, 256))
    heads = [
        (head(level, channels, inner, outputs), np.float32)
        for level, channels in levels
        for inner, outputs in ((64, 64), (80, 80))
    ]
    return graph.save(heads)
