# SPDX-License-Identifier: Apache-2.0
"""What random TFLite networks are made of: tensors, quantizations, the model under construction.

In:   a seed.
Out:  Values: draws shapes and scales, and adds tensors and operators to the model.
Next: random_tflite_computed.py and random_tflite_moves.py draw operators with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from loadstone.graph import Quantization
from tests.draw import Random
from tests.tflite_builder import Activation, Graph, Tensor

MAX_ELEMENTS = 8_000
MAX_MACS = 400_000
ACTIVATIONS = (
    Activation.NONE,
    Activation.NONE,
    Activation.NONE,
    Activation.RELU,
    Activation.RELU6,
    Activation.RELU_N1_TO_1,
)


@dataclass
class Values:
    """The model, and what is drawn for it."""

    seed: int
    graph: Graph = field(default_factory=Graph)
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)
        self.unsigned = self.draw.int(0, 3) == 0
        self.dtype = np.dtype(np.uint8 if self.unsigned else np.int8)

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = (1, self.draw.int(1, 16), self.draw.int(1, 16), self.draw.channels())
            if prod(shape) <= MAX_ELEMENTS:
                return shape

    def quantization(self, scale: float | None = None) -> Quantization:
        """As int8; `tensor` adds 128 in a uint8 network."""
        return self.draw.quantization(scale)

    def spread(self, scale: float) -> Quantization:
        """For values that reach about `scale` * 100."""
        return self.quantization(self.draw.near(scale))

    def tensor(self, shape: tuple[int, ...], q: Quantization) -> Tensor:
        made = self.graph.tensor(shape, self.dtype, q.scale, q.zero_point + 128 * self.unsigned)
        self.tensors.append(made)
        return made

    def input(self, shape: tuple[int, ...], q: Quantization | None = None) -> Tensor:
        q = q or self.quantization()
        made = self.graph.input(shape, self.dtype, q.scale, q.zero_point + 128 * self.unsigned)
        self.tensors.insert(0, made)
        return made

    def of(self, tensor: Tensor) -> Quantization:
        return Quantization(float(tensor.scale[0]), int(tensor.zero_point[0]) - 128 * self.unsigned)

    def emit(
        self,
        kind: str,
        inputs: list[Tensor | None],
        shape: tuple[int, ...],
        q: Quantization,
        **options: Any,
    ) -> Tensor:
        output = self.tensor(shape, q)
        self.graph.operator(kind, inputs, [output], **options)
        sizes = " ".join(
            "x".join(map(str, tensor.shape)) for tensor in inputs if tensor is not None
        )
        self.operators.append(f"{kind} {sizes} -> {'x'.join(map(str, shape))} {options}")
        return output

    def constant(self, values: Any, dtype: Any = np.int32) -> Tensor:
        return self.graph.constant(np.asarray(values, dtype))
