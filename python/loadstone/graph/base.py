# SPDX-License-Identifier: Apache-2.0
"""The common parts of all operators: tensors, and fields that never change.

In:   nothing.
Out:  Quantization, Tensor, Operator.
Next: the operators beside this file; network.py puts them in order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np

__all__ = ["Fields", "Operator", "Quantization", "Tensor"]

#: Arguments of an operator by name, before it is made: each operator has its own types.
Fields: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Quantization:
    """real = scale * (q - zero_point). scale: a float32 value, > 0. zero_point: in the range of the
    tensor's type."""

    scale: float
    zero_point: int

    def __post_init__(self) -> None:
        if float(np.float32(self.scale)) != self.scale:
            raise AssertionError(f"{self.scale!r} is no float32 value")


@dataclass(frozen=True)
class Tensor:
    """A value between operators. Two tensors of one graph have different names."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, packed."""
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def scale(self) -> float:
        """The scale of a quantized tensor."""
        return self._grid.scale

    @property
    def zero_point(self) -> int:
        """The zero point of a quantized tensor."""
        return self._grid.zero_point

    @property
    def _grid(self) -> Quantization:
        if self.quantization is None:
            raise AssertionError(f"tensor {self.name} is not quantized")
        return self.quantization


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """One step. `name` is the name of its output in the model file: what messages and reports call
    it.

    Operators are equal only when they are the same object. Arrays in them are read-only. What the
    compiler must know of an operator besides its fields stands in its class: the attributes below.
    """

    kind: ClassVar[str] = "operator"
    #: Names of the operator patterns (partition/patterns/) that read as this operator: that of its
    #: kind, unless the class says otherwise.
    patterns: ClassVar[tuple[str, ...]] = ()
    #: Whether it computes next to nothing, so that alone on a device it would cost more in
    #: transfers than it saves.
    is_move: ClassVar[bool] = False
    #: Whether it computes little, though more than a move.
    is_light: ClassVar[bool] = False

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls) and "patterns" not in vars(cls):
            cls.patterns = (cls.kind,)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def _must(self, holds: bool, what: str) -> None:
        """A program of an operator that contradicts itself would be wrong, under `python -O` as
        well. what: that holds of each."""
        if not holds:
            raise AssertionError(f"{self.kind} {self.name}: not {what}")

    @property
    def input(self) -> Tensor:
        """The first input: for most operators the only activation."""
        return self.inputs[0]

    @property
    def output(self) -> Tensor:
        """The first output: only Host operators may have more."""
        return self.outputs[0]

    @property
    def mixes_samples(self) -> bool:
        """Whether a row of the leading axis of the output depends on other rows of the inputs, or
        on which row it is: then several samples cannot share a run."""
        return False

    def _rows_differ(self) -> bool:
        """Whether its tensors differ in rank or in the length of the leading axis."""
        shapes = [tensor.shape for tensor in (*self.inputs, *self.outputs)]
        return len({(len(shape), shape[:1]) for shape in shapes}) > 1
