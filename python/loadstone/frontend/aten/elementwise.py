# SPDX-License-Identifier: Apache-2.0
"""Activations, and other functions of one tensor's elements.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  calls of the same shape.
Next: torch.py emits them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import (
    Build,
    Converter,
    cast,
    clamped,
    extents,
    importer,
    like,
    literal,
    stored,
)
from loadstone.frontend.aten.spectral import magnitude
from loadstone.relax.compat import constant, dtype, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: Of integers too, which stay what they are.
ANY_TYPE = {
    "relu": relax.op.nn.relu,
    "neg": relax.op.negative,
    "square": lambda x: relax.op.multiply(x, x),
    "sign": relax.op.sign,
    "bitwise_not": lambda x: (
        relax.op.logical_not(x) if dtype(x) == "bool" else relax.op.bitwise_not(x)
    ),
}
#: Of real numbers; of integers as float32.
REAL = {
    "sigmoid": relax.op.sigmoid,
    "tanh": relax.op.tanh,
    "silu": relax.op.nn.silu,
    "exp": relax.op.exp,
    "log": relax.op.log,
    "sqrt": relax.op.sqrt,
    "rsqrt": relax.op.rsqrt,
    "erf": relax.op.erf,
    "sin": relax.op.sin,
    "cos": relax.op.cos,
    "tan": relax.op.tan,
    "asin": relax.op.asin,
    "acos": relax.op.acos,
    "atan": relax.op.atan,
    "sinh": relax.op.sinh,
    "cosh": relax.op.cosh,
    "asinh": relax.op.asinh,
    "acosh": relax.op.acosh,
    "atanh": relax.op.atanh,
}
#: To whole numbers: of integers themselves.
ROUNDED = {
    "floor": relax.op.floor,
    "ceil": relax.op.ceil,
    "round.default": relax.op.round,
    "trunc": relax.op.trunc,
}


def _any_type(operator: Callable[[Expr], Expr]) -> Converter:
    return lambda build, x: operator(x)


def _real(operator: Callable[[Expr], Expr]) -> Converter:
    return lambda build, x: operator(cast(build, x, build.dtype))


def _rounded(operator: Callable[[Expr], Expr]) -> Converter:
    return lambda build, x: operator(x) if "float" in dtype(x) else x


for _table, _form in ((ANY_TYPE, _any_type), (REAL, _real), (ROUNDED, _rounded)):
    for _name, _operator in _table.items():
        importer(f"aten.{_name}")(_form(_operator))


@importer("aten.abs")
def _abs(build: Build, x: Expr) -> Expr:
    """Of a complex tensor, which has an axis more, its magnitude."""
    return relax.op.abs(x) if extents(x) == build.shape else magnitude(build, x)


@importer("aten.logical_not")
def _logical_not(build: Build, x: Expr) -> Expr:
    return relax.op.logical_not(cast(build, x, "bool"))


@importer("aten.isnan")
def _isnan(build: Build, x: Expr) -> Expr:
    return relax.op.isnan(x) if "float" in dtype(x) else relax.op.not_equal(x, x)


@importer("aten.isinf")
def _isinf(build: Build, x: Expr) -> Expr:
    return relax.op.equal(build.emit(relax.op.abs(x)), like(x, _infinity(x)))


def _infinity(x: Expr) -> float:
    """Of a type that has it; what no integer of others is."""
    if "float" not in dtype(x):
        raise UnsupportedError(f"of {dtype(x)}: leave it out, no integer is infinite")
    return math.inf


@importer("aten.expm1")
def _expm1(build: Build, x: Expr) -> Expr:
    """2 * sinh(x / 2) * exp(x / 2), which keeps the digits of small numbers."""
    half = build.emit(relax.op.multiply(cast(build, x, build.dtype), constant(np.float32(0.5))))
    sides = build.emit(relax.op.sinh(half)), build.emit(relax.op.exp(half))
    return relax.op.multiply(build.emit(relax.op.multiply(*sides)), constant(np.float32(2)))


@importer("aten.exp2")
def _exp2(build: Build, x: Expr) -> Expr:
    return relax.op.power(literal(np.asarray(2, build.dtype)), cast(build, x, build.dtype))


@importer("aten.log1p")
def _log1p(build: Build, x: Expr) -> Expr:
    """log(1 + x), times what 1 + x lost of a small x."""
    x = cast(build, x, build.dtype)
    more = build.emit(relax.op.add(x, like(x, 1)))
    kept = build.emit(relax.op.subtract(more, like(x, 1)))
    none = build.emit(relax.op.equal(kept, like(x, 0)))
    infinite = build.emit(relax.op.equal(more, like(x, math.inf)))
    whole = build.emit(relax.op.log(more))
    part = build.emit(relax.op.divide(x, build.emit(relax.op.where(none, like(x, 1), kept))))
    product = build.emit(relax.op.multiply(whole, part))
    small = build.emit(relax.op.where(none, x, product))
    return relax.op.where(infinite, whole, small)


@importer("aten.clamp_min.default")
def _clamp_min(build: Build, x: Expr, min_: float) -> Expr:
    return clamped(build, cast(build, x, build.dtype), min_, None)


@importer("aten.clamp_max.default")
def _clamp_max(build: Build, x: Expr, max_: float) -> Expr:
    return clamped(build, cast(build, x, build.dtype), None, max_)


@importer("aten.clamp.default")
def _clamp(build: Build, x: Expr, min_: float | None, max_: float | None) -> Expr:
    return clamped(build, cast(build, x, build.dtype), min_, max_)


@importer("aten.hardtanh")
def _hardtanh(build: Build, x: Expr, min_val: float, max_val: float) -> Expr:
    return clamped(build, x, min_val, max_val)


@importer("aten.relu6")
def _relu6(build: Build, x: Expr) -> Expr:
    return clamped(build, x, 0.0, 6.0)


@importer("aten.hardsigmoid")
def _hardsigmoid(build: Build, x: Expr) -> Expr:
    """clip(x / 6 + 1 / 2, 0, 1): a line, which joins the layer before it, and an activation."""
    line = build.emit(relax.op.add(build.emit(relax.op.multiply(x, like(x, 1 / 6))), like(x, 0.5)))
    return clamped(build, line, 0.0, 1.0)


@importer("aten.hardswish")
def _hardswish(build: Build, x: Expr) -> Expr:
    return relax.op.multiply(x, build.emit(_hardsigmoid(build, x)))


@importer("aten.leaky_relu")
def _leaky_relu(build: Build, x: Expr, negative_slope: float) -> Expr:
    return relax.op.nn.leakyrelu(x, negative_slope)


@importer("aten.prelu", "aten._prelu_kernel")
def _prelu(build: Build, x: Expr, weight: Expr) -> Expr:
    """One slope, or one per channel."""
    slopes = stored(weight, "its slopes").reshape(-1)
    if len(extents(x)) < 2:
        slopes = np.broadcast_to(slopes, extents(x)[:1] or (1,))
        below = build.emit(relax.op.multiply(x, like(x, slopes[0])))
        return relax.op.where(build.emit(relax.op.greater(x, like(x, 0.0))), x, below)
    return relax.op.nn.prelu(x, constant(np.broadcast_to(slopes, extents(x)[1:2])), axis=1)


@importer("aten.elu")
def _elu(build: Build, x: Expr, alpha: float, scale: float, input_scale: float) -> Expr:
    """scale * (max(x, 0) + alpha * (exp(min(x, 0) * input_scale) - 1)). NaN would reach positive
    elements too, which PyTorch leaves alone."""
    for name, value in (("alpha", alpha), ("scale", scale), ("input_scale", input_scale)):
        if not math.isfinite(value):
            raise UnsupportedError(f'its argument "{name}" is {value}: finite numbers are done')
    below = build.emit(relax.op.minimum(x, like(x, 0.0)))
    power = build.emit(relax.op.exp(build.emit(relax.op.multiply(below, like(x, input_scale)))))
    curve = build.emit(
        relax.op.multiply(
            build.emit(relax.op.subtract(power, like(x, 1.0))), like(x, alpha * scale)
        )
    )
    line = build.emit(relax.op.multiply(build.emit(relax.op.nn.relu(x)), like(x, scale)))
    return relax.op.add(line, curve)


@importer("aten.selu")
def _selu(build: Build, x: Expr) -> Expr:
    return _elu(build, x, 1.6732632423543772, 1.0507009873554805, 1)


@importer("aten.celu")
def _celu(build: Build, x: Expr, alpha: float) -> Expr:
    if alpha == 0:
        raise UnsupportedError('its argument "alpha" is 0, by which it divides')
    return _elu(build, x, alpha, 1, 1 / alpha)


@importer("aten.gelu")
def _gelu(build: Build, x: Expr, approximate: str) -> Expr:
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f'its argument "approximate" is {approximate}: none or tanh is done')
    return relax.op.nn.gelu_tanh(x) if approximate == "tanh" else relax.op.nn.gelu(x)


@importer("aten.softmax.int", "aten._softmax", only={"half_to_float": False})
def _softmax(build: Build, x: Expr, dim: int) -> Expr:
    return relax.op.nn.softmax(x, axis=dim)


@importer("aten.log_softmax.int", "aten._log_softmax", only={"half_to_float": False})
def _log_softmax(build: Build, x: Expr, dim: int) -> Expr:
    return relax.op.nn.log_softmax(x, axis=dim)


@importer("aten.reciprocal")
def _reciprocal(build: Build, x: Expr) -> Expr:
    return relax.op.divide(constant(np.ones((), build.dtype)), cast(build, x, build.dtype))


@importer("aten.softplus")
def _softplus(build: Build, x: Expr, beta: float, threshold: float) -> Expr:
    return relax.op.nn.softplus(x, beta=float(beta), threshold=float(threshold))


@importer("aten.mish")
def _mish(build: Build, x: Expr) -> Expr:
    curve = build.emit(_softplus(build, x, 1, 20))
    return relax.op.multiply(x, build.emit(relax.op.tanh(curve)))
