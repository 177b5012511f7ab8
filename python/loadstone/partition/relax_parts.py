# SPDX-License-Identifier: Apache-2.0
"""Pieces of a Relax function: the variables that a binding reads, and bindings as a module.

In:   an IRModule; bindings of its `main`.
Out:  the variables of an expression; a module that computes some bindings alone; such a module as a
      Host operator.
Next: fused_graph.py makes Host operators, cost/candidates.py prices them, relax_region.py hands a
      segment to a back end as Relax.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING

from loadstone.graph import Host, Tensor
from loadstone.relax.compat import (
    DeadCodeElimination,
    bindings,
    dtype,
    op_name,
    relax,
    shape,
    tvm,
    with_main,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, GlobalVar, IRModule, Var

__all__ = ["extracted", "host_operator", "renamed", "variables"]


def variables(expr: Expr) -> Set[Var]:
    """The variables that an expression reads, in the order in which it names them: a plain set of
    variables has the order of their addresses, another one in each run."""
    return dict.fromkeys(relax.analysis.free_vars(expr)).keys()


def extracted(
    fused: IRModule, sources: list[Var], group: list[tuple[Var, Expr]], targets: list[Var]
) -> IRModule:
    """A module whose main computes the targets from the sources by the bindings of a group, with
    the functions that these call."""
    builder = relax.BlockBuilder()
    fresh = {variable: relax.Var(variable.name, variable.ty) for variable in sources}
    with builder.function("main", [fresh[variable] for variable in sources]):
        with builder.dataflow():
            for variable, value in group:
                fresh[variable] = builder.emit(renamed(value, fresh), name_hint=variable.name)
            results = [fresh[variable] for variable in targets]
            output = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(output)
    functions = _called(fused, (value for _, value in group))
    main = with_main(builder.get())["main"]
    return DeadCodeElimination(["main"])(tvm.IRModule({**functions, "main": main}))


def _called(module: IRModule, values: Iterable[Expr]) -> dict[GlobalVar, Expr]:
    """The functions that these expressions call, and those that these call."""
    found: dict[GlobalVar, Expr] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, relax.Call):
            waiting += [value.op, *value.args]
        elif isinstance(value, tvm.ir.GlobalVar) and value not in found:
            found[value] = module[value]
            if isinstance(found[value], relax.Function):
                waiting += (inner for _, inner in bindings(found[value]))
    return found


def renamed(expr: Expr, fresh: Mapping[Var, Var]) -> Expr:
    """The expression with fresh variables in place of the old ones."""
    if isinstance(expr, relax.Var):
        return fresh.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([renamed(item, fresh) for item in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(renamed(expr.tuple_value, fresh), expr.index)
    if isinstance(expr, relax.Call):
        return relax.Call(
            expr.op, [renamed(item, fresh) for item in expr.args], expr.attrs, expr.ty_args
        )
    return expr


def host_operator(module: IRModule, variable: Var, value: Expr) -> Host:
    """One binding of main as an operator of the host, for itself."""
    sources = sorted(variables(value), key=lambda source: str(source.name))
    tensors = [
        Tensor(str(item.name), shape(item) or (), dtype(item)) for item in (*sources, variable)
    ]
    function = extracted(module, sources, [(variable, value)], [variable])
    return Host(
        name=tensors[-1].name,
        inputs=tuple(tensors[:-1]),
        outputs=(tensors[-1],),
        function=function,
        operators=(op_name(value),),
    )
