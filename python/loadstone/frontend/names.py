# SPDX-License-Identifier: Apache-2.0
"""Give outputs the names that they have in the model's file.

In:   a Relax function, and the names of its results in the file.
Out:  the same function, in which only the call that computes a result has its name; the integers of
      a real output NAME are called NAME/int8.
Next: partition/fused_graph.py names tensors after calls; artifact and C have these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.relax.compat import bindings, dtype, is_constant, name_of, named, relax, result
from loadstone.relax.rewriter import Rewriter, fresh_name

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, RelaxFunction, Var

__all__ = ["OUTPUTS", "output_names", "with_output_names"]

#: The attribute of `main` with the file's names, in order, where a Relax variable cannot have them.
OUTPUTS = "loadstone.outputs"


def output_names(function: RelaxFunction) -> list[str]:
    """As the file has them, where the importer says them; else those of the function's results. A
    constant among these has an empty name."""
    results = result(function)
    if OUTPUTS in function.attrs and len(function.attrs[OUTPUTS]) == len(results):
        return [str(name) for name in function.attrs[OUTPUTS]]
    return ["" if is_constant(entry) else str(entry.name) for entry in results]


def with_output_names(function: RelaxFunction, names: list[str]) -> RelaxFunction:
    """names: one for each result; a parameter keeps its own, also a state that a result is the
    next value of."""
    parameters = [str(parameter.name) for parameter in function.params]
    calls = {variable: name_of(bound) for variable, bound in bindings(function)}
    wanted: dict[Var, str] = {}
    for variable, name in zip(result(function), names, strict=True):
        if variable in calls and name not in ("", *wanted.values(), *parameters):
            wanted.setdefault(variable, name)
    others = {name for variable, name in calls.items() if variable not in wanted}
    if all(calls[v] == name for v, name in wanted.items()) and others.isdisjoint(wanted.values()):
        return function.with_attr(OUTPUTS, names)
    return _Named(function, wanted).run().with_attr(OUTPUTS, names)


class _Named(Rewriter):
    """wanted: of the variables that are results."""

    def __init__(self, function: RelaxFunction, wanted: dict[Var, str]) -> None:
        super().__init__(function)
        self.wanted = wanted
        self.taken |= {name_of(bound) or "" for _, bound in bindings(function)}
        self.taken |= set(wanted.values())

    def visit(self, variable: Var, value: Expr) -> Expr:
        own, new = name_of(value), self.mapped(value)
        name = self.wanted.get(variable)
        if name is None and own in self.wanted.values():
            name = fresh_name(f"{own}/{dtype(variable)}", self.taken)
        if name is not None and isinstance(new, relax.Call):
            new = named(new, name)
        return self.emit(new)
