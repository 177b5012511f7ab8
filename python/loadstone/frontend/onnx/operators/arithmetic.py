# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on two tensors, element by element.

In:   an OnnxNode; shapes that broadcast, as NumPy's do, or by an axis as ONNX had it up to opset 6.
Out:  its result as a Relax expression, in the type that ONNX says.
Next: importer.py binds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.relax.compat import exact_constant, is_constant, relax, scalar

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

_PLAIN: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "Add": relax.op.add,
    "And": relax.op.logical_and,
    "BitwiseAnd": relax.op.bitwise_and,
    "BitwiseOr": relax.op.bitwise_or,
    "BitwiseXor": relax.op.bitwise_xor,
    "Div": relax.op.divide,
    "Equal": relax.op.equal,
    "Greater": relax.op.greater,
    "GreaterOrEqual": relax.op.greater_equal,
    "Less": relax.op.less,
    "LessOrEqual": relax.op.less_equal,
    "Mul": relax.op.multiply,
    "Or": relax.op.logical_or,
    "Sub": relax.op.subtract,
    "Xor": relax.op.logical_xor,
}
#: Up to this opset the second tensor had to be stretched by attributes.
_STRETCHED = 6
_FIRST_BROADCAST = (
    "Add And Div Equal Greater Less Mul Or Pow Sub Xor"  # those that are as old as that
)


@converter(*_PLAIN, inputs=2, opsets=(_STRETCHED + 1, ALL))
def _plain(node: OnnxNode) -> Expr:
    """Integers are divided towards zero."""
    y = _divisor(node) if node.op_type == "Div" else node.tensor(1)
    return _PLAIN[node.op_type](node.tensor(0), y)


def _divisor(node: OnnxNode) -> Expr:
    """Of integers 1 in the place of 0, by which ONNX does not say what a quotient is, and C stops
    the process."""
    y, kind = node.tensor(1), node.dtype(1)
    if kind.startswith("float"):
        return y
    zero, one = (exact_constant(np.array(n, kind)) for n in (0, 1))
    return node.emit(relax.op.where(node.emit(relax.op.equal(y, zero)), one, y))


@converter(*_FIRST_BROADCAST.split(), attributes="axis broadcast", inputs=2, opsets=(1, _STRETCHED))
def _stretched(node: OnnxNode) -> Expr:
    """The second tensor's axes stand from `axis` on among those of the first, at its end if
    none is given."""
    x, y = node.tensor(0), node.tensor(1)
    rank, given = len(node.extents(0)), node.extents(1)
    axis = node.attributes.get("axis")
    if node.attributes.get("broadcast") and axis is not None and len(given) < rank:
        behind = rank - int(axis) % rank - len(given)
        y = node.emit(relax.op.reshape(y, (*given, *[1] * behind)))
    return _power(node, x, y) if node.op_type == "Pow" else _PLAIN[node.op_type](x, y)


@converter("Pow", inputs=2, opsets=(_STRETCHED + 1, ALL))
def _pow(node: OnnxNode) -> Expr:
    return _power(node, node.tensor(0), node.tensor(1))


def _power(node: OnnxNode, base: Expr, exponent: Expr) -> Expr:
    """In the type of the base; integers as if by real numbers, cut towards zero."""
    kind, other = node.dtype(0), node.dtype(1)
    if kind.startswith("float"):
        same = exponent if other == kind else node.emit(relax.op.astype(exponent, kind))
        return relax.op.power(base, same)
    real = [node.emit(relax.op.astype(entry, "float64")) for entry in (base, exponent)]
    found = node.emit(relax.op.power(*real))
    whole = node.emit(relax.op.round(found))
    error = node.emit(relax.op.abs(node.emit(relax.op.subtract(found, whole))))
    bound = node.emit(relax.op.multiply(node.emit(relax.op.abs(whole)), _number(1e-12)))
    exact = node.emit(relax.op.less_equal(error, bound))  # a power is rounded, too
    cut = node.emit(relax.op.where(exact, whole, node.emit(relax.op.trunc(found))))
    return relax.op.astype(cut, kind)


def _number(value: float) -> Expr:
    return exact_constant(np.array(value, np.float64))


@converter("Mod", attributes="fmod", inputs=2)
def _mod(node: OnnxNode) -> Expr:
    """fmod: the sign of the dividend, as C has it; without it that of the divisor."""
    x, y, kind = node.tensor(0), _divisor(node), node.dtype(0)
    if node.attributes["fmod"]:
        return relax.op.mod(x, y)
    if not kind.startswith("float"):
        return relax.op.floor_mod(x, y)
    zero = exact_constant(np.zeros((), kind))
    rest = node.emit(relax.op.mod(x, y))
    apart = relax.op.not_equal(
        node.emit(relax.op.less(rest, zero)), node.emit(relax.op.less(y, zero))
    )
    wrong = node.emit(
        relax.op.logical_and(node.emit(apart), node.emit(relax.op.not_equal(rest, zero)))
    )
    return relax.op.where(wrong, node.emit(relax.op.add(rest, y)), rest)


@converter("BitShift", attributes="direction", inputs=2)
def _bit_shift(node: OnnxNode) -> Expr:
    """By as many bits as there are, or more, nothing is left but, to the right, the sign; so it is
    by a number below 0, which counts as one without a sign."""
    x, distance, kind = node.tensor(0), node.tensor(1), node.dtype(0)
    zero, last = (exact_constant(np.array(n, kind)) for n in (0, np.iinfo(kind).bits - 1))
    far = node.emit(relax.op.greater(distance, last))
    if kind.startswith("int"):
        negative = node.emit(relax.op.less(distance, zero))
        far = node.emit(relax.op.logical_or(far, negative))
    near = node.emit(relax.op.where(far, last, distance))
    shift = {"LEFT": relax.op.left_shift, "RIGHT": relax.op.right_shift}.get(
        node.attributes["direction"]
    )
    if shift is None:
        raise node.refusal(
            f"its direction is {node.attributes['direction']}, and only LEFT and RIGHT mean "
            "something",
            "export it anew",
        )
    moved = node.emit(shift(x, near))
    keeps_sign = kind.startswith("int") and shift is relax.op.right_shift
    return moved if keeps_sign else relax.op.where(far, zero, moved)


@converter("PRelu", inputs=2)
def _prelu(node: OnnxNode) -> Expr:
    """One slope for each element, after broadcasting; up to opset 6 one for each channel."""
    x, slope = node.tensor(0), node.tensor(1)
    extents, given = node.extents(0), node.extents(1)
    if node.opset <= _STRETCHED and len(given) == 1 and len(extents) > 2:
        given = (*given, *[1] * (len(extents) - 2))
        slope = node.emit(relax.op.reshape(slope, given))
    if node.dtype(0) == "float32":  # as tables of functions know it
        if is_constant(slope) and math.prod(given) == 1 and len(given) <= len(extents):
            return relax.op.nn.leakyrelu(x, float(scalar(slope)))
        aligned = (1,) * (len(extents) - len(given)) + given
        if len(extents) > 1 and aligned == (1, extents[1], *[1] * (len(extents) - 2)):
            channels = node.emit(relax.op.reshape(slope, (extents[1],)))
            return relax.op.nn.prelu(x, channels, axis=1)
    zero = exact_constant(np.zeros((), node.dtype(0)))
    negative = node.emit(relax.op.less(x, zero))
    return relax.op.where(negative, node.emit(relax.op.multiply(x, slope)), x)


_VARIADIC = {
    "Max": relax.op.maximum,
    "Min": relax.op.minimum,
    "Sum": relax.op.add,
    "Mean": relax.op.add,
}


@converter(*_VARIADIC, inputs=ALL)
def _variadic(node: OnnxNode) -> Expr:
    """One after the other, in order."""
    made = node.tensor(0)
    for index in range(1, len(node.inputs)):
        made = node.emit(_VARIADIC[node.op_type](made, node.tensor(index)))
    if node.op_type != "Mean":
        return made
    return relax.op.divide(made, exact_constant(np.array(len(node.inputs), node.dtype(0))))
