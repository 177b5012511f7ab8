# SPDX-License-Identifier: Apache-2.0
"""Operators on elements: activations and arithmetic.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  calls of the same shape.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.aten.build import (
    OPERATORS,
    Build,
    Converter,
    clamped,
    extents,
    importer,
    like,
    stored,
)
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


def _unary(operator: Callable[[Expr], Expr]) -> Converter:
    return lambda build, x: operator(x)


OPERATORS.update(
    {
        f"aten.{name}": _unary(operator)
        for name, operator in {
            "relu": relax.op.nn.relu,
            "sigmoid": relax.op.sigmoid,
            "tanh": relax.op.tanh,
            "silu": relax.op.nn.silu,
            "exp": relax.op.exp,
            "log": relax.op.log,
            "sqrt": relax.op.sqrt,
            "rsqrt": relax.op.rsqrt,
            "abs": relax.op.abs,
            "neg": relax.op.negative,
            "erf": relax.op.erf,
            "floor": relax.op.floor,
            "ceil": relax.op.ceil,
            "round.default": relax.op.round,
            "square": relax.op.square,
        }.items()
    }
)


@importer("aten.clamp.default")
def _clamp(build: Build, x: Expr, low: float | None = None, high: float | None = None) -> Expr:
    return clamped(build, x, low, high)


OPERATORS["aten.hardtanh"] = lambda build, x, low=-1.0, high=1.0: clamped(build, x, low, high)
OPERATORS["aten.clamp_min.default"] = lambda build, x, low: clamped(build, x, low, None)
OPERATORS["aten.clamp_max.default"] = lambda build, x, high: clamped(build, x, None, high)
OPERATORS["aten.relu6"] = lambda build, x: clamped(build, x, 0.0, 6.0)


@importer("aten.hardsigmoid")
def _hardsigmoid(build: Build, x: Expr) -> Expr:
    """clip(x / 6 + 1 / 2, 0, 1): a line, which joins the layer before it, and an activation."""
    line = build.emit(relax.op.add(build.emit(relax.op.multiply(x, like(x, 1 / 6))), like(x, 0.5)))
    return clamped(build, line, 0.0, 1.0)


@importer("aten.hardswish")
def _hardswish(build: Build, x: Expr) -> Expr:
    return relax.op.multiply(x, build.emit(_hardsigmoid(build, x)))


@importer("aten.leaky_relu")
def _leaky_relu(build: Build, x: Expr, slope: float = 0.01) -> Expr:
    return relax.op.nn.leakyrelu(x, slope)


@importer("aten.prelu")
def _prelu(build: Build, x: Expr, weight: Expr) -> Expr:
    """One slope, or one per channel."""
    slopes = stored(weight, "its slopes").reshape(-1)
    return relax.op.nn.prelu(x, constant(np.broadcast_to(slopes, extents(x)[1:2])), axis=1)


@importer("aten.elu")
def _elu(build: Build, x: Expr, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expr:
    """scale * (max(x, 0) + alpha * (exp(min(x, 0) * input_scale) - 1))."""
    below = build.emit(relax.op.minimum(x, like(x, 0.0)))
    power = build.emit(relax.op.exp(build.emit(relax.op.multiply(below, like(x, input_scale)))))
    curve = build.emit(
        relax.op.multiply(
            build.emit(relax.op.subtract(power, like(x, 1.0))), like(x, alpha * scale)
        )
    )
    line = build.emit(relax.op.multiply(build.emit(relax.op.nn.relu(x)), like(x, scale)))
    return relax.op.add(line, curve)


OPERATORS["aten.selu"] = lambda build, x: _elu(build, x, 1.6732632423543772, 1.0507009873554805)
OPERATORS["aten.celu"] = lambda build, x, alpha=1.0: _elu(build, x, alpha, 1, 1 / alpha)


@importer("aten.gelu")
def _gelu(build: Build, x: Expr, approximate: str = "none") -> Expr:
    return relax.op.nn.gelu_tanh(x) if approximate == "tanh" else relax.op.nn.gelu(x)


@importer("aten.softmax.int", "aten._softmax")
def _softmax(build: Build, x: Expr, axis: int, kind: object = None) -> Expr:
    return relax.op.nn.softmax(x, axis=axis)


@importer("aten.log_softmax.int", "aten._log_softmax")
def _log_softmax(build: Build, x: Expr, axis: int, kind: object = None) -> Expr:
    return relax.op.nn.log_softmax(x, axis=axis)


def _binary(operator: Callable[[Expr, Expr], Expr]) -> Converter:
    def convert(build: Build, a: Expr, b: Expr, alpha: float = 1) -> Expr:
        """Operands of two types meet in the result's; alpha weighs the second."""
        other = like(a, b)
        first = a if isinstance(a, relax.Expr) else like(b, a)
        if alpha != 1:
            other = build.emit(relax.op.multiply(other, like(other, alpha)))
        return operator(first, other)

    return convert


for _name, _operator in {
    "add": relax.op.add,
    "sub": relax.op.subtract,
    "mul": relax.op.multiply,
    "maximum": relax.op.maximum,
    "minimum": relax.op.minimum,
}.items():
    OPERATORS[f"aten.{_name}"] = _binary(_operator)
OPERATORS["aten.div.Tensor"] = _binary(relax.op.divide)
OPERATORS["aten.gt.Scalar"] = _binary(relax.op.greater)
OPERATORS["aten.where.self"] = lambda build, condition, a, b: relax.op.where(condition, a, b)
for _overload in ("Tensor", "Scalar"):
    OPERATORS[f"aten.rsub.{_overload}"] = lambda build, a, b, alpha=1: _binary(relax.op.subtract)(
        build, like(a, b), a, alpha
    )


@importer("aten.reciprocal")
def _reciprocal(build: Build, x: Expr) -> Expr:
    return relax.op.divide(like(x, 1.0), x)


@importer("aten.pow.Tensor_Scalar")
def _pow(build: Build, x: Expr, exponent: float) -> Expr:
    return relax.op.multiply(x, x) if exponent == 2 else relax.op.power(x, like(x, exponent))


@importer("aten.softplus")
def _softplus(build: Build, x: Expr, beta: float = 1, threshold: float = 20) -> Expr:
    return relax.op.nn.softplus(x, beta=float(beta), threshold=float(threshold))


@importer("aten.mish")
def _mish(build: Build, x: Expr) -> Expr:
    return relax.op.multiply(x, build.emit(relax.op.tanh(build.emit(_softplus(build, x)))))
