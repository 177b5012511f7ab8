# SPDX-License-Identifier: Apache-2.0
"""Operators of two tensors' elements: arithmetic, comparisons, choices.

In:   the arguments of an operator, tensors as Relax expressions, or numbers.
Out:  calls whose operands have met in one type, as PyTorch's promotion says.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Converter, cast, extents, importer, literal, stored
from loadstone.relax.compat import dtype, is_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


def _binary(operator: Callable[[Expr, Expr], Expr]) -> Converter:
    """Of operands that meet in the result's type."""

    def convert(build: Build, x: Expr, other: Expr | float) -> Expr:
        return operator(cast(build, x, build.dtype), cast(build, other, build.dtype))

    return convert


def _weighed(operator: Callable[[Expr, Expr], Expr]) -> Converter:
    """alpha weighs the second."""

    def convert(build: Build, x: Expr, other: Expr | float, alpha: float) -> Expr:
        second = cast(build, other, build.dtype)
        if alpha != 1:
            second = build.emit(relax.op.multiply(second, cast(build, alpha, build.dtype)))
        return operator(cast(build, x, build.dtype), second)

    return convert


def _compared(operator: Callable[[Expr, Expr], Expr]) -> Converter:
    """Of operands that meet in a type of their own; the result is bool. Truths are compared as
    numbers."""

    def convert(build: Build, x: Expr, other: Expr | float) -> Expr:
        kind = "int32" if build.promoted == "bool" else build.promoted
        return operator(cast(build, x, kind), cast(build, other, kind))

    return convert


def _logical(operator: Callable[[Expr, Expr], Expr]) -> Converter:
    return lambda build, x, other: operator(*(cast(build, side, "bool") for side in (x, other)))


def _bitwise(
    logical: Callable[[Expr, Expr], Expr], bits: Callable[[Expr, Expr], Expr]
) -> Converter:
    def convert(build: Build, x: Expr, other: Expr | float) -> Expr:
        sides = [cast(build, side, build.dtype) for side in (x, other)]
        return (logical if build.dtype == "bool" else bits)(*sides)

    return convert


for _name, _operator in {
    "mul": lambda a, b: (
        relax.op.logical_and(a, b) if dtype(a) == "bool" else relax.op.multiply(a, b)
    ),
    "maximum": relax.op.maximum,
    "minimum": relax.op.minimum,
}.items():
    importer(f"aten.{_name}")(_binary(_operator))
for _name, _operator in {
    "add": lambda a, b: relax.op.logical_or(a, b) if dtype(a) == "bool" else relax.op.add(a, b),
    "sub": relax.op.subtract,
}.items():
    importer(f"aten.{_name}")(_weighed(_operator))
for _name, _operator in {
    "eq": relax.op.equal,
    "ne": relax.op.not_equal,
    "lt": relax.op.less,
    "le": relax.op.less_equal,
    "gt": relax.op.greater,
    "ge": relax.op.greater_equal,
}.items():
    importer(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_compared(_operator))
for _name, _operator in {
    "logical_and": relax.op.logical_and,
    "logical_or": relax.op.logical_or,
    "logical_xor": relax.op.logical_xor,
}.items():
    importer(f"aten.{_name}")(_logical(_operator))
for _name, _pair in {
    "bitwise_and": (relax.op.logical_and, relax.op.bitwise_and),
    "bitwise_or": (relax.op.logical_or, relax.op.bitwise_or),
    "bitwise_xor": (relax.op.logical_xor, relax.op.bitwise_xor),
}.items():
    importer(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_bitwise(*_pair))


@importer("aten.rsub")
def _rsub(build: Build, x: Expr, other: Expr | float, alpha: float) -> Expr:
    """other - alpha x"""
    return _weighed(relax.op.subtract)(build, other, x, alpha)


@importer("aten.div.Tensor", "aten.div.Scalar")
def _div(build: Build, x: Expr, other: Expr | float) -> Expr:
    """By the number 0 as times infinity, of its sign: compilers refuse to divide by it."""
    a, b = cast(build, x, build.dtype), cast(build, other, build.dtype)
    if is_constant(b) and extents(b) == () and not stored(b, "it"):
        infinity = np.copysign(np.float32(np.inf), stored(b, "it"))
        return relax.op.multiply(a, literal(infinity.astype(build.dtype)))
    return relax.op.divide(a, b)


@importer("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _div_mode(build: Build, x: Expr, other: Expr | float, rounding_mode: str | None) -> Expr:
    if rounding_mode is None:
        return _div(build, x, other)
    if "int" in build.dtype or rounding_mode != "trunc":
        return _floor_divide(build, x, other) if rounding_mode == "floor" else _refused(build)
    return relax.op.trunc(build.emit(_div(build, x, other)))


def _refused(build: Build) -> Expr:
    raise UnsupportedError(
        f'it divides {build.dtype} with the rounding "trunc": of integers "floor" is done'
    )


@importer("aten.floor_divide")
def _floor_divide(build: Build, x: Expr, other: Expr | float) -> Expr:
    """Of real numbers as Python and PyTorch do: the quotient of what the remainder leaves, which is
    whole but for rounding."""
    a, b = cast(build, x, build.dtype), cast(build, other, build.dtype)
    if "int" in build.dtype:
        return relax.op.floor_divide(a, _nonzero(b))
    left = build.emit(_remainder(build, a, b))
    whole = build.emit(relax.op.divide(build.emit(relax.op.subtract(a, left)), b))
    rounded = build.emit(relax.op.round(whole))
    exact = build.emit(relax.op.divide(a, b))
    return relax.op.where(
        build.emit(relax.op.equal(b, literal(np.zeros((), build.dtype)))), exact, rounded
    )


@importer("aten.remainder.Tensor", "aten.remainder.Scalar")
def _remainder(build: Build, x: Expr, other: Expr | float) -> Expr:
    """It has the divisor's sign."""
    a, b = cast(build, x, build.dtype), cast(build, other, build.dtype)
    if "int" in build.dtype:
        return relax.op.floor_mod(a, _nonzero(b))
    left = build.emit(relax.op.mod(a, b))
    zero = literal(np.zeros((), build.dtype))
    signs = [build.emit(relax.op.less(side, zero)) for side in (left, b)]
    differ = build.emit(relax.op.logical_xor(*signs))
    some = build.emit(relax.op.not_equal(left, zero))
    return relax.op.where(
        build.emit(relax.op.logical_and(differ, some)), build.emit(relax.op.add(left, b)), left
    )


@importer("aten.fmod.Tensor", "aten.fmod.Scalar")
def _fmod(build: Build, x: Expr, other: Expr | float) -> Expr:
    """It has the dividend's sign."""
    a, b = cast(build, x, build.dtype), cast(build, other, build.dtype)
    return relax.op.mod(a, _nonzero(b) if "int" in build.dtype else b)


def _nonzero(divisor: Expr) -> Expr:
    """Integers divided by what is computed could stop the program on a board."""
    if not is_constant(divisor) or not np.all(stored(divisor, "it")):
        raise UnsupportedError(
            "it divides integers by what is computed, or by 0: divide real numbers (x.float())"
        )
    return divisor


@importer("aten.atan2")
def _atan2(build: Build, x: Expr, other: Expr) -> Expr:
    return relax.op.atan2(cast(build, x, build.dtype), cast(build, other, build.dtype))


@importer("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def _pow(build: Build, x: Expr | float, exponent: Expr | float) -> Expr:
    base = cast(build, x, build.dtype)
    if not isinstance(exponent, relax.Expr) and exponent in (1, 2, 3):
        product = base
        for _ in range(int(exponent) - 1):
            product = build.emit(relax.op.multiply(product, base))
        return product
    if "int" in build.dtype:
        raise UnsupportedError("a power of integers: only squares and cubes are done")
    return relax.op.power(base, cast(build, exponent, build.dtype))


@importer("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def _where(build: Build, condition: Expr, x: Expr | float, other: Expr | float) -> Expr:
    sides = [cast(build, side, build.dtype) for side in (x, other)]
    return relax.op.where(cast(build, condition, "bool"), *sides)


@importer("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(build: Build, x: Expr, mask: Expr, value: Expr | float) -> Expr:
    return relax.op.where(mask, cast(build, value, build.dtype), x)


@importer("aten.clamp.Tensor")
def _clamp_by(build: Build, x: Expr, min_: Expr | None, max_: Expr | None) -> Expr:
    for bound, operator in ((min_, relax.op.maximum), (max_, relax.op.minimum)):
        if bound is not None:
            x = build.emit(operator(cast(build, x, build.dtype), cast(build, bound, build.dtype)))
    return x
