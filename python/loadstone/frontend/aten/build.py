# SPDX-License-Identifier: Apache-2.0
"""What converters of operators share: the table, the place for calls, and small questions.

In:   nothing.
Out:  OPERATORS, which the files beside this one fill; Build; helpers.
Next: quantized.py, weighted.py, elementwise.py, pooling.py, movement.py, recurrent.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.numerics import Array
from loadstone.relax.compat import (
    FloatImm,
    constant,
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
    "Numbers",
    "clamped",
    "extents",
    "importer",
    "like",
    "pair",
    "stored",
]

#: Takes a Build and the operator's arguments; returns its result, or a list for several: None where
#: nobody may read one.
Converter: TypeAlias = "Callable[..., Expr | list[Expr] | list[Expr | None]]"
#: One number for all axes of a window, or one for each.
Numbers: TypeAlias = "int | Sequence[int]"
#: Operators by `namespace.name`, or `namespace.name.overload` where overloads differ in their
#: arguments.
OPERATORS: dict[str, Converter] = {}


@dataclass(frozen=True)
class Build:
    """Where a converter puts what comes before its result. name: of the node. shape: of PyTorch's
    result."""

    builder: BlockBuilder
    name: str
    shape: tuple[int, ...]

    def emit(self, expr: Expr) -> Expr:
        """Binds an expression to a variable, so that its shape is known."""
        return self.builder.emit(expr, name_hint=self.name + "/step")

    def producer(self, expr: Expr) -> Expr:
        """The call behind a variable."""
        found = self.builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
        return found if found is not None else expr


def importer(*names: str) -> Callable[[Converter], Converter]:
    """Enters a converter into the table under these names."""

    def register(convert: Converter) -> Converter:
        OPERATORS.update(dict.fromkeys(names, convert))
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


def like(x: Expr, number: Expr | float) -> Expr:
    """A Python number as a constant of the type of x."""
    return number if isinstance(number, relax.Expr) else constant(np.asarray(number, dtype(x)))


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
