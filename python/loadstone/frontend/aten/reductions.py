# SPDX-License-Identifier: Apache-2.0
"""Reductions: along axes, or of a whole tensor.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  mean, sum, max ...
Next: torch.py emits them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Converter, cast, extents, importer, like, literal
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

Axes = int | Sequence[int] | None


def _reduction(operator: Callable[..., Expr]) -> Converter:
    """Computed in the result's type."""

    def convert(build: Build, x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
        if not extents(x):
            return cast(build, x, build.dtype)
        return operator(cast(build, x, build.dtype), axis=_axes(x, dim), keepdims=keepdim)

    return convert


importer("aten.mean")(_reduction(relax.op.mean))
importer("aten.sum", free=("dtype",))(_reduction(relax.op.sum))
importer("aten.prod", free=("dtype",))(_reduction(relax.op.prod))
importer("aten.amax", "aten.max.default")(_reduction(relax.op.max))
importer("aten.amin", "aten.min.default")(_reduction(relax.op.min))


@importer("aten.any")
def _any(build: Build, x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    return _truths(build, x, dim, keepdim, relax.op.max)


@importer("aten.all")
def _all(build: Build, x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    return _truths(build, x, dim, keepdim, relax.op.min)


def _truths(build: Build, x: Expr, dim: Axes, keepdim: bool, operator: Callable[..., Expr]) -> Expr:
    if build.dtype != "bool":
        raise UnsupportedError("of uint8: use truths")
    numbers = cast(build, cast(build, x, "bool"), "int32")
    if extents(x):
        numbers = build.emit(operator(numbers, axis=_axes(x, dim), keepdims=keepdim))
    return cast(build, numbers, "bool")


@importer("aten.argmax")
def _argmax(build: Build, x: Expr, dim: int | None, keepdim: bool) -> Expr:
    return _place(build, x, dim, keepdim, relax.op.argmax)


@importer("aten.argmin")
def _argmin(build: Build, x: Expr, dim: int | None, keepdim: bool) -> Expr:
    return _place(build, x, dim, keepdim, relax.op.argmin)


def _place(
    build: Build, x: Expr, dim: int | None, keepdim: bool, operator: Callable[..., Expr]
) -> Expr:
    """The first of equal ones."""
    if not extents(x):
        return literal(np.zeros((), np.int64))
    if dim is None:
        flat = build.emit(operator(build.emit(relax.op.reshape(x, (-1,))), axis=0))
        return relax.op.reshape(flat, build.shape)
    return operator(x, axis=dim, keepdims=keepdim)


@importer("aten.max.dim")
def _max_dim(build: Build, x: Expr, dim: int, keepdim: bool) -> list[Expr]:
    places = _place(build, x, dim, keepdim, relax.op.argmax)
    return [relax.op.max(x, axis=_axes(x, dim), keepdims=keepdim) if extents(x) else x, places]


@importer("aten.min.dim")
def _min_dim(build: Build, x: Expr, dim: int, keepdim: bool) -> list[Expr]:
    places = _place(build, x, dim, keepdim, relax.op.argmin)
    return [relax.op.min(x, axis=_axes(x, dim), keepdims=keepdim) if extents(x) else x, places]


@importer("aten.var.correction")
def _var(build: Build, x: Expr, dim: Axes, correction: float | None, keepdim: bool) -> Expr:
    """The sum of squares over the count less the correction, which is 1 where none is given."""
    axes = _axes(x, dim)
    count = math.prod(extents(x)[axis] for axis in axes)
    degrees = max(count - (1 if correction is None else correction), 0)
    if not degrees:
        raise UnsupportedError(
            f"the variance of {count} elements, less a correction, is not defined"
        )
    centre = build.emit(relax.op.mean(x, axis=axes, keepdims=True))
    apart = build.emit(relax.op.subtract(x, centre))
    squares = build.emit(
        relax.op.mean(build.emit(relax.op.multiply(apart, apart)), axis=axes, keepdims=keepdim)
    )
    return relax.op.multiply(squares, like(x, count / degrees))


@importer("aten.var_mean.correction")
def _var_mean(
    build: Build, x: Expr, dim: Axes, correction: float | None, keepdim: bool
) -> list[Expr]:
    mean = relax.op.mean(x, axis=_axes(x, dim), keepdims=keepdim)
    return [_var(build, x, dim, correction, keepdim), mean]


@importer("aten.linalg_vector_norm")
def _vector_norm(build: Build, x: Expr, ord_: float, dim: Axes, keepdim: bool) -> Expr:
    """The root of the sum of powers; at infinity the largest, at its opposite the least."""
    axes, size = _axes(x, dim), build.emit(relax.op.abs(x))
    if not extents(x):
        return size
    if math.isinf(ord_):
        return (relax.op.max if ord_ > 0 else relax.op.min)(size, axis=axes, keepdims=keepdim)
    if ord_ not in (1, 2):
        raise UnsupportedError(f'its argument "ord" is {ord_}: 1, 2 and infinity are done')
    powers = size if ord_ == 1 else build.emit(relax.op.multiply(x, x))
    total = relax.op.sum(powers, axis=axes, keepdims=keepdim)
    return total if ord_ == 1 else relax.op.sqrt(build.emit(total))


@importer("aten.cumsum", free=("dtype",))
def _cumsum(build: Build, x: Expr, dim: int) -> Expr:
    one = cast(build, x, build.dtype)
    return relax.op.cumsum(one, axis=dim) if extents(x) else one


@importer("aten.cumprod", free=("dtype",))
def _cumprod(build: Build, x: Expr, dim: int) -> Expr:
    one = cast(build, x, build.dtype)
    return relax.op.cumprod(one, axis=dim) if extents(x) else one


def _axes(x: Expr, dim: Axes) -> list[int]:
    """None and an empty list are all axes."""
    items = [dim] if isinstance(dim, int) else list(dim or ())
    rank = len(extents(x))
    return sorted(axis % rank for axis in items) or list(range(rank))
