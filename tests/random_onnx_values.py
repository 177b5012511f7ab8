# SPDX-License-Identifier: Apache-2.0
"""What random ONNX networks are made of: tensors in two models, the one to compile and its meaning.

In:   a seed.
Out:  Values: draws shapes and scales, and adds operators to both models.
Next: random_onnx_computed.py and random_onnx_moves.py draw operators with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from tests.draw import Random
from tests.onnx_builder import Graph
from tests.random_tflite_values import MAX_ELEMENTS

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Value:
    """An integer tensor: its names in the model and in the reference."""

    names: tuple[str, str]
    shape: tuple[int, ...]
    q: Quantization
    is_input: bool = False


@dataclass
class Values:
    """The models, and what is drawn for them."""

    seed: int
    operators: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    read: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.unsigned = self.draw.int(0, 1) == 0
        self.qdq = self.draw.int(0, 1) == 0
        self.dtype = np.dtype(np.uint8 if self.unsigned else np.int8)
        self.graphs = (Graph(), Graph())

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = (1, self.draw.channels(), self.draw.int(1, 16), self.draw.int(1, 16))
            if prod(shape) <= MAX_ELEMENTS:
                return shape

    def zero_point(self, q: Quantization) -> int:
        return q.zero_point + 128 * self.unsigned

    def spread(self, scale: float) -> Quantization:
        """For values that reach about `scale` * 100."""
        return self.draw.quantization(self.draw.near(scale))

    def input(self, shape: tuple[int, ...], q: Quantization | None = None) -> Value:
        names = tuple(graph.input(shape, self.dtype) for graph in self.graphs)
        value = Value((names[0], names[1]), shape, q or self.draw.quantization(), is_input=True)
        self.inputs.append(value)
        self.values.insert(0, value)
        return value

    def done(
        self,
        kind: str,
        inputs: list[Value],
        names: tuple[str, str],
        shape: tuple[int, ...],
        q: Quantization,
    ) -> Value:
        value = Value(names, tuple(int(n) for n in shape), q)
        self.read.update(id(x) for x in inputs)
        self.values.append(value)
        sizes = " ".join("x".join(map(str, x.shape)) for x in inputs)
        self.operators.append(f"{kind} {sizes} -> {'x'.join(map(str, value.shape))}")
        return value

    def real(self, which: int, x: Value) -> str:
        return self.graphs[which].dequantize(
            x.names[which], x.q.scale, self.zero_point(x.q), self.dtype
        )

    def quantize(self, which: int, name: str, q: Quantization) -> str:
        return self.graphs[which].quantize(name, q.scale, self.zero_point(q), self.dtype)

    def trio(
        self,
        kind: str,
        inputs: list[Value],
        shape: tuple[int, ...],
        q: Quantization,
        constants: tuple[Any, ...] = (),
        **options: Any,
    ) -> Value:
        """Dequantize, the operator, quantize: in both models."""
        names = []
        for which, graph in enumerate(self.graphs):
            operands = [self.real(which, x) for x in inputs] + [
                "" if c is None else graph.constant(c) for c in constants
            ]
            names.append(self.quantize(which, graph.node(kind, *operands, **options), q))
        return self.done(kind, inputs, (names[0], names[1]), shape, q)
