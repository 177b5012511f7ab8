# SPDX-License-Identifier: Apache-2.0
"""Small networks made by hand.

In:   operators' kinds, attributes, shapes.
Out:  Net, which makes a ModelNetwork and compares symbols with what it computes.
Next: test_operators.py and test_weighted.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.definition import Definition
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.requantize import Double, Requantizer
from loadstone.prove.values import Values
from tests.prove.test_definition import check

__all__ = ["LIMITS", "Array", "Net", "state"]

Array = NDArray[Any]
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


class Net:
    """A network made by hand; methods return numbers of tensors."""

    def __init__(self, seed: int = 0, dtype: str = "int8") -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.tensors: list[ModelTensor] = []
        self.operators: list[ModelOperator] = []
        self.inputs: list[int] = []

    @property
    def zero(self) -> int:
        """A zero point that differs from one tensor to the next."""
        return 3 + len(self.tensors) + 128 * (self.dtype == "uint8")

    def tensor(self, shape: tuple[int, ...], **changed: Any) -> int:
        held = {"dtype": self.dtype, "scales": (0.5,), "zero_points": (self.zero,)} | changed
        self.tensors.append(ModelTensor(f"t{len(self.tensors)}", shape, **held))
        return len(self.tensors) - 1

    def input(self, *shape: int) -> int:
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def padded(self, *shape: int) -> int:
        """An input with constants around it, on the last but one axis."""
        x = self.input(*shape)
        before = tuple(int(k == len(shape) - 2) for k in range(len(shape)))
        size = tuple(n + 2 * b for n, b in zip(shape, before, strict=True))
        return self.of("pad", [x], size, before=before, after=before, value=self.zero + 7)

    def constant(self, data: Array, **changed: Any) -> int:
        return self.tensor(data.shape, data=data, dtype=data.dtype.name, **changed)

    def weights(self, *shape: int, **changed: Any) -> int:
        drawn = self.rng.integers(-90, 90, shape).astype(np.int8)
        return self.constant(drawn, **({"zero_points": (0,)} | changed))

    def bias(self, n: int) -> int:
        return self.constant(self.rng.integers(-900, 900, n).astype(np.int32), zero_points=(0,))

    def rule(self, channels: int = 1) -> Requantizer:
        """Of sums of a few products, with another scale for each channel."""
        return Requantizer(
            Double.of(self.rng.uniform(0.002, 0.009, channels)), self.zero, *LIMITS[self.dtype]
        )

    def of(self, kind: str, inputs: list[int], shape: tuple[int, ...], **said: Any) -> int:
        y = self.tensor(shape)
        self.operators.append(ModelOperator(kind, tuple(inputs), (y,), said, f"the {kind}"))
        return y

    def table(self, *shape: int) -> Array:
        return self.rng.integers(*LIMITS[self.dtype], shape, endpoint=True)

    def network(self, *outputs: int) -> ModelNetwork:
        return ModelNetwork(
            "net", tuple(self.tensors), tuple(self.operators), tuple(self.inputs), outputs
        )

    def check(self, *outputs: int) -> None:
        made = self.network(*outputs)
        drawn = [self.table(*self.tensors[k].shape).astype(self.dtype) for k in self.inputs]
        check(made, drawn)


def state(network: ModelNetwork) -> Definition:
    definition = Definition(Values(), network)
    definition.state()
    return definition
