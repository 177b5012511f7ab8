# SPDX-License-Identifier: Apache-2.0
"""A float network as layers, which an accelerator computes as a unit, and the tensors that share a
scale.

In:   the layers that read_network.py finds in a module.
Out:  Network: layers in order; for every tensor whether it becomes int8, and its group (the tensors
      with one scale).
Next: simulate.py runs it, plan.py chooses scales for its groups, rewrite.py puts them in.

Layers by what they do to a quantized tensor:

    WEIGHTED  multiplies with constant weights: conv2d, matmul; with its bias and activation
    COMPUTED  computes new values: add, subtract, multiply, average pool, mean, a product of two
                            activations; with its activation;
                            or is a function of one tensor: sigmoid, SiLU, GELU (TABLE)
    MOVED     chooses among the values it gets: reshape, concat, max pool, relu ... : one scale on
                            both sides
    FLOAT     has no int8 form: it stays on the host, between dequantize and quantize

A tensor becomes int8 when a layer that can run on int8 computes it. Two exceptions preserve
accuracy at no cost: element-wise arithmetic stays on the host when one of its operands is there,
and so do layers that merely move or combine tensors which only the host reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.relax.compat import (
    shape,
)

if TYPE_CHECKING:
    from loadstone.relax.types import RelaxFunction, Var

__all__ = ["TABLE", "Layer", "Network", "Role", "readers_of"]

#: The kind of a layer that is a function of one tensor, however many operators compute it
#: (chains.py).
TABLE = "table"


class Role(Enum):
    """What a layer does to quantized tensors."""

    WEIGHTED = "weighted"
    COMPUTED = "computed"
    MOVED = "moved"
    FLOAT = "float"


@dataclass(frozen=True, eq=False)
class Layer:
    """name: of its output tensor. kind: the Relax operator that leads it.

    core: the variable of that operator. output: the variable of the whole layer, after bias and
        activation.
    inputs: the variables that it reads. constants: constant tensor operands, by their position
        among the core's arguments.
    weights: output channels on axis 0 (OHWI; for a dense layer (O, I)). bias: float32 (O,). Only
        WEIGHTED layers have these two.
    clamp: the bounds of its activation.
    """

    name: str
    kind: str
    role: Role
    core: Var
    output: Var
    inputs: tuple[Var, ...]
    constants: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    weights: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None
    groups: int = 1
    clamp: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_depthwise(self) -> bool:
        """Whether it is a convolution of each channel with itself alone."""
        return (
            self.kind == "nn.conv2d"
            and self.groups > 1
            and self.weights is not None
            and self.weights.shape[-1] == 1
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run; elements of the output for other layers."""
        extents = shape(self.output) or ()
        size = int(np.prod(extents, dtype=np.int64))
        return size * int(np.prod(self.weights.shape[1:])) if self.weights is not None else size


@dataclass(frozen=True, eq=False)
class Network:
    """function: the folded float function. quantized: variables that become int8. groups: such a
    variable -> its group's number."""

    function: RelaxFunction
    layers: tuple[Layer, ...]
    parameters: tuple[Var, ...]
    outputs: tuple[Var, ...]
    quantized: frozenset[Var]
    groups: Mapping[Var, int]

    @cached_property
    def by_output(self) -> dict[Var, Layer]:
        """The layer that computes a variable."""
        return {layer.output: layer for layer in self.layers}

    @cached_property
    def readers(self) -> dict[Var, tuple[Layer, ...]]:
        """The layers that read a variable."""
        return readers_of(self.layers)

    @property
    def weighted(self) -> tuple[Layer, ...]:
        """The layers with weights, in order."""
        return tuple(layer for layer in self.layers if layer.role is Role.WEIGHTED)

    def name(self, variable: Var) -> str:
        """The tensor's name in reports and files."""
        layer = self.by_output.get(variable)
        return layer.name if layer is not None else str(variable.name)

    def members(self, group: int) -> tuple[Var, ...]:
        """The variables of a group, in order."""
        return tuple(variable for variable, number in self.groups.items() if number == group)

    def results(self) -> tuple[Var, ...]:
        """Quantized variables that the host reads or that are outputs: the device hands them
        over."""
        on_host = (
            layer
            for layer in self.layers
            if layer.role is Role.FLOAT or layer.output not in self.quantized
        )
        host = {item for layer in on_host for item in layer.inputs} | set(self.outputs)
        return tuple(
            variable
            for variable in self.groups
            if variable in host and variable not in self.parameters
        )

    def boundaries(self) -> Iterator[Var]:
        """Quantized variables with new values, where a quantize rounds. The others are moved
        copies."""
        for variable in self.groups:
            layer = self.by_output.get(variable)
            if (
                layer is None
                or layer.role is not Role.MOVED
                or not all(item in self.quantized for item in layer.inputs)
            ):
                yield variable


def readers_of(layers: Sequence[Layer]) -> dict[Var, tuple[Layer, ...]]:
    """The layers that read a variable, each once."""
    found: dict[Var, list[Layer]] = {}
    for layer in layers:
        for variable in dict.fromkeys(layer.inputs):
            found.setdefault(variable, []).append(layer)
    return {variable: tuple(layers) for variable, layers in found.items()}
