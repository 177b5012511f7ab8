# SPDX-License-Identifier: Apache-2.0
"""Random TFLite networks of blocks: what the second generation keeps on chip, and in turns.

In:   a seed.
Out:  a Network of inverted residuals, separable convolutions, sums of sums and tensors with three
      readers, some of whose weights have 4 bits, few bits, or blocks of zeros; a device for it.
Next: test_random_blocks.py runs them.

A device has or lacks each capability, and scratchpads down to a sixteenth: layers in turns, bands
and contents of INP that nearly fit come from there.
"""

from __future__ import annotations

from math import prod
from random import Random as Draw

import numpy as np

from loadstone.errors import ConfigError
from loadstone.graph import Quantization
from loadstone.vta.device.hw_config import HwConfig, load_config
from tests.random_tflite import Grower, Network
from tests.random_tflite_computed import Geometry
from tests.random_tflite_values import ACTIVATIONS
from tests.tflite_builder import Activation, Tensor

__all__ = ["device", "network"]

CHANNELS = (1, 3, 8, 16, 17, 24, 32, 33, 48)
MAX_ELEMENTS, MAX_MACS = 30_000, 3_000_000
WINDOWS = [(3, 3)] * 4 + [(5, 5), (2, 2), (3, 1), (1, 4), (4, 4), (7, 7), (4, 3)]
_REQUIRED = ("alu_mul", "config", "requantize", "regions")


def device(seed: int) -> HwConfig:
    """vtaq2-1x16x16 with other sizes, or without some of what it has."""
    draw, base = Draw(seed), load_config("vtaq2-1x16x16").to_json()
    while True:
        batch, block = draw.choice([0, 0, 0, 1]), draw.choice([4, 4, 3, 5])
        inp, acc, wgt = draw.randint(7, 11), draw.randint(8, 11), draw.randint(8, 10)
        names = [c for c in base["capabilities"] if c in _REQUIRED or draw.random() < 0.8]
        sizes = {
            "LOG_BATCH": batch,
            "LOG_BLOCK": block,
            "LOG_INP_BUFF_SIZE": inp + batch + block,
            "LOG_WGT_BUFF_SIZE": wgt + 2 * block,
            "LOG_ACC_BUFF_SIZE": acc + batch + block + 2,
            "capabilities": names,
        }
        try:
            return load_config({**base, **sizes, "name": f"drawn-{seed}"})
        except ConfigError:
            continue  # one that cannot be


def network(seed: int) -> Network:
    """Network number `seed`."""
    return _Blocks(seed).network()


class _Blocks(Grower):
    """A network under construction."""

    def network(self) -> Network:
        draw = self.draw
        shape = (1, draw.int(4, 30), draw.int(4, 30), draw.pick(CHANNELS))
        self.input(shape)
        kinds = [self.inverted] * 4 + [self.separable] * 3 + [self.nested, self.read_by_three]
        wanted = draw.int(3, 9)
        for _ in range(30):
            if len(self.operators) < wanted:
                draw.pick(kinds)(self.tensors[-1])
        outputs = self.outputs()
        inputs = [(tensor.shape, tensor.dtype) for tensor in self.graph.inputs]
        return Network(self.graph.save(outputs), inputs, len(outputs), self.operators)

    def quantization(self, scale: float | None = None) -> Quantization:
        q = super().quantization(scale)
        ends = self.draw.pick([-128, 127, q.zero_point, q.zero_point])
        return Quantization(q.scale, int(ends))

    def weights(
        self, shape: tuple[int, ...], x: Tensor, channels: int, taps: int, axis: int
    ) -> tuple[Tensor, Tensor, Quantization]:
        made = super().weights(shape, x, channels, taps, axis)
        values, rng = made[0].data, self.draw.rng
        assert values is not None
        way = 0 if self.unsigned else self.draw.int(0, 5)
        if way == 1:
            values[...] = rng.integers(-8, 8, shape)
        elif way == 2:
            values[...] = np.clip(np.round(rng.normal(0, 5, shape)), -127, 127)
        elif way == 3:  # channels that nobody uses
            values[..., rng.random(shape[-1]) < self.draw.pick([0.4, 1.0])] = 0
        return made

    def layer(
        self,
        kind: str,
        x: Tensor,
        geometry: Geometry,
        out: int,
        activations: tuple[int, ...] = ACTIVATIONS,
    ) -> Tensor | None:
        """None where it would be large, or have no output."""
        lanes = kind == "DEPTHWISE_CONV_2D"
        taps = prod(geometry.kernel) * (1 if lanes else x.shape[3])
        if geometry.empty or prod(geometry.output) * out > MAX_ELEMENTS:
            return None
        if prod(geometry.output) * out * taps > MAX_MACS:
            return None
        shape = (1, *geometry.kernel, out) if lanes else (out, *geometry.kernel, x.shape[3])
        w, bias, q = self.weights(shape, x, out, taps, 3 if lanes else 0)
        fused = self.draw.pick(activations)
        return self.emit(
            kind,
            [x, w, bias],
            (1, *geometry.output, out),
            q,
            **geometry.options,
            fused_activation_function=fused,
            **({"depth_multiplier": 1} if lanes else {}),
        )

    def pointwise(
        self, x: Tensor, out: int, activations: tuple[int, ...] = ACTIVATIONS
    ) -> Tensor | None:
        """1x1."""
        one = Geometry(x.shape[1:3], (1, 1), (1, 1), (1, 1), True)
        return self.layer("CONV_2D", x, one, out, activations)

    def windows(self, x: Tensor, strides: tuple[int, int]) -> Tensor | None:
        """Lane by lane."""
        dilations = [(1, 1)] * 4 + [(2, 2), (1, 3)]
        dilation = self.draw.pick(dilations) if strides == (1, 1) else (1, 1)
        same = not self.draw.chance(4)
        geometry = Geometry(x.shape[1:3], self.draw.pick(WINDOWS), strides, dilation, same)
        return self.layer("DEPTHWISE_CONV_2D", x, geometry, x.shape[3])

    def inverted(self, x: Tensor) -> bool:
        """x + f(x), where f has many channels in between."""
        strides = self.draw.pick([(1, 1), (1, 1), (2, 2), (2, 1), (3, 3)])
        wide = self.pointwise(x, min(144, x.shape[3] * self.draw.int(1, 6)))
        made = None if wide is None else self.windows(wide, strides)
        out = x.shape[3] if self.draw.chance(2) else self.draw.pick(CHANNELS)
        last = None if made is None else self.pointwise(made, out, (Activation.NONE,))
        if last is not None and last.shape == x.shape:
            return self.two("ADD", x, last)
        return last is not None

    def separable(self, x: Tensor) -> bool:
        """Lane by lane, then 1x1."""
        made = self.windows(x, self.draw.pick([(1, 1), (2, 2), (1, 2)]))
        return made is not None and self.pointwise(made, self.draw.pick(CHANNELS)) is not None

    def nested(self, x: Tensor) -> bool:
        """x + f(x) - x."""
        made = self.pointwise(x, x.shape[3])
        return (
            made is not None
            and self.two("ADD", x, made)
            and self.two(self.draw.pick(["ADD", "SUB"]), self.tensors[-1], x)
        )

    def read_by_three(self, x: Tensor) -> bool:
        """f(x) + g(x) + x, of which a sum can be an output."""
        first, second = self.windows(x, (1, 1)), self.pointwise(x, x.shape[3])
        if first is None or second is None or first.shape != second.shape:
            return False
        return self.two("ADD", first, second) and self.two("ADD", self.tensors[-1], x)
