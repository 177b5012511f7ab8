# SPDX-License-Identifier: Apache-2.0
"""What converters of operators share: the table, the place for calls, and small questions.

In:   nothing.
Out:  OPERATORS, which the files beside this one fill: what each operator of ATen becomes, and which
      of its arguments that reads; Build; helpers.
Next: quantized.py, weighted.py, elementwise.py, pooling.py, movement.py, recurrent.py.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.numerics import Array
from loadstone.relax.compat import (
    FloatImm,
    constant,
    constant_int64,
    dtype,
    is_call,
    is_constant,
    relax,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Expr

__all__ = [
    "OPERATORS",
    "Build",
    "Converter",
    "Importer",
    "Numbers",
    "batched",
    "cast",
    "clamped",
    "extents",
    "importer",
    "like",
    "literal",
    "pair",
    "stored",
    "taken",
]

#: Takes a Build and the arguments that it reads, by ATen's names; returns the operator's result, or
#: a list for several: None where nobody may read one.
Converter: TypeAlias = "Callable[..., Expr | list[Expr] | list[Expr | None]]"
#: A dataclass of options with a field `x`.
Batch: TypeAlias = Any
#: One number for all axes of a window, or one for each.
Numbers: TypeAlias = "int | Sequence[int]"
#: Arguments of any operator that say where and how a tensor lies, and nothing of its values.
PLACES = (
    *("memory_format", "layout", "device", "pin_memory", "non_blocking", "copy", "implicit"),
    *("cudnn_enable", "cudnn_enabled", "requires_grad"),
)


@dataclass(frozen=True)
class Importer:
    """What an operator becomes.

    reads: the arguments of ATen's schema that `convert` takes (`self` or `input` is x, and what
        would hide a word of Python has _ behind it).
    gathers: the class whose fields they are, where they are many.
    free: those that need no reading, because their whole effect is the shape or type of the result,
        which PyTorch says, or they are of training alone.
    only: the one value of others that is done, where the schema has no default.
    needs: those of `reads` that the schema of every overload must have.

    An argument that is in none of these has its schema's default, or the operator is refused.
    """

    convert: Converter
    reads: tuple[str, ...]
    gathers: type | None = None
    free: tuple[str, ...] = ()
    only: Mapping[str, object] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def __call__(self, build: Build, arguments: Mapping[str, object]) -> object:
        """arguments: all of the schema's, with its defaults. Raises UnsupportedError for one that
        `convert` wants and this overload does not have."""
        names = {name: self.named(name, arguments) for name in self.reads}
        read = {name: arguments[own] for name, own in names.items() if own in arguments}
        return (
            self.convert(build, **read)
            if self.gathers is None
            else self.convert(build, self.gathers(**read))
        )

    @staticmethod
    def named(name: str, arguments: Mapping[str, object]) -> str:
        """ATen's name of a parameter."""
        if name != "x":
            return name.rstrip("_")
        return "self" if "self" in arguments else "input"


#: Operators by `namespace.name`, or `namespace.name.overload` where overloads differ in their
#: arguments.
OPERATORS: dict[str, Importer] = {}


@dataclass(frozen=True)
class Build:
    """Where a converter puts what comes before its result. name: of the node. shape, dtype: of
    PyTorch's result. promoted: the type in which PyTorch's operands meet."""

    builder: BlockBuilder
    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    promoted: str = "float32"

    def emit(self, expr: Expr) -> Expr:
        """Binds an expression to a variable, so that its shape is known."""
        return self.builder.emit(expr, name_hint=self.name + "/step")

    def producer(self, expr: Expr) -> Expr:
        """The call behind a variable."""
        found = self.builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
        return found if found is not None else expr


def importer(
    *names: str,
    gathers: type | None = None,
    free: Sequence[str] = (),
    only: Mapping[str, object] | None = None,
) -> Callable[[Converter], Converter]:
    """Enters a converter into the table under these names. Its parameters, or the fields of
    `gathers`, are the arguments that it reads."""

    def register(convert: Converter) -> Converter:
        taken = inspect.signature(gathers or convert).parameters.values()
        own = [entry for entry in taken if gathers or entry.name != "build"]
        reads, needs = (
            tuple(entry.name for entry in entries)
            for entries in (own, [entry for entry in own if entry.default is entry.empty])
        )
        made = Importer(convert, reads, gathers, tuple(free), only or {}, needs)
        OPERATORS.update(dict.fromkeys(names, made))
        return convert

    return register


def pair(numbers: Numbers) -> tuple[int, int]:
    """ATen broadcasts one number to both dimensions of an image."""
    items = [numbers] if isinstance(numbers, int) else list(numbers)
    return (items[0], items[-1])


def extents(x: Expr) -> tuple[int, ...]:
    """The shape of an expression."""
    known = shape(x)
    assert known is not None  # torch.py refuses dynamic inputs
    return known


def literal(array: Array) -> Expr:
    """A tensor of the program, of any shape, as a constant of its own type. Raises
    UnsupportedError for float64 that float32 does not hold."""
    if array.dtype == np.int64:
        return constant_int64(array)
    if array.dtype == np.float64 and not np.array_equal(array.astype(np.float32), array, True):
        raise UnsupportedError(
            "it computes with a constant of float64: make it float32 (model.float())"
        )
    return constant(array)


def cast(build: Build, x: Expr | float, kind: str) -> Expr:
    """A tensor, or a Python number, in another type."""
    if not isinstance(x, relax.Expr):
        return literal(np.asarray(x).astype(kind))
    return x if dtype(x) == kind else build.emit(relax.op.astype(x, kind))


def batched(rank: int) -> Callable[[Converter], Converter]:
    """For operators whose options have an image or rows `x`: PyTorch takes one without a batch,
    too, which goes through as a batch of one."""

    def wrap(convert: Converter) -> Converter:
        def whole(build: Build, said: Batch) -> Expr:
            if len(extents(said.x)) != rank - 1:
                return convert(build, said)
            one = build.emit(relax.op.reshape(said.x, (1, *extents(said.x))))
            made = build.emit(convert(build, replace(said, x=one)))
            return relax.op.reshape(made, extents(made)[1:])

        return whole

    return wrap


def taken(build: Build, x: Expr, index: Array, axis: int) -> Expr:
    """Elements by stored places, one-dimensional, none of which lies outside."""
    return build.emit(relax.op.take(x, literal(index.astype(np.int64)), axis=axis, mode="clip"))


def like(x: Expr, number: Expr | float) -> Expr:
    """A Python number as a constant of the type of x."""
    return number if isinstance(number, relax.Expr) else literal(np.asarray(number, dtype(x)))


def stored(expr: Expr, what: str) -> Array:
    """The array in a constant, in its shape. Raises UnsupportedError for what the model
    computes."""
    if not is_constant(expr):
        raise UnsupportedError(
            f"{what} are computed by the model: only constants are supported there"
        )
    return value(expr)


def clamped(build: Build, x: Expr, low: float | None, high: float | None) -> Expr:
    """clip; what it clamps already (relu, clip) joins it, because a layer has one activation."""
    least, most = (
        -math.inf if low is None else float(low),
        math.inf if high is None else float(high),
    )
    if "float" not in dtype(x):
        for bound, operator in ((low, relax.op.maximum), (high, relax.op.minimum)):
            x = x if bound is None else build.emit(operator(x, like(x, bound)))
        return x
    least = min(least, most)  # the upper limit wins
    inner = build.producer(x)
    if is_call(inner, "nn.relu"):
        x, least, most = inner.args[0], max(least, 0.0), max(most, 0.0)
    elif is_call(inner, "clip"):
        bounds = [float(scalar(bound)) for bound in inner.args[1:]]
        x, least, most = (
            inner.args[0],
            min(max(bounds[0], least), most),
            min(max(bounds[1], least), most),
        )
    return relax.op.clip(x, FloatImm("float32", least), FloatImm("float32", most))
