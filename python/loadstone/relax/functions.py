# SPDX-License-Identifier: Apache-2.0
"""Relax operators that are functions of each element, and what they give.

In:   a call of such an operator, arrays for its operands.
Out:  the result in float32, each operation rounded by itself.
Next: frontend/tables.py fills tables of 256 entries with them, quantization/read_network.py finds
      chains of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.numerics import Array
from loadstone.relax.compat import is_constant, op_name, relax, scalar, value

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr

__all__ = ["bends", "evaluated", "is_function", "operands", "single_value"]

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


#: Of one operand, in float64.
_ONE: Mapping[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid,
    "nn.silu": lambda x: x * _sigmoid(x),
    "nn.gelu": lambda x: 0.5 * x * (1 + _ERF(x / math.sqrt(2))),
    "nn.gelu_tanh": _gelu_tanh,
    "nn.relu": lambda x: np.maximum(x, 0),
    "erf": _ERF,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "negative": np.negative,
    "round": np.rint,
    **{name: getattr(np, name) for name in ("tanh", "exp", "log", "sqrt", "abs", "square", "sign")},
    **{name: getattr(np, name) for name in ("sin", "cos", "floor", "ceil")},
    "atan": np.arctan,
}
_TWO: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    **{name: getattr(np, name) for name in ("greater", "less", "greater_equal", "less_equal")},
}
#: Of other operands, or with attributes.
_OTHER = ("clip", "where", "nn.leakyrelu", "nn.prelu", "nn.softplus")
#: Operators of integers have rules of their own for them.
_STRAIGHT = ("add", "subtract", "multiply", "divide", "nn.relu", "clip", "maximum", "minimum")


def is_function(expr: Expr) -> bool:
    """Whether each element of the result depends on one element of each operand alone."""
    if not isinstance(expr, relax.Call):
        return False
    name = op_name(expr)
    if name == "nn.prelu":
        return single_value(expr.args[1]) is not None
    return name in _ONE or name in _TWO or name in _OTHER


def bends(call: Call, plain: Sequence[bool]) -> bool:
    """Whether it is more than operators of integers that a device may have: sums, products and
    clamps of what it depends on. plain: of each operand that is no constant, whether that is what
    all depends on itself."""
    if op_name(call) in ("multiply", "divide"):
        return len(plain) > 1 and not all(plain)
    return op_name(call) not in _STRAIGHT


def operands(call: Call) -> list[Expr]:
    """The tensors that a function reads; bounds of a clip are none, nor is one slope for all."""
    return list(call.args[:1]) if op_name(call) in ("clip", "nn.prelu") else list(call.args)


def single_value(expr: Expr) -> float | None:
    """The number that a constant has in every element."""
    if not is_constant(expr):
        return None
    array = value(expr).reshape(-1)
    if array.size == 0 or array.dtype.kind not in "fiub" or not np.all(array == array[0]):
        return None
    return float(array[0])


def evaluated(call: Call, arguments: Sequence[Array]) -> Array:
    """arguments: float32 (or bool) arrays that broadcast, one for each of `operands`; so is the
    result."""
    name, wide = op_name(call), [np.asarray(a, np.float64) for a in arguments]
    with np.errstate(all="ignore"):
        if name in _ONE:
            found = _ONE[name](wide[0])
        elif name in _TWO:
            found = _TWO[name](*wide)
        elif name == "where":
            found = np.where(arguments[0], wide[1], wide[2])
        elif name == "clip":
            found = np.clip(wide[0], float(scalar(call.args[1])), float(scalar(call.args[2])))
        elif name == "nn.softplus":
            beta, threshold = float(call.attrs.beta), float(call.attrs.threshold)
            soft = np.log1p(np.exp(beta * wide[0])) / beta
            found = np.where(beta * wide[0] > threshold, wide[0], soft)
        else:
            found = np.where(wide[0] >= 0, wide[0], np.float32(_slope(call)) * wide[0])
        return np.asarray(found if found.dtype == np.bool_ else found.astype(np.float32))


def _slope(call: Call) -> float:
    if op_name(call) == "nn.leakyrelu":
        return float(call.attrs.alpha)
    slope = single_value(call.args[1])
    assert slope is not None
    return slope
