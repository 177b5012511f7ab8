# SPDX-License-Identifier: Apache-2.0
"""ResNet-18's ten distinct 3x3 and 1x1 convolutions, each as an ONNX file of one quantized layer.

In:   a layer's name, and how its file rounds.
Out:  LAYERS, how often the network has each, and `onnx_file` for one of them: QDQ, int8, ReLU, with
      weights from a seed.
Next: tests/vta/region/test_resnet18.py checks their integers against ONNX Runtime's;
      bench/resnet18.py counts their cycles on VTA as it is.

    ties to even    every scale a power of two, the bias int32 at the accumulator's scale: what
                    `loadstone quantize --scheme pow2` writes
    half up         the same, and half a step of the accumulator in each bias: no sum is a tie
    any scale       a weight scale for every channel, as quantizers choose them
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from tests.onnx_builder import Graph

__all__ = ["LAYERS", "Rounds", "macs", "onnx_file"]

#: name -> (size, input channels, output channels, kernel, stride), times in the network.
LAYERS = {
    "C2": ((56, 64, 64, 3, 1), 4),
    "C3": ((56, 64, 128, 3, 2), 1),
    "C4": ((56, 64, 128, 1, 2), 1),
    "C5": ((28, 128, 128, 3, 1), 3),
    "C6": ((28, 128, 256, 3, 2), 1),
    "C7": ((28, 128, 256, 1, 2), 1),
    "C8": ((14, 256, 256, 3, 1), 3),
    "C9": ((14, 256, 512, 3, 2), 1),
    "C10": ((14, 256, 512, 1, 2), 1),
    "C11": ((7, 512, 512, 3, 1), 3),
}


class Rounds(Enum):
    """How a layer's file rounds sums to int8."""

    EVEN = "ties to even"
    UP = "half up"
    ANY = "any scale"


def onnx_file(name: str, rounds: Rounds, seed: int = 0) -> bytes:
    """One layer: convolution, bias, ReLU, between dequantize and quantize."""
    (size, channels, outputs, kernel, stride), _ = LAYERS[name]
    rng = np.random.default_rng(seed)
    shift = int(np.log2(channels * kernel * kernel)) // 2 + 8  # keeps most sums in range
    scale_in, scales = 0.125, np.full(outputs, 2.0**-7)
    if rounds is Rounds.ANY:
        scales *= rng.uniform(0.5, 1, outputs)
    weights = rng.integers(-128, 128, (outputs, channels, kernel, kernel))
    bias = rng.integers(-5000, 5000, outputs)
    graph = Graph()
    x = graph.dequantize(graph.input((1, channels, size, size), np.int8), scale_in, 0)
    if rounds is Rounds.ANY:
        per_channel = (scales, np.zeros(outputs), np.int8)
        w = graph.dequantize(graph.constant(weights, np.int8), *per_channel, axis=0)
        b_scales = (np.float32(scale_in) * scales.astype(np.float32), np.zeros(outputs), np.int32)
        b = graph.dequantize(graph.constant(bias, np.int32), *b_scales, axis=0)
    else:
        w = graph.dequantize(graph.constant(weights, np.int8), scales[0], 0)
        b = (
            graph.constant((bias + 0.5) * scale_in * scales, np.float32)
            if rounds is Rounds.UP
            else graph.dequantize(graph.constant(bias, np.int32), scale_in * scales[0], 0, np.int32)
        )
    pads, strides = [kernel // 2] * 4, [stride] * 2
    y = graph.node("Conv", x, w, b, kernel_shape=[kernel] * 2, pads=pads, strides=strides)
    out = graph.quantize(graph.node("Relu", y), 2.0 ** (shift - 10), 0)
    return graph.save([(out, np.int8)])


def macs(name: str) -> int:
    """Multiply-accumulates of one layer."""
    (size, channels, outputs, kernel, stride), _ = LAYERS[name]
    out = (size + kernel // 2 * 2 - kernel) // stride + 1
    return out * out * outputs * channels * kernel * kernel
