# SPDX-License-Identifier: Apache-2.0
"""Functions that ONNX lacks at this opset, composed of operators that it has.

In:   their calls in a module in canonical form.
Out:  a few nodes for each, in the layout of their operands.
Next: export_onnx.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.quantization.onnx_moves import MovesWriter
from loadstone.quantization.onnx_writer import PLAIN
from loadstone.relax.compat import integers, op_name, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, Var

__all__ = ["FUNCTIONS", "FunctionsWriter"]


class _Steps:
    """The nodes that compute one variable."""

    def __init__(self, writer: FunctionsWriter, variable: Var, call: Call) -> None:
        self.writer, self.call, self.variable = writer, call, variable
        self.base = writer.name(variable)
        self.layout = writer.layout(call.args[0])
        self.x = writer.get(call.args[0], self.layout)

    def node(self, kind: str, *inputs: str) -> str:
        return self.writer.node(kind, inputs, self.writer.fresh(f"{self.base}/{kind.lower()}"))

    def number(self, value: float) -> str:
        return self.writer.constant(np.float32(value), f"{self.base}/constant")

    def last(self, kind: str, *inputs: str) -> None:
        self.writer.emit(self.variable, self.layout, kind, inputs)


def _silu(s: _Steps) -> None:
    """x * sigmoid(x)."""
    s.last("Mul", s.x, s.node("Sigmoid", s.x))


def _gelu(s: _Steps) -> None:
    """x / 2 * (1 + erf(x / sqrt(2)))."""
    found = s.node("Erf", s.node("Mul", s.x, s.number(math.sqrt(0.5))))
    half = s.node("Mul", s.x, s.number(0.5))
    s.last("Mul", half, s.node("Add", found, s.number(1)))


def _gelu_tanh(s: _Steps) -> None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    cube = s.node("Mul", s.node("Mul", s.node("Mul", s.x, s.x), s.x), s.number(0.044715))
    inner = s.node("Mul", s.node("Add", s.x, cube), s.number(math.sqrt(2 / math.pi)))
    half = s.node("Mul", s.x, s.number(0.5))
    s.last("Mul", half, s.node("Add", s.node("Tanh", inner), s.number(1)))


def _softplus(s: _Steps) -> None:
    """log(1 + exp(beta * x)) / beta; beyond its threshold that is x in float32, too."""
    beta = float(s.call.attrs.beta)
    if beta == 1:
        s.last("Softplus", s.x)
        return
    s.last("Div", s.node("Softplus", s.node("Mul", s.x, s.number(beta))), s.number(beta))


def _square(s: _Steps) -> None:
    s.last("Mul", s.x, s.x)


#: By Relax operator.
FUNCTIONS: Mapping[str, Callable[[_Steps], None]] = {
    "nn.silu": _silu,
    "nn.gelu": _gelu,
    "nn.gelu_tanh": _gelu_tanh,
    "nn.softplus": _softplus,
    "square": _square,
}


class FunctionsWriter(MovesWriter):
    """Converters for them, for the index of the largest, for variances, and for normalization of
    groups."""

    def function(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """One of FUNCTIONS."""
        FUNCTIONS[op_name(call)](_Steps(self, variable, call))

    def argmax(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """ArgMax: the first of equal ones, int64."""
        rank = len(shape(call.args[0]) or ())
        options = {"axis": int(call.attrs.axis) % rank, "keepdims": int(call.attrs.keepdims)}
        self.emit(variable, PLAIN, "ArgMax", [self.plain(call.args[0])], **options)

    def variance(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """The mean of the squared differences from the mean."""
        rank, name, x = len(shape(call.args[0]) or ()), self.name(variable), call.args[0]
        axes = range(rank) if call.attrs.axis is None else integers(call.attrs.axis)
        chosen = sorted(axis % rank for axis in axes)
        source = self.plain(x)

        def inner(kind: str, *inputs: str, **options: object) -> str:
            return self.node(kind, inputs, self.fresh(f"{name}/{kind.lower()}"), **options)

        rest = inner("Sub", source, inner("ReduceMean", source, axes=chosen, keepdims=1))
        keep = int(call.attrs.keepdims)
        squares = inner("Mul", rest, rest)
        self.emit(variable, PLAIN, "ReduceMean", [squares], axes=chosen, keepdims=keep)

    def group_norm(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Each group is a channel of InstanceNormalization; a factor and a summand of each channel
        follow. Raises UnsupportedError where channels are not the second axis."""
        attrs, name, extents = call.attrs, self.name(variable), shape(call.args[0]) or ()
        groups, rank = int(attrs.num_groups), len(extents)
        axes = sorted(int(axis) % rank for axis in integers(attrs.axes))
        if int(attrs.channel_axis) % rank != 1 or axes != list(range(2, rank)):
            raise UnsupportedError(
                f'"{name}": a normalization of groups over axes {axes} has no ONNX form here'
            )

        def node(kind: str, *inputs: str, **options: float) -> str:
            return self.node(kind, inputs, self.fresh(f"{name}/{kind.lower()}"), **options)

        def sizes(*numbers: int) -> str:
            return self.constant(np.array(numbers, np.int64), f"{name}/shape")

        one, zero = (
            self.constant(np.full(groups, fill, np.float32), f"{name}/{fill}") for fill in (1, 0)
        )
        joined = node("Reshape", self.plain(call.args[0]), sizes(extents[0], groups, -1))
        normal = node("InstanceNormalization", joined, one, zero, epsilon=float(attrs.epsilon))
        whole = node("Reshape", normal, sizes(*extents))
        channels = sizes(1, extents[1], *[1] * (rank - 2))
        factor, summand = (node("Reshape", self.plain(x), channels) for x in call.args[1:3])
        self.emit(variable, PLAIN, "Add", [node("Mul", whole, factor), summand])
