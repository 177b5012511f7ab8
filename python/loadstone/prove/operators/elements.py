# SPDX-License-Identifier: Apache-2.0
"""What all families of operators share: tensors as symbols, and elements that are functions.

In:   a network, and the values of a proof.
Out:  Elements: the symbols of each tensor, and how a level becomes a byte.
Next: each family states its operators with it.

A byte of the device is signed. The levels of a uint8 tensor are 128 above the device's bytes, and
`taken` is what is taken from a level of a tensor to have the byte: 128, or 0 for int8.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.values import NO_SOURCE, Values
from loadstone.prove.verdict import Unsupported

__all__ = ["Elements", "attribute"]

_TAKEN = {"int8": 0, "uint8": 128}
T = TypeVar("T")


def attribute(operator: ModelOperator, name: str, kind: type[T]) -> T:
    """An attribute, of the type that its kind of operator has it in."""
    value = operator.attributes[name]
    assert isinstance(value, kind), (operator.where, name, value)
    return value


class Elements:
    """Symbols of the network's tensors, as far as they are stated."""

    def __init__(self, values: Values, network: ModelNetwork) -> None:
        self.values, self.network = values, network
        self._symbols: dict[int, Integers] = {}
        for k in network.inputs:
            tensor = network.tensors[k]
            if tensor.dtype != "float32":  # of which an element has one symbol, too
                self.taken(k)
            n = int(np.prod(tensor.shape))
            symbols = values.opaque(np.full(n, -128), np.full(n, 127))
            self._symbols[k] = symbols.reshape(tensor.shape)

    def tensor(self, number: int) -> ModelTensor:
        """The tensor's record."""
        return self.network.tensors[number]

    def taken(self, number: int) -> int:
        """What is taken from levels of a tensor to have bytes. Raises Unsupported for other types
        than bytes."""
        tensor = self.tensor(number)
        if tensor.dtype not in _TAKEN:
            raise Unsupported(f"tensor {tensor.name} of {tensor.dtype}: a proof compares bytes")
        return _TAKEN[tensor.dtype]

    def constant(self, number: int) -> NDArray[Any]:
        """The elements of a constant in its shape. Raises Unsupported if the tensor is none."""
        data = self.tensor(number).data
        if data is None:
            raise Unsupported(f"tensor {self.tensor(number).name}, which is no constant")
        return data

    def symbols(self, number: int) -> Integers:
        """Symbols of a tensor's elements, in its shape."""
        if number not in self._symbols:
            levels = self.constant(number).astype(np.int64)
            self._symbols[number] = levels - self.taken(number) & 255
        return self._symbols[number]

    def put(self, number: int, symbols: Integers) -> None:
        """States a tensor's symbols, in its shape or flat."""
        self._symbols[number] = symbols.reshape(self.tensor(number).shape)

    def define(self, sources: Integers, functions: Integers) -> Integers:
        """Symbols (n,) of elements that are functions of sources, or numbers where there is
        NO_SOURCE."""
        symbols = functions & 255
        varies = sources != NO_SOURCE
        symbols[varies] = self.values.define(sources[varies], functions[varies])
        return symbols
