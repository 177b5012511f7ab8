# SPDX-License-Identifier: Apache-2.0
"""A Relax function as nodes: each one refers to the producers of its operands, and to its readers.

In:   a Relax function of bindings.
Out:  Dataflow, a DataflowNode for each of its expressions.
Next: matching.py searches it for patterns; composites.py writes the new function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone.relax.compat import bindings, is_constant, relax, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, RelaxFunction, Var

__all__ = ["Dataflow", "DataflowNode"]


@dataclass(slots=True, eq=False)
class DataflowNode:
    """An expression. variable: the one that it is bound to; None for a nested expression. operator:
    the full name of the Relax operator that it calls, or "". arguments: of a call, the fields of a
    tuple, or the tuple from which it takes item `index`. readers: None stands for a reader by
    another name, or the function's result. taken: it is part of a composite."""

    expr: Expr
    variable: Var | None = None
    operator: str = ""
    arguments: tuple[DataflowNode, ...] = ()
    is_call: bool = False
    is_constant: bool = False
    is_tuple: bool = False
    index: int | None = None
    readers: list[DataflowNode | None] = field(default_factory=list)
    taken: bool = False

    @property
    def bound_to(self) -> Var:
        """The variable, of one that a pattern covers."""
        assert self.variable is not None, "an expression that is written where it is read"
        return self.variable


class Dataflow:
    """nodes: of the bindings, in order; a second name for a bound value has no node. of_expr: the
    node of each of their expressions."""

    def __init__(self, function: RelaxFunction) -> None:
        self.function = function
        self.nodes: list[DataflowNode] = []
        self.of_expr: dict[Expr, DataflowNode] = {}
        self._of_variable: dict[Var, DataflowNode] = {}
        for variable, value in bindings(function):
            node = self._node(value)
            self._of_variable[variable] = node
            if isinstance(value, relax.Var):
                node.readers.append(None)
                continue
            node.variable = variable
            for read in _bound(node.arguments):
                read.readers.append(node)
            self.nodes.append(node)
            self.of_expr[value] = node
        self._node(function.body.body).readers.append(None)

    def _node(self, expr: Expr) -> DataflowNode:
        if isinstance(expr, relax.Var):
            if expr not in self._of_variable:
                self._of_variable[expr] = DataflowNode(expr, expr)  # a parameter
            return self._of_variable[expr]
        node = DataflowNode(expr, is_constant=is_constant(expr))
        if isinstance(expr, relax.Call):
            node.is_call = True
            if isinstance(expr.op, tvm.ir.Op):
                node.operator = str(expr.op.name)
            node.arguments = tuple(self._node(argument) for argument in expr.args)
        elif isinstance(expr, relax.Tuple):
            node.is_tuple = True
            node.arguments = tuple(self._node(item) for item in expr.fields)
        elif isinstance(expr, relax.TupleGetItem):
            node.index = int(expr.index)
            node.arguments = (self._node(expr.tuple_value),)
        return node


def _bound(nodes: Iterable[DataflowNode]) -> Iterator[DataflowNode]:
    """Those of variables, in expressions too: the readers of a tuple read its elements."""
    for node in nodes:
        if node.variable is not None:
            yield node
        else:
            yield from _bound(node.arguments)
