# SPDX-License-Identifier: Apache-2.0
"""Write a composite function for each occurrence of a pattern, and a `main` that calls them.

In:   an IRModule, the Dataflow of its `main`, Occurrences.
Out:  the IRModule with composite functions (attribute `Composite`: the row's name), each called
      where its root was, and bound to the same variable.
Next: fused_graph.py reads it as a graph; passes of back ends work on it before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from loadstone.partition.dataflow import Dataflow
from loadstone.partition.matching import Occurrence
from loadstone.partition.relax_parts import renamed, variables
from loadstone.relax.compat import bindings, relax, retyped, tvm
from loadstone.relax.rewriter import fresh_name

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, GlobalVar, IRModule, RelaxFunction, Var

__all__ = ["with_composites"]


def with_composites(module: IRModule, flow: Dataflow, found: Iterable[Occurrence]) -> IRModule:
    """Constants go into the functions; what else they read are their parameters, in the order in
    which they name it. Operators that are alike have a function each."""
    functions: dict[GlobalVar, RelaxFunction] = dict(module.functions.items())
    taken = {variable.name_hint for variable in functions}
    value: dict[Var, Expr | None] = {}  # of what a composite covers; None: on the way to its root
    for number, occurrence in enumerate(found):
        sources, function = _composite(occurrence)
        name = fresh_name(f"fused_{number}", taken)
        callee = retyped(tvm.ir.GlobalVar(name), function.ty)
        functions[callee] = function
        value |= dict.fromkeys((node.variable for node in occurrence.covers), None)
        value[occurrence.root.variable] = retyped(relax.Call(callee, sources), function.ret_ty)
    main = flow.function
    block = relax.DataflowBlock(
        [
            relax.VarBinding(variable, new)
            for variable, old in bindings(main)
            if (new := value.get(variable, old)) is not None
        ]
    )
    body = relax.SeqExpr([block], main.body.body)
    functions[module.get_global_var("main")] = relax.Function(
        main.params, retyped(body, main.body.ty), main.ret_ty, main.is_pure, main.attrs
    )
    return tvm.IRModule(functions)


def _composite(occurrence: Occurrence) -> tuple[list[Var], RelaxFunction]:
    """What it reads, and what it computes of it."""
    own = {node.variable for node in occurrence.covers}
    sources = list(
        dict.fromkeys(
            read for node in occurrence.covers for read in variables(node.expr) if read not in own
        )
    )
    fresh = {variable: relax.Var(variable.name, variable.ty) for variable in sources}
    parameters = list(fresh.values())
    made = []
    for node in occurrence.covers:
        kind = relax.Var if node is occurrence.root else relax.DataflowVar
        fresh[node.variable] = kind(node.bound_to.name, node.bound_to.ty)
        made.append(relax.VarBinding(fresh[node.variable], _rewritten(node.expr, fresh)))
    result = fresh[occurrence.root.variable]
    body = retyped(relax.SeqExpr([relax.DataflowBlock(made)], result), result.ty)
    attributes = tvm.ir.DictAttrs({"Composite": occurrence.row, "Primitive": True})
    return sources, relax.Function(parameters, body, result.ty, True, attributes)


def _rewritten(expr: Expr, fresh: dict[Var, Var]) -> Expr:
    """On fresh variables; a call with its type and with the name that its span carries, others know
    theirs."""
    if not isinstance(expr, relax.Call):
        return renamed(expr, fresh)
    arguments = [renamed(argument, fresh) for argument in expr.args]
    call = relax.Call(expr.op, arguments, expr.attrs, expr.ty_args, span=expr.span)
    return retyped(call, expr.ty)
