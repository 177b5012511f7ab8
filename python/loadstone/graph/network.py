# SPDX-License-Identifier: Apache-2.0
"""Operators in order: the network.

In:   operators.
Out:  Graph, which checks its order; Host, an operator that is a piece of Relax.
Next: partition/eager.py makes it, artifact/deploy.py and the back ends read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from loadstone.graph.base import Operator, Tensor
from loadstone.numerics import Array, Rounding

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["Graph", "Host", "described"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Host(Operator):
    """What no dataclass describes: a Relax function, run by TVM on the host.

    function: tvm.IRModule whose `main` takes the inputs in order and gives a tuple when there are
        several outputs
    operators: names of the Relax operators in it, for reports.
    """

    kind: ClassVar[str] = "host"
    patterns: ClassVar[tuple[str, ...]] = ()

    function: IRModule
    operators: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """A network. operators: in execution order; each tensor is an input, a constant or written once
    before it is read."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {tensor.name for tensor in self.inputs} | set(self.constants)
        for operator in self.operators:
            missing = [tensor.name for tensor in operator.inputs if tensor.name not in known]
            if missing:
                raise AssertionError(f"{operator.name} reads {missing} before they are written")
            written = [tensor.name for tensor in operator.outputs]
            if known.intersection(written):
                raise AssertionError(f"{operator.name} writes {written} again")
            known.update(written)
        unwritten = [tensor.name for tensor in self.outputs if tensor.name not in known]
        if unwritten:
            raise AssertionError(f"network {self.name} does not write its outputs {unwritten}")

    def consumers(self, tensor: Tensor) -> tuple[Operator, ...]:
        """The operators that read it, in order."""
        readers = self._readers.get(tensor.name, ())
        return tuple(operator for operator in readers if tensor in operator.inputs)

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Operator]]:
        """By the names of tensors."""
        found: dict[str, list[Operator]] = {}
        for operator in self.operators:
            for name in dict.fromkeys(tensor.name for tensor in operator.inputs):
                found.setdefault(name, []).append(operator)
        return found

    def producer(self, tensor: Tensor) -> Operator | None:
        """None for inputs and constants."""
        return next((operator for operator in self.operators if tensor in operator.outputs), None)

    def describe(self, note: Callable[[Operator], str] = lambda _: "") -> str:
        """One line per operator, for dumps."""
        return "\n".join(described(operator, note(operator)) for operator in self.operators)


_PLUMBING = {"name", "inputs", "outputs", "function"}


def described(operator: Operator, note: str = "") -> str:
    """One line of an operator, for dumps."""
    values = (
        (entry.name, getattr(operator, entry.name))
        for entry in fields(operator)
        if entry.name not in _PLUMBING
    )
    attributes = " ".join(f"{name}={_brief(value)}" for name, value in values)
    inputs = ", ".join(map(_typed, operator.inputs))
    return (
        f"{', '.join(map(_typed, operator.outputs))} = {operator.kind}({inputs}) "
        f"{attributes} {note}"
    ).rstrip()


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Rounding):
        return value.name.lower()
    return str(value).replace(" ", "")


def _typed(tensor: Tensor) -> str:
    quantization = f" {tensor.scale:.6g}@{tensor.zero_point}" if tensor.quantization else ""
    return f"{tensor.name}[{'x'.join(map(str, tensor.shape))} {tensor.dtype}{quantization}]"
