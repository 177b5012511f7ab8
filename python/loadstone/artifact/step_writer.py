# SPDX-License-Identifier: Apache-2.0
"""A Relax function of the host as a row of steps: where its values are.

In:   a Host operator of the graph, a Workspace (host.py), what writes the steps of one call.
Out:  the steps of all calls.
Next: relax_steps.py has a writer for each operator.

Values between calls are temporary tensors, which share memory once nobody reads them; a reshape is
another name of the same memory. Operands of a run of several samples hold one sample behind the
other, so that a sample is one more axis, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.host_step import HostStep, Strided
from loadstone.artifact.memory_plan import MAX_RANK
from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    dtype,
    is_constant,
    op_name,
    relax,
    result,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr

__all__ = [
    "MOVED",
    "HostMemory",
    "Maker",
    "Makers",
    "NoOperatorError",
    "StepWriter",
    "extents_of",
    "row_major",
]

#: What is moved without being looked at.
MOVED = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
#: Another shape of the same elements.
_SAME_MEMORY = ("reshape", "expand_dims", "squeeze", "flatten")

#: Where a network takes parts of a tensor, exporters count places as the network would.
_FOLDED: Mapping[str, Callable[..., object]] = {
    "add": np.add,
    "less": np.less,
    "take": lambda x, at: x[at % x.size],
    "where": np.where,
}


class HostMemory(Protocol):
    """The part of host.py's Workspace that is needed here."""

    def tensor(self, tensor: g.Tensor) -> int:
        """The row-major form of a graph tensor."""
        ...

    def temporary(self, tensor: g.Tensor) -> int:
        """A row-major tensor that lives for this operator only."""
        ...

    def constant(self, name: str, value: Array, *, blocked: bool = False) -> int:
        """A tensor whose content the file holds, row-major; or in the device's blocks, (rows, 1, 1,
        columns). value: of any shape, or (rows, columns)."""
        ...


class NoOperatorError(Exception):
    """The runtime has no operator for it."""


class StepWriter:
    """The calls of `main` in a row."""

    def __init__(self, o: g.Host, space: HostMemory, makers: Makers) -> None:
        self.o, self.space, self.makers = o, space, makers
        self.main = o.function["main"]
        self.bound = dict(bindings(self.main))
        self.steps: list[HostStep] = []
        self.place: dict[Expr, int] = {}  # tensors of values, under their first names
        self.spare: dict[tuple[int, str], list[int]] = {}  # temporary tensors that nobody reads
        self.kinds: dict[int, tuple[int, str]] = {}  # elements and type of each
        self.constants: dict[tuple[bytes, str], int] = {}
        self.made = 0
        self.samples = 1
        for parameter, tensor in zip(self.main.params, o.inputs, strict=True):
            self.place[parameter] = space.tensor(tensor)
            self.samples = tensor.size // max(prod(extents_of(parameter)), 1)
        self.folded: dict[Expr, Array] = {}
        for variable, entry in self.bound.items():
            if (found := self.computed(entry)) is not None:
                self.folded[variable] = found

    def written(self) -> list[HostStep]:
        """Every call, then results that are an input, a constant, or another result."""
        targets = [self.space.tensor(tensor) for tensor in self.o.outputs]
        results: dict[Expr, int] = {}
        for entry, target in zip(map(self.first, result(self.main)), targets, strict=True):
            results.setdefault(entry, target)
        calls = dict.fromkeys(v for v, e in self.bound.items() if self.is_made(v, e))
        last = {self.first(entry): k for k, v in enumerate(calls) for entry in self.read(v)}
        for k, variable in enumerate(calls):
            self.write(variable, results.get(variable))
            last.setdefault(variable, k)
            read = [e for e, when in last.items() if when == k and e not in results]
            self.give_back(*(self.place[e] for e in read if e in calls))
        for entry, target in zip(result(self.main), targets, strict=True):
            if self.operand(entry) != target:
                size = [self.elements(entry)]
                self.copy(self.operand(entry), target, size, Strided([1]), Strided([1]))
        return self.steps

    def write(self, variable: Expr, target: int | None) -> None:
        """The steps of one call; target: where its value is wanted."""
        maker = self.makers.get(op_name(self.bound[variable]))
        if maker is None:
            raise NoOperatorError
        self.place[variable] = self.temporary(variable) if target is None else target
        maker(self, self.bound[variable], self.place[variable])

    # --- values -----------------------------------------------------------------------------------
    def first(self, entry: Expr) -> Expr:
        """The variable or constant whose memory a value has."""
        while True:
            found = self.bound.get(entry) if isinstance(entry, relax.Var) else None
            if found is None or isinstance(found, relax.Tuple | relax.TupleGetItem):
                return entry  # a part of a tuple has no place
            if isinstance(found, relax.Call):
                same = op_name(found) == "astype" and dtype(found) == dtype(found.args[0])
                if op_name(found) not in _SAME_MEMORY and not same:
                    return entry
                found = found.args[0]
            entry = found

    def is_made(self, variable: Expr, entry: Expr) -> bool:
        """Whether a binding is of a value that steps compute."""
        if not isinstance(entry, relax.Call) or op_name(entry) == "shape_of":
            return False
        return variable not in self.folded and self.first(variable) is variable

    def computed(self, entry: Expr) -> Array | None:
        """What is known of a value when the model is compiled, of its shape () or (n,): of places
        in tensors, most often."""
        name = op_name(entry) if isinstance(entry, relax.Call) else ""
        if name == "shape_to_tensor":
            source = self.bound.get(entry.args[0])
            if source is None or op_name(source) != "shape_of":
                return None
            return np.array(extents_of(source.args[0]), np.int64)
        if name not in _FOLDED or (name == "take" and str(entry.attrs.mode) != "wrap"):
            return None
        known = [self.number(argument) for argument in entry.args]
        if any(k is None or k.ndim > 1 for k in known):
            return None
        return np.asarray(_FOLDED[name](*known))

    def number(self, entry: Expr) -> Array | None:
        """The value of a constant, in its shape; None for what is none."""
        entry = self.first(entry)
        return value(entry) if is_constant(entry) else self.folded.get(entry)

    def is_fixed(self, entry: Expr) -> bool:
        """Whether all samples share it."""
        return self.number(entry) is not None

    def read(self, variable: Expr) -> list[Expr]:
        """The tensors that a call reads."""
        found: list[Expr] = []
        for entry in self.bound[variable].args:
            found += self.parts(entry) if shape(entry) is None else [entry]
        return [entry for entry in found if isinstance(entry, relax.Var)]

    def parts(self, entry: Expr) -> list[Expr]:
        """The tensors of a tuple."""
        entry = self.bound.get(entry, entry) if isinstance(entry, relax.Var) else entry
        return list(entry.fields) if isinstance(entry, relax.Tuple) else []

    def operand(self, entry: Expr) -> int:
        """The tensor of a value."""
        entry = self.first(entry)
        if entry not in self.place and (known := self.number(entry)) is not None:
            self.place[entry] = self.constant(known)
        if entry not in self.place:
            raise NoOperatorError
        return self.place[entry]

    def elements(self, entry: Expr) -> int:
        """Of all samples."""
        return prod(extents_of(entry)) * (1 if self.is_fixed(entry) else self.samples)

    def constant(self, known: Array) -> int:
        """A tensor of the file's, of any shape; equal ones are one."""
        key = known.tobytes(), str(known.dtype)
        if key not in self.constants:
            name = f"{self.o.name}.constant{self.numbered()}"
            self.constants[key] = self.space.constant(name, known)
        return self.constants[key]

    def blocked(self, entry: Expr) -> int:
        """The rows of the transpose of a constant matrix, in the device's blocks: where a program
        has the matrix as its weights they are these."""
        known = self.number(entry)
        if known is None or known.ndim != 2:
            raise NoOperatorError
        return self.space.constant(f"{self.o.name}.blocked{self.numbered()}", known.T, blocked=True)

    def temporary(self, entry: Expr) -> int:
        """HostMemory for a value."""
        return self.memory(self.elements(entry), dtype(entry))

    def memory(self, elements: int, kind: str) -> int:
        """A temporary tensor: one that is spare, or new."""
        key = elements, kind
        if self.spare.get(key):
            return self.spare[key].pop()
        name = f"{self.o.name}.value{self.numbered()}"
        found = self.space.temporary(g.Tensor(name, (elements,), kind))
        self.kinds[found] = key
        return found

    def give_back(self, *tensors: int) -> None:
        """Nobody reads these temporary tensors any more."""
        for tensor in tensors:
            self.spare.setdefault(self.kinds[tensor], []).append(tensor)

    def numbered(self) -> int:
        """A number of its own."""
        self.made += 1
        return self.made

    # --- steps ------------------------------------------------------------------------------------
    def stride(self, entry: Expr) -> int:
        """How far a sample's elements are behind the one's before: a constant has one for all."""
        return 0 if self.is_fixed(entry) else prod(extents_of(entry))

    def copy(self, x: int, y: int, extents: Sequence[int], source: Strided, to: Strided) -> None:
        """One copy."""
        self.steps.append(steps.copy(self.o.name, x, y, extents, source, to))

    def walk(self, call: Call, y: int, extents: Sequence[int], source: Strided) -> None:
        """y, row by row, from places of the call's first operand."""
        whole, strides = merged(
            (self.samples, *extents), [(self.stride(call.args[0]), *source.strides)]
        )
        if len(whole) > MAX_RANK or dtype(call.args[0]) not in MOVED:
            raise NoOperatorError
        inner = Strided(strides[0], source.offset)
        self.copy(self.operand(call.args[0]), y, whole, inner, Strided(row_major(whole)))


def merged(
    extents: Sequence[int], walks: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Extents and the strides of each walk through them, where axes that all walk through as one
    are one, so that rows are long; one axis at least."""
    whole: list[int] = []
    found: list[list[int]] = [[] for _ in walks]
    for extent, *by in zip(extents, *walks, strict=True):
        if extent == 1:
            continue
        if whole and all(s[-1] == step * extent for s, step in zip(found, by, strict=True)):
            whole[-1] *= extent
            for strides, step in zip(found, by, strict=True):
                strides[-1] = step
            continue
        whole.append(extent)
        for strides, step in zip(found, by, strict=True):
            strides.append(step)
    return (whole, found) if whole else ([1], [[0] for _ in walks])


def extents_of(entry: Expr) -> tuple[int, ...]:
    """Of one sample. Raises NoOperatorError for what is no tensor."""
    found = shape(entry)
    if found is None:
        raise NoOperatorError
    return found


def row_major(extents: Sequence[int]) -> list[int]:
    """Strides in elements."""
    strides = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * extents[axis + 1]
    return strides


#: Writes the steps of a call, into a tensor.
Maker: TypeAlias = Callable[[StepWriter, "Call", int], None]
#: By Relax operator.
Makers: TypeAlias = Mapping[str, Maker]
