# SPDX-License-Identifier: Apache-2.0
"""Random TFLite operators that compute: with weights, on elements, pools, functions.

In:   random_tflite_values.py: a model under construction.
Out:  Computed: each method draws an operator on x, and says whether it could.
Next: random_tflite.py makes networks of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from loadstone.graph import Quantization
from tests.padding import same_padding
from tests.random_tflite_values import ACTIVATIONS, MAX_ELEMENTS, MAX_MACS, Values
from tests.tflite_builder import Padding, Tensor


@dataclass(frozen=True)
class Geometry:
    """A window over an image, in TFLite's terms."""

    image: tuple[int, ...]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    same: bool

    @property
    def output(self) -> tuple[int, int]:
        pads = (
            same_padding(self.image, self.kernel, self.strides, self.dilation)
            if self.same
            else (0, 0, 0, 0)
        )
        first, second = (
            (self.image[a] + pads[a] + pads[a + 2] - self.dilation[a] * (self.kernel[a] - 1) - 1)
            // self.strides[a]
            + 1
            for a in (0, 1)
        )
        return first, second

    @property
    def empty(self) -> bool:
        return min(self.output) < 1

    @property
    def options(self) -> dict[str, int]:
        return {
            "padding": Padding.SAME if self.same else Padding.VALID,
            "stride_h": self.strides[0],
            "stride_w": self.strides[1],
            "dilation_h_factor": self.dilation[0],
            "dilation_w_factor": self.dilation[1],
        }


class Computed(Values):
    """Operators that compute: each draws itself on x, and says whether it could."""

    def weights(
        self, shape: tuple[int, ...], x: Tensor, channels: int, taps: int, axis: int
    ) -> tuple[Tensor, Tensor, Quantization]:
        """Weights, bias, output quantization."""
        draw = self.draw
        per_channel = self.draw.chance(2) and not self.unsigned
        scales = draw.weight_scales(channels if per_channel else 1)
        low = -128 if self.unsigned else -127
        zero_point = draw.int(-128, 127) if self.unsigned and self.draw.chance(2) else 0
        values = draw.rng.integers(low, 127, shape, np.int8, endpoint=True)
        product = np.float32(x.scale[0]) * scales
        q = self.spread(float(np.median(product)) * 75 * 75 * sqrt(taps) / 60)
        limit = np.clip(np.float64(q.scale) / product * 100, 1, 2**30)
        bias = draw.rng.integers(-limit, limit, channels).astype(np.int32)
        if self.unsigned:
            values = (values.astype(np.int16) + 128).astype(np.uint8)
        w = self.graph.constant(values, scales, zero_point + 128 * self.unsigned, axis=axis)
        return w, self.graph.constant(bias, product, 0), q

    def convolution(
        self, x: Tensor, q: Quantization | None = None, same: bool = False, channels: int = 0
    ) -> bool:
        if len(x.shape) != 4:
            return False
        geometry = self.geometry(x, same)
        divisors = [n for n in range(1, x.shape[3] + 1) if x.shape[3] % n == 0]
        groups = (
            int(self.draw.pick(divisors))
            if self.draw.chance(4) and not self.unsigned and not channels
            else 1
        )
        out = channels or groups * max(1, self.draw.channels() // groups)
        taps = prod(geometry.kernel) * x.shape[3] // groups
        if (
            geometry.empty
            or prod(geometry.output) * out * taps > MAX_MACS
            or prod(geometry.output) * out > MAX_ELEMENTS
        ):
            return False
        w, bias, own = self.weights((out, *geometry.kernel, x.shape[3] // groups), x, out, taps, 0)
        self.emit(
            "CONV_2D",
            [x, w, bias],
            (1, *geometry.output, out),
            q or own,
            **geometry.options,
            **self.fused(),
        )
        return True

    def depthwise(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        geometry = self.geometry(x)
        multiplier = self.draw.pick([1, 1, 1, 2, 3])
        out = x.shape[3] * multiplier
        if geometry.empty or out > 256 or prod(geometry.output) * out > MAX_ELEMENTS:
            return False
        taps = prod(geometry.kernel)
        w, bias, q = self.weights((1, *geometry.kernel, out), x, out, taps, 3)
        options = {**geometry.options, **self.fused(), "depth_multiplier": multiplier}
        self.emit(
            "DEPTHWISE_CONV_2D",
            [x, w] if self.draw.chance(6) else [x, w, bias],
            (1, *geometry.output, out),
            q,
            **options,
        )
        return True

    def geometry(self, x: Tensor, same: bool = False) -> Geometry:
        draw = self.draw
        kernel = (
            (draw.int(1, 5), draw.int(1, 5))
            if self.draw.chance(2)
            else self.draw.pick([(1, 1), (3, 3), (3, 3), (5, 5), (7, 7)])
        )
        strides = (draw.int(1, 3), draw.int(1, 3)) if self.draw.chance(3) and not same else (1, 1)
        dilation = (
            (draw.int(1, 3), draw.int(1, 3))
            if self.draw.chance(5) and strides == (1, 1)
            else (1, 1)
        )
        return Geometry(x.shape[1:3], kernel, strides, dilation, same or not self.draw.chance(3))

    def fused(self) -> dict[str, Any]:
        return {"fused_activation_function": self.draw.pick(ACTIVATIONS)}

    def dense(self, x: Tensor) -> bool:
        size = prod(x.shape[1:]) if len(x.shape) == 4 else x.shape[-1]
        out = self.draw.channels()
        if len(x.shape) not in (2, 4) or size * out > MAX_MACS // 4:
            return False
        w, bias, q = self.weights((out, size), x, out, size, 0)
        self.emit(
            "FULLY_CONNECTED",
            [x, w, None] if self.draw.chance(6) else [x, w, bias],
            (1, out),
            q,
            **self.fused(),
        )
        return True

    def elementwise(self, x: Tensor) -> bool:
        kind = self.draw.pick(["ADD", "ADD", "SUB", "MUL"])
        return self.two(kind, x, self.partner(x))

    def partner(self, x: Tensor) -> Tensor:
        """Another tensor of this shape, an input, a value per channel, a constant."""
        others = [tensor for tensor in self.tensors if tensor.shape == x.shape]
        choice = self.draw.int(0, 5)
        if choice < 3:
            return others[self.draw.int(0, len(others) - 1)]
        if choice == 3:
            return self.input(x.shape)
        q = self.quantization()
        shape = self.draw.pick(
            [x.shape, (1,) * (len(x.shape) - 1) + x.shape[-1:], x.shape[-1:], (1,)]
        )
        if choice == 4 and len(shape) == len(x.shape):
            return self.input(shape)
        values = self.draw.rng.integers(-128, 127, shape, np.int8, endpoint=True)
        if self.unsigned:
            values = (values.astype(np.int16) + 128).astype(np.uint8)
        return self.graph.constant(values, q.scale, q.zero_point + 128 * self.unsigned)

    def two(self, kind: str, a: Tensor, b: Tensor) -> bool:
        scale_a, scale_b = float(a.scale[0]), float(b.scale[0])
        q = self.spread(scale_a * scale_b * 75 if kind == "MUL" else max(scale_a, scale_b) * 2)
        inputs = [b, a] if self.draw.chance(3) else [a, b]
        self.emit(kind, inputs, np.broadcast_shapes(a.shape, b.shape), q, **self.fused())
        return True

    def pool(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        kind = self.draw.pick(["AVERAGE_POOL_2D", "MAX_POOL_2D"])
        if self.draw.chance(4):
            geometry = Geometry(x.shape[1:3], x.shape[1:3], (1, 1), (1, 1), False)
        else:
            geometry = self.geometry(x)
            geometry = Geometry(
                x.shape[1:3], geometry.kernel, geometry.strides, (1, 1), geometry.same
            )
        if geometry.empty:
            return False
        options = {
            key: value for key, value in geometry.options.items() if not key.startswith("dilation")
        }
        options |= {
            "filter_height": geometry.kernel[0],
            "filter_width": geometry.kernel[1],
            **self.fused(),
        }
        self.emit(kind, [x], (1, *geometry.output, x.shape[3]), self.of(x), **options)
        return True

    def mean(self, x: Tensor) -> bool:
        if len(x.shape) != 4:
            return False
        axes = self.draw.pick([(1, 2), (1, 2), (1, 2), (3,), (1,), (2,)])
        keep = self.draw.chance(2)
        if not keep and axes != (1, 2):
            return False
        shape = tuple(
            1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes
        )
        q = self.of(x) if self.draw.chance(2) else self.spread(float(x.scale[0]))
        self.emit("MEAN", [x, self.constant(axes)], shape, q, keep_dims=keep)
        return True

    def activation(self, x: Tensor) -> bool:
        q = self.of(x) if self.draw.chance(2) else self.spread(float(x.scale[0]))
        self.emit(self.draw.pick(["RELU", "RELU6", "RELU_N1_TO_1"]), [x], x.shape, q)
        return True

    def requantize(self, x: Tensor) -> bool:
        self.emit("QUANTIZE", [x], x.shape, self.spread(float(x.scale[0])))
        return True

    def softmax(self, x: Tensor) -> bool:
        if x.shape[-1] > 511:  # LiteRT's reference kernel aborts where exponentials sum to 512
            return False
        self.emit("SOFTMAX", [x], x.shape, Quantization(1 / 256, -128), beta=1.0)
        return True
