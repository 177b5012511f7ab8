# SPDX-License-Identifier: Apache-2.0
"""Chains of operators that are one function of one tensor: SiLU, GELU, hard-swish, Mish ...

In:   the bindings of a folded float function.
Out:  Chains: the last variable of each, the variables inside, and the tensor that it depends on.
Next: read_network.py makes each one a layer, which becomes a table of 256 entries
      (frontend/tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import dtype, is_constant, op_name, relax, shape
from loadstone.relax.functions import bends, is_function, operands, single_value

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, Var

__all__ = ["Chains", "tensors_read"]


class Chains:
    """ends: the last variable of a chain -> the tensor that it depends on. inside: variables that
    only their chains read."""

    def __init__(self, bound: Sequence[tuple[Var, Expr]], results: Sequence[Var]) -> None:
        self.ends: dict[Var, Var] = {}
        self.inside: set[Var] = set()
        self.source: dict[Var, Var] = {}
        self.bent: set[Var] = set()
        self.readers: dict[Var, list[Var]] = {}
        for variable, call in bound:
            self._see(variable, call)
        results_of = set(results)
        bent_ends = [v for v in self.source if v in self.bent and self._ends(v, results_of)]
        self.ends = {variable: self.source[variable] for variable in bent_ends}
        for variable in reversed(self.source):
            readers = self.readers.get(variable, ())
            if variable not in results_of and readers and all(map(self._is_member, readers)):
                self.inside.add(variable)
        self.inside -= set(self.ends)

    def _see(self, variable: Var, call: Expr) -> None:
        read = [entry for entry in tensors_read(call) if isinstance(entry, relax.Var)]
        for entry in dict.fromkeys(read):
            self.readers.setdefault(entry, []).append(variable)
        if not is_function(call) or not _is_plain(call, variable):
            return
        sources = {self.source.get(entry, entry) for entry in read}
        if len(sources) != 1:
            return
        (source,) = sources
        if shape(source) != shape(variable) or dtype(source) != "float32":
            return
        self.source[variable] = source
        if bends(call, [entry == source for entry in read]) or any(
            entry in self.bent for entry in read
        ):
            self.bent.add(variable)

    def _goes_on(self, variable: Var, reader: Var) -> bool:
        """Whether a reader is part of the same function."""
        return reader in self.bent and self.source.get(reader) == self.source[variable]

    def _ends(self, variable: Var, results: set[Var]) -> bool:
        if dtype(variable) != "float32":
            return False
        readers = self.readers.get(variable, [])
        return variable in results or not all(self._goes_on(variable, r) for r in readers)

    def _is_member(self, variable: Var) -> bool:
        return variable in self.ends or variable in self.inside


def tensors_read(call: Expr) -> list[Expr]:
    """Tensors that a binding reads, constants included; not its shapes and scalars."""
    if isinstance(call, relax.Var):
        return [call]
    if isinstance(call, relax.TupleGetItem):
        return [call.tuple_value]
    items = call.fields if isinstance(call, relax.Tuple) else call.args
    flat = [
        item
        for argument in items
        for item in (argument.fields if isinstance(argument, relax.Tuple) else (argument,))
    ]
    return [item for item in flat if isinstance(item, relax.Var) or is_constant(item)]


def _is_plain(call: Call, variable: Var) -> bool:
    """Whether its constants are one number each, and its result is float32 or a comparison."""
    if dtype(variable) not in ("float32", "bool"):
        return False
    if op_name(call) == "nn.prelu" and not isinstance(call.args[0], relax.Var):
        return False
    return all(
        isinstance(entry, relax.Var) or (is_constant(entry) and single_value(entry) is not None)
        for entry in operands(call)
    )
