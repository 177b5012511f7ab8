# SPDX-License-Identifier: Apache-2.0
"""Random int8 and uint8 ONNX networks, twice: as a model to compile, and as one that ONNX Runtime
computes as it is meant.

In:   a seed.
Out:  the bytes of two .onnx files and an account of their operators; `inputs` draws samples.
Next: test_random_graphs.py compiles the first and compares with what ONNX Runtime makes of the
      second.

QDQ says conv(dequantize(x), dequantize(w)) in float32, which ONNX Runtime computes literally,
rounding sums on the way, or fuses into an integer kernel; the integers are what is meant
(docs/numerics.md). So the model for ONNX Runtime has QLinearConv,
QLinearMatMul and QGemm, and the model to compile has those in one half of the networks and their
QDQ form in the other. An average is the sum of integers there, rounded once. All other operators
are the same in both, and ONNX Runtime's graph optimisations are off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.random_onnx_computed import Computed
from tests.random_onnx_moves import Moves
from tests.random_onnx_values import Array, Value
from tests.random_tflite import draw_inputs

__all__ = ["Network", "network"]


@dataclass
class Network:
    """`model` is to be compiled, `reference` says what it means."""

    model: bytes
    reference: bytes
    inputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: int
    operators: list[str]

    def draw_inputs(self, seed: int, samples: int) -> list[Array]:
        """One array per input, with a leading axis of samples."""
        return draw_inputs(self.inputs, seed, samples)


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
        made = [value for value in self.values if not value.is_input]
        chosen = [value for value in made if id(value) not in self.read or self.draw.chance(6)]
        shapes = [value.shape for value in chosen]
        model, reference = (
            graph.save([(v.names[k], self.dtype) for v in chosen], shapes)
            for k, graph in enumerate(self.graphs)
        )
        return Network(
            model,
            reference,
            [(v.shape, self.dtype) for v in self.inputs],
            len(chosen),
            self.operators,
        )

    def grow(self) -> None:
        kinds: list[Callable[[Value], bool]] = [
            *(
                [self.convolution] * 6
                + [self.dense] * 2
                + [self.elementwise] * 2
                + [self.pool] * 2
                + [self.activation] * 2
            ),
            *(
                self.concatenation,
                self.slice,
                self.pad,
                self.reshape,
                self.resize,
                self.transpose,
                self.residual,
                self.branches,
            ),
        ]
        x = self.draw.pick(self.values[-3:]) if self.draw.chance(2) else self.values[-1]
        self.draw.pick(kinds)(x)

    def residual(self, x: Value) -> bool:
        """x + f(x)."""
        return (
            len(x.shape) == 4
            and self.convolution(x, same=True, out=x.shape[1])
            and self.two("Add", x, self.values[-1])
        )

    def branches(self, x: Value) -> bool:
        """A concatenation of two or three convolutions of x: of one quantization, or each of its
        own."""
        if len(x.shape) != 4:
            return False
        q = self.spread(x.q.scale * 2) if self.draw.chance(2) else None
        before = len(self.values)
        for _ in range(self.draw.int(2, 3)):
            self.convolution(x, q, same=True)
        parts = self.values[before:]
        return bool(parts) and self.join(parts, 1, q or parts[0].q)
