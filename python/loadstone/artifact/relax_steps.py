# SPDX-License-Identifier: Apache-2.0
"""What stays Relax, as steps of the runtime's own operators.

In:   a Host operator of the graph, and a Workspace (host.py).
Out:  its steps, or None where the runtime has no operator for one of its calls.
Next: host.py takes them; what has none becomes C of the step's own (c_operator.py).

A Relax function is taken whole or not at all. Values between its calls are temporary tensors, which
share memory once nobody reads them; a reshape is another name of the same memory. Operands of a run
of several samples hold one sample behind the other, so that a sample is one more axis, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.host_step import HostStep, Strided
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

__all__ = ["Memory", "relax_steps"]


class Memory(Protocol):
    """The part of host.py's Workspace that is needed here."""

    def tensor(self, tensor: g.Tensor) -> int:
        """The row-major form of a graph tensor."""
        ...

    def temporary(self, tensor: g.Tensor) -> int:
        """A row-major tensor that lives for this operator only."""
        ...

    def constant(self, name: str, value: Array) -> int:
        """A row-major tensor whose content the file holds."""
        ...


class _NoOperatorError(Exception):
    """The runtime has no operator for it."""


def relax_steps(o: g.Host, space: Memory) -> list[HostStep] | None:
    """The steps of the runtime that compute it; None where there are none. `space` is asked for
    tensors either way."""
    try:
        return _Writer(o, space).written()
    except _NoOperatorError:
        return None


class _Writer:
    """The calls of `main` in a row."""

    def __init__(self, o: g.Host, space: Memory) -> None:
        self.o, self.space = o, space
        self.main = o.function["main"]
        self.bound = dict(bindings(self.main))
        self.steps: list[HostStep] = []
        self.place: dict[Expr, int] = {}  # tensors of values, under their first names
        self.spare: dict[tuple[int, str], list[int]] = {}  # temporary tensors that nobody reads
        self.made = 0
        self.samples = 1
        for parameter, tensor in zip(self.main.params, o.inputs, strict=True):
            extents = _extents(parameter)
            self.place[parameter] = space.tensor(tensor)
            self.samples = tensor.size // max(prod(extents), 1)

    def written(self) -> list[HostStep]:
        """Every call, then results that are an input, a constant, or another result."""
        results = [self.first(entry) for entry in result(self.main)]
        kept = dict.fromkeys(results)
        targets = [self.space.tensor(tensor) for tensor in self.o.outputs]
        wanted: dict[Expr, int] = {}
        for entry, target in zip(results, targets, strict=True):
            if entry in self.bound:
                wanted.setdefault(entry, target)
        calls = [v for v, entry in self.bound.items() if isinstance(entry, relax.Call)]
        calls = [v for v in calls if self.first(v) is v]
        last = {self.first(entry): k for k, v in enumerate(calls) for entry in self.read(v)}
        for k, variable in enumerate(calls):
            call = self.bound[variable]
            maker = _MAKERS.get(op_name(call))
            if maker is None:
                raise _NoOperatorError
            if variable not in wanted:
                wanted[variable] = self.temporary(variable)
                last.setdefault(variable, k)
            self.place[variable] = wanted[variable]
            maker(self, call, wanted[variable])
            for entry in [e for e, when in last.items() if when == k and e not in kept]:
                self.release(entry)
        for entry, target in zip(results, targets, strict=True):
            if self.operand(entry) != target:
                size = [self.elements(entry)]
                self.copy(self.operand(entry), target, size, Strided([1]), Strided([1]))
        return self.steps

    # --- values -----------------------------------------------------------------------------------
    def first(self, entry: Expr) -> Expr:
        """The variable or constant whose memory a value has."""
        while True:
            found = self.bound.get(entry) if isinstance(entry, relax.Var) else None
            if found is None or isinstance(found, relax.Tuple | relax.TupleGetItem):
                return entry
            if isinstance(found, relax.Call):
                if op_name(found) not in _SAME_MEMORY:
                    return entry
                found = found.args[0]
            entry = found

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
        if is_constant(entry) and entry not in self.place:
            name = f"{self.o.name}.constant{self.numbered()}"
            self.place[entry] = self.space.constant(name, value(entry))
        if entry not in self.place:
            raise _NoOperatorError
        return self.place[entry]

    def elements(self, entry: Expr) -> int:
        """Of all samples."""
        return prod(_extents(entry)) * (1 if is_constant(self.first(entry)) else self.samples)

    def temporary(self, entry: Expr) -> int:
        """Memory for a value: one that is spare, or new."""
        key = self.elements(entry), dtype(entry)
        if self.spare.get(key):
            return self.spare[key].pop()
        name = f"{self.o.name}.value{self.numbered()}"
        return self.space.temporary(g.Tensor(name, (key[0],), key[1]))

    def release(self, entry: Expr) -> None:
        """Nobody reads it any more."""
        if entry in self.bound and not is_constant(entry):
            self.give_back(entry, self.place[entry])

    def give_back(self, entry: Expr, tensor: int) -> None:
        """Memory of such a value is spare."""
        self.spare.setdefault((self.elements(entry), dtype(entry)), []).append(tensor)

    def numbered(self) -> int:
        """A number of its own."""
        self.made += 1
        return self.made

    # --- steps ------------------------------------------------------------------------------------
    def copy(self, x: int, y: int, extents: Sequence[int], source: Strided, to: Strided) -> None:
        """One copy."""
        self.steps.append(steps.copy(self.o.name, x, y, extents, source, to))

    def walk(self, call: Call, y: int, extents: Sequence[int], source: Strided) -> None:
        """y, row by row, from places of the call's first operand."""
        if len(extents) > _MOST_AXES or dtype(call.args[0]) not in _MOVED:
            raise _NoOperatorError
        first = self.first(call.args[0])
        step = 0 if is_constant(first) else prod(_extents(call.args[0]))
        inner = Strided([step, *source.strides], source.offset)
        whole = (self.samples, *extents)
        x = self.operand(call.args[0])
        self.copy(x, y, whole, inner, Strided(_row_major(whole)))


def _extents(entry: Expr) -> tuple[int, ...]:
    found = shape(entry)
    if found is None:
        raise _NoOperatorError
    return found


def _row_major(extents: Sequence[int]) -> list[int]:
    strides = [1] * len(extents)
    for axis in range(len(extents) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * extents[axis + 1]
    return strides


# --- one function per operator --------------------------------------------------------------------
#: Of a copy, besides that of the samples.
_MOST_AXES = 5
#: What is moved without being looked at.
_MOVED = ("int8", "uint8", "int16", "int32", "int64", "float32", "bool")
#: Another shape of the same elements.
_SAME_MEMORY = ("reshape", "expand_dims", "squeeze", "flatten")


def _permute_dims(writer: _Writer, call: Call, y: int) -> None:
    extents = _extents(call.args[0])
    axes = call.attrs.axes
    order = range(len(extents))[::-1] if axes is None else [int(a) % len(extents) for a in axes]
    strides = _row_major(extents)
    writer.walk(call, y, [extents[a] for a in order], Strided([strides[a] for a in order]))


def _concat(writer: _Writer, call: Call, y: int) -> None:
    parts, whole = writer.parts(call.args[0]), _extents(call)
    axis = int(call.attrs.axis) % len(whole)
    outer, begin = prod(whole[:axis]), 0
    row = prod(whole[axis:])
    for part in parts:
        size = prod(_extents(part)[axis:])
        step = 0 if is_constant(writer.first(part)) else outer * size
        if dtype(part) not in _MOVED:
            raise _NoOperatorError
        writer.copy(
            writer.operand(part),
            y,
            (writer.samples, outer, size),
            Strided([step, size, 1]),
            Strided([outer * row, row, 1], begin),
        )
        begin += size


def _softmax(writer: _Writer, call: Call, y: int) -> None:
    """Rows along the axis; where that is not the last one, they are gathered first."""
    extents = _extents(call)
    axis = int(call.attrs.axis) % len(extents)
    depth, inner = extents[axis], prod(extents[axis + 1 :])
    if dtype(call) != "float32":
        raise _NoOperatorError
    x = writer.operand(call.args[0])
    if inner == 1:
        writer.steps.append(steps.softmax_float32(writer.o.name, x, y, depth))
        return
    outer = writer.elements(call) // (depth * inner)
    rows = writer.temporary(call)
    planes, turned = (outer, inner, depth), Strided([depth * inner, 1, inner])
    writer.copy(x, rows, planes, turned, Strided(_row_major(planes)))
    writer.steps.append(steps.softmax_float32(writer.o.name, rows, rows, depth))
    writer.copy(rows, y, planes, Strided(_row_major(planes)), turned)
    writer.give_back(call, rows)


_MAKERS: Mapping[str, Callable[[_Writer, Call, int], None]] = {
    "permute_dims": _permute_dims,
    "concat": _concat,
    "nn.softmax": _softmax,
}
