# SPDX-License-Identifier: Apache-2.0
"""Walk a Relax function and rebuild it, one binding at a time.

In:   a function of one dataflow block.
Out:  a new function, in which `visit` replaces each call. Names of variables stay.
Next: frontend/layout.py, frontend/canonical.py and the passes of quantization/ are Rewriters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.errors import LoadstoneError, Refusal, UnsupportedError
from loadstone.relax.compat import abandoning, bindings, op_name, relax, result, with_main

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, RelaxFunction, Var

__all__ = ["Rewriter", "fresh_name"]


def fresh_name(name: str, taken: set[str]) -> str:
    """`name`, or the first of name#2, name#3 ... that is not taken; it is then taken."""
    fresh, count = name, 1
    while fresh in taken:
        count += 1
        fresh = f"{name}#{count}"
    taken.add(fresh)
    return fresh


class Rewriter:
    """Subclasses override `visit`; the base class copies."""

    def __init__(self, function: RelaxFunction) -> None:
        self.function = function
        self.builder = relax.BlockBuilder()
        self.env: dict[Var, Expr] = {}  # old variable -> new expression
        self.values: dict[Var, Expr] = {}  # new variable -> the call bound to it
        self.name = ""
        self.taken = {parameter.name for parameter in function.params}

    def run(self) -> RelaxFunction:
        """The new function."""
        outputs = result(self.function)
        with abandoning(self.builder), self.builder.function("main", list(self.function.params)):
            with self.builder.dataflow():
                for parameter in self.function.params:
                    self.env[parameter] = parameter
                for variable, value in bindings(self.function):
                    if isinstance(value, relax.Tuple):  # several results: `result` saw through it
                        continue
                    if isinstance(value, relax.Var):  # another name
                        self.alias(variable, value)
                        continue
                    self.name = variable.name
                    self.env[variable] = self._visited(variable, value)
                finals = [self.finish(output) for output in outputs]
                final = self.builder.emit_output(
                    finals[0] if len(finals) == 1 else relax.Tuple(finals)
                )
            self.builder.emit_func_output(final)
        kept = {
            key: attribute
            for key, attribute in self.function.attrs.items()
            if key != "global_symbol"
        }
        return with_main(self.builder.get())["main"].with_attrs(kept)

    def _visited(self, variable: Var, value: Expr) -> Expr:
        """What `visit` gives; where it fails the operator is named."""
        try:
            return self.visit(variable, value)
        except LoadstoneError:
            raise
        except Exception as error:
            raise UnsupportedError(
                Refusal(
                    f"the compiler ({type(self).__name__.strip('_')}) knows no such form of it",
                    "cut the model around it with --inputs and --outputs",
                    op_name(value),
                    str(variable.name),
                )
            ) from error

    def alias(self, variable: Var, value: Expr) -> None:
        """`variable` is another name of `value`."""
        self.env[variable] = self.env[value]

    def visit(self, variable: Var, value: Expr) -> Expr:
        """The replacement of `variable = value`: a new expression, usually emitted."""
        return self.emit(self.mapped(value))

    def finish(self, output: Expr) -> Expr:
        """A result of the function."""
        return self.mapped(output)

    def mapped(self, expr: Expr) -> Expr:
        """The same expression on the new variables."""
        if isinstance(expr, relax.Var):
            return self.env[expr]
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.mapped(item) for item in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return relax.TupleGetItem(self.mapped(expr.tuple_value), expr.index)
        if isinstance(expr, relax.Call):
            return relax.Call(
                expr.op,
                [self.mapped(item) for item in expr.args[:]],
                expr.attrs,
                expr.ty_args,
                span=expr.span,
            )
        return expr

    def emit(self, expr: Expr, name: str | None = None) -> Expr:
        """Binds an expression to a new variable, named as the old one unless `name` is given."""
        if isinstance(expr, relax.Var):
            return expr
        variable = self.builder.emit(expr, name_hint=name if name is not None else self.name)
        self.values[variable] = expr
        return variable

    def unique(self, name: str) -> str:
        """`name`, or one made of it, that neither a parameter nor an earlier call of this has."""
        return fresh_name(name, self.taken)

    def value(self, expr: Expr) -> Expr:
        """The call bound to a new variable; the expression itself where there is none."""
        return self.values.get(expr, expr)

    def producer(self, expr: Expr) -> str:
        """The name of the Relax operator that computes it."""
        return op_name(self.value(expr))
