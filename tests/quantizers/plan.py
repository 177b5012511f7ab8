# SPDX-License-Identifier: Apache-2.0
"""Random float networks, before anything says in which framework.

In:   a seed.
Out:  Plan: layers with their weights, values numbered from the input (0) on.
Next: as_onnx.py and as_torch.py write it down for a quantizer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.draw import Random

__all__ = ["FUNCTIONS", "Array", "Layer", "Plan", "plan"]

Array = NDArray[np.float32]
#: Of one tensor, element by element; relu most often, as in networks.
FUNCTIONS = ("relu", "relu", "relu6", "leaky", "sigmoid", "tanh", "hardswish", "silu")
MAX_MACS, MAX_ELEMENTS = 400_000, 8192


@dataclass(frozen=True)
class Layer:
    """kind of some values; its arrays are weights and a bias."""

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    arrays: tuple[Array, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Value k + 1 is what layers[k] gives; outputs are those that nobody reads."""

    shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    samples: tuple[Array, ...]

    @property
    def outputs(self) -> list[int]:
        """At least one."""
        read = {value for layer in self.layers for value in layer.inputs}
        return [k + 1 for k in range(len(self.layers)) if k + 1 not in read]

    def __str__(self) -> str:
        return " ".join(layer.kind for layer in self.layers)


def plan(seed: int, samples: int = 5) -> Plan:
    """Network number `seed`: an image with two to eight layers behind it, or rows of numbers."""
    return _Grower(seed).plan(samples)


class _Grower:
    def __init__(self, seed: int) -> None:
        self.draw = Random(7_000_003 + seed)
        self.layers: list[Layer] = []

    def plan(self, samples: int) -> Plan:
        draw = self.draw
        rows = draw.chance(4)
        side = draw.pick([5, 8, 12])
        shape = (
            (1, draw.int(2, 10), draw.pick([8, 24, 33]))
            if rows
            else (1, draw.pick([1, 3, 8, 16]), side, draw.pick([side, 7]))
        )
        self.shapes = [shape]
        wanted = draw.int(2, 8)
        self.dense(0) if rows else self.convolution(0)
        for _ in range(3 * wanted):
            if len(self.layers) < wanted:
                draw.pick(_KINDS)(self, len(self.shapes) - 1)
        if not rows and draw.chance(2):
            self.classes(len(self.shapes) - 1)
        spread, centre = draw.pick([0.5, 1.0, 3.0]), draw.pick([0.0, 0.0, 1.0])
        given = draw.rng.normal(centre, spread, (samples, *shape)).astype(np.float32)
        return Plan(shape, tuple(self.layers), tuple(given))

    def add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        *arrays: Array,
        **more: Any,
    ) -> int:
        if not 0 < prod(shape) <= MAX_ELEMENTS:
            return inputs[0]
        self.layers.append(Layer(kind, inputs, shape, arrays, more))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def weights(self, *shape: int, fan_in: int) -> Array:
        channels = self.draw.rng.uniform(0.3, 1.5, (shape[0], *[1] * (len(shape) - 1)))
        normal = self.draw.rng.normal(0, 1 / sqrt(fan_in), shape)
        return np.asarray(normal * channels, np.float32)

    def bias(self, channels: int) -> tuple[Array, ...]:
        if self.draw.chance(4):
            return ()
        return (self.draw.rng.normal(0, 0.3, channels).astype(np.float32),)

    def convolution(self, x: int, *, same: bool = False) -> int:
        shape = self.shapes[x]
        if len(shape) != 4:
            return self.dense(x)
        _, channels, height, width = shape
        kernel = self.draw.pick([1, 3, 3, 5])
        stride = 1 if same else self.draw.pick([1, 1, 2])
        dilation = self.draw.pick([1, 1, 1, 2])
        pad = dilation * (kernel // 2) if same or not self.draw.chance(3) else 0
        groups = self.draw.pick([1, 1, channels, 2 if channels % 2 == 0 else 1])
        outputs = channels if same or groups == channels else groups * self.draw.pick([4, 8, 10])
        reach = dilation * (kernel - 1) + 1
        out = [(size + 2 * pad - reach) // stride + 1 for size in (height, width)]
        inner = channels // groups * kernel * kernel
        if min(out) < 1 or outputs * prod(out) * inner > MAX_MACS:
            return x
        w = self.weights(outputs, channels // groups, kernel, kernel, fan_in=inner)
        more = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups}
        return self.add("conv", (x,), (1, outputs, *out), w, *self.bias(outputs), **more)

    def transposed(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) != 4:
            return x
        _, channels, height, width = shape
        kernel, stride = self.draw.pick([2, 3, 4]), self.draw.pick([1, 2])
        pad = self.draw.int(0, 1) if kernel > 2 else 0
        outputs = self.draw.pick([3, 8])
        out = [(size - 1) * stride - 2 * pad + kernel for size in (height, width)]
        if min(out) < 1 or outputs * channels * kernel**2 * height * width > MAX_MACS:
            return x
        w = self.weights(channels, outputs, kernel, kernel, fan_in=channels * kernel)
        more = {"stride": stride, "pad": pad}
        return self.add("transposed", (x,), (1, outputs, *out), w, *self.bias(outputs), **more)

    def dense(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) == 4:
            x = self.add("flatten", (x,), (1, prod(shape)))
            shape = self.shapes[x]
        outputs = self.draw.pick([4, 10, 16, 33])
        w = self.weights(outputs, shape[-1], fan_in=shape[-1])
        gemm = len(shape) == 2 and not self.draw.chance(4)
        out = (*shape[:-1], outputs)
        return self.add("dense", (x,), out, w, *self.bias(outputs), gemm=gemm)

    def function(self, x: int) -> int:
        return self.add(self.draw.pick(FUNCTIONS), (x,), self.shapes[x])

    def pool(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) != 4 or min(shape[2:]) < 2:
            return x
        kernel, stride = self.draw.pick([2, 3]), self.draw.pick([1, 2])
        if min(shape[2:]) < kernel:
            return x
        out = [(size - kernel) // stride + 1 for size in shape[2:]]
        kind = self.draw.pick(["max_pool", "average_pool"])
        return self.add(kind, (x,), (*shape[:2], *out), kernel=kernel, stride=stride)

    def joined(self, x: int) -> int:
        """Two values of one shape, added, multiplied or concatenated."""
        shape = self.shapes[x]
        alike = [k for k, other in enumerate(self.shapes) if other == shape and k != x]
        other = self.draw.pick(alike) if alike else self.convolution(x, same=True)
        if other == x or self.shapes[other] != shape:
            return x
        kind = self.draw.pick(["add", "add", "multiply", "concatenate", "concatenate"])
        if kind == "concatenate":
            shape = (shape[0], 2 * shape[1], *shape[2:])
        return self.add(kind, (x, other), shape)

    def gate(self, x: int) -> int:
        """Squeeze and excite."""
        shape = self.shapes[x]
        if len(shape) != 4:
            return x
        mean = self.add("mean", (x,), (*shape[:2], 1, 1))
        scale = self.add("sigmoid", (self.convolution(mean, same=True),), (*shape[:2], 1, 1))
        return self.add("multiply", (x, scale), shape)

    def moved(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) == 4 and self.draw.chance(2):
            size = (*shape[:2], 2 * shape[2], 2 * shape[3])
            return self.add("nearest", (x,), size)
        if shape[1] > 1 and self.draw.chance(2):
            begin = self.draw.int(0, shape[1] - 1)
            end = self.draw.int(begin + 1, shape[1])
            return self.add("slice", (x,), (1, end - begin, *shape[2:]), begin=begin, end=end)
        if len(shape) == 3:
            return self.add("transpose", (x,), (1, shape[2], shape[1]))
        return x

    def product(self, x: int) -> int:
        """Of two activations: with what was turned."""
        shape = self.shapes[x]
        if len(shape) != 3:
            return x
        turned = self.add("transpose", (x,), (1, shape[2], shape[1]))
        return self.add("product", (x, turned), (1, shape[1], shape[1]))

    def classes(self, x: int) -> int:
        shape = self.shapes[x]
        if len(shape) == 4 and self.draw.chance(2):
            x = self.add("mean", (x,), (*shape[:2], 1, 1))
        x = self.dense(x)
        return self.add("softmax", (x,), self.shapes[x]) if self.draw.chance(3) else x


_KINDS: list[Callable[[_Grower, int], int]] = [
    *[_Grower.convolution] * 5,
    *[_Grower.function] * 6,
    *[_Grower.joined] * 4,
    *[_Grower.pool] * 2,
    *(_Grower.transposed, _Grower.gate, _Grower.moved, _Grower.product, _Grower.dense),
]
