# SPDX-License-Identifier: Apache-2.0
"""Random int8 and uint8 TFLite networks: single operators and small graphs, as a converter could
have written them.

In:   a seed.
Out:  the bytes of a .tflite file and an account of its operators; `inputs` draws samples.
Next: test_random_graphs.py compiles them and compares with LiteRT's reference kernels.

A network grows from its inputs: an operator is drawn with one of the tensors that are there, so
that chains, branches and tensors with several readers come by themselves; residual additions and
concatenations of branches are drawn on purpose.
Scales of outputs fit the spread of their values: a network of saturated values would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.random_tflite_computed import Computed
from tests.random_tflite_moves import Moves
from tests.tflite_builder import Tensor

__all__ = ["Grower", "Network", "draw_inputs", "network"]

Array = NDArray[Any]


@dataclass
class Network:
    """A model, and what there is to know of it."""

    model: bytes
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: int
    operators: list[str]

    def draw_inputs(self, seed: int, samples: int) -> list[Array]:
        """One array per input, with a leading axis of samples."""
        return draw_inputs(self.inputs, seed, samples)


def draw_inputs(
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]], seed: int, samples: int
) -> list[Array]:
    """Values over the whole range of their types."""
    rng = np.random.default_rng(seed)
    limits = [np.iinfo(dtype) for _, dtype in inputs]
    drawn = zip(inputs, limits, strict=True)
    return [
        rng.integers(limit.min, limit.max, (samples, *shape), dtype, endpoint=True)
        for (shape, dtype), limit in drawn
    ]


def network(seed: int) -> Network:
    """Network number `seed`. Every second one is a single operator."""
    return Grower(seed).network()


class Grower(Computed, Moves):
    """A network under construction: it draws operator after operator."""

    def network(self) -> Network:
        self.input(self.shape())
        wanted = 1 if self.seed % 2 else self.draw.int(2, 7)
        while len(self.operators) < wanted:
            self.grow()
        outputs = self.outputs()
        inputs = [(tensor.shape, tensor.dtype) for tensor in self.graph.inputs]
        return Network(self.graph.save(outputs), inputs, len(outputs), self.operators)

    def outputs(self) -> list[Tensor]:
        """All that nothing reads, and now and then one in the middle."""
        read = {index for operator in self.graph.operators for index in operator.inputs}
        made = [tensor for tensor in self.tensors if tensor not in self.graph.inputs]
        ends = [tensor for tensor in made if tensor.index not in read]
        middle = [tensor for tensor in made if tensor.index in read and self.draw.chance(6)]
        return ends + middle

    def grow(self) -> None:
        kinds: list[Callable[[Tensor], bool]] = [
            *(
                [self.convolution] * 5
                + [self.depthwise] * 3
                + [self.dense] * 2
                + [self.elementwise] * 4
                + [self.pool] * 3
            ),
            *(
                self.mean,
                self.activation,
                self.concatenation,
                self.concatenation,
                self.slice,
                self.pad,
                self.reshape,
                self.resize,
            ),
            *(self.requantize, self.residual, self.branches, self.softmax, self.transpose),
        ]
        recent = self.tensors[-3:]
        x = recent[self.draw.int(0, len(recent) - 1)] if self.draw.chance(2) else self.tensors[-1]
        kinds[self.draw.int(0, len(kinds) - 1)](x)

    def residual(self, x: Tensor) -> bool:
        """x + f(x)."""
        return self.convolution(x, same=True, channels=x.shape[-1]) and self.two(
            "ADD", x, self.tensors[-1]
        )

    def branches(self, x: Tensor) -> bool:
        """A concatenation of two or three convolutions of x, all with one quantization."""
        if len(x.shape) != 4:
            return False
        q = self.spread(float(x.scale[0]) * 2)
        before = len(self.operators)
        for _ in range(self.draw.int(2, 3)):
            self.convolution(x, q, same=True)
        count = len(self.operators) - before
        return count > 0 and self.join(self.tensors[len(self.tensors) - count :], 3, q)
