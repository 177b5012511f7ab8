"""ResNet-18's ten distinct 3x3 and 1x1 convolutions, as int8 networks of one layer with
power-of-two scales.

In:   nothing.
Out:  LAYERS, how often the network has each, and `network` for one of them.
Next: vta/test_resnet18.py checks their integers; bench/resnet18.py counts their cycles on VTA as it
      is.
"""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding

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


def network(name: str, seed: int = 0) -> g.Graph:
    """One layer: bias, a shift that rounds to nearest, ReLU."""
    (size, channels, outputs, kernel, stride), _ = LAYERS[name]
    rng = np.random.default_rng(seed)
    out = (size + kernel // 2 * 2 - kernel) // stride + 1
    shift = int(np.log2(channels * kernel * kernel)) // 2 + 8  # keeps most sums in range
    x = g.Tensor("x", (1, size, size, channels), "int8", g.Quantization(0.125, 0))
    y = g.Tensor("y", (1, out, out, outputs), "int8", g.Quantization(2.0 ** (shift - 10), 0))
    layer = g.Conv2D(
        name=name,
        inputs=(x,),
        outputs=(y,),
        weights=rng.integers(-128, 128, (outputs, kernel, kernel, channels)).astype(np.int8),
        weight_scales=np.full(outputs, 2.0**-7, np.float32),
        weight_zero_points=np.zeros(outputs, np.int32),
        bias=rng.integers(-5000, 5000, outputs).astype(np.int32),
        low=0,
        high=127,
        rounding=Rounding.SINGLE,
        strides=(stride, stride),
        dilation=(1, 1),
        padding=(kernel // 2,) * 4,
        groups=1,
    )
    return g.Graph(name=name, inputs=(x,), outputs=(y,), operators=(layer,))


def macs(name: str) -> int:
    """Multiply-accumulates of one layer."""
    (size, channels, outputs, kernel, stride), _ = LAYERS[name]
    out = (size + kernel // 2 * 2 - kernel) // stride + 1
    return out * out * outputs * channels * kernel * kernel
