# SPDX-License-Identifier: Apache-2.0
"""From a fused module to the graph: composites become their operators, and the rest becomes Host
operators.

In:   an IRModule with composite functions; the operators that these stand for, by the names of
      their roots.
Out:  Graph, in the order of the module; the tensor of each of its variables. Operators that depend
      on no input are computed now, and become constants of the graph.
Next: partition/eager.py, its only importer, assigns the operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from loadstone.artifact.host import has_steps
from loadstone.errors import LoweringError, UnsupportedError
from loadstone.frontend.names import output_names
from loadstone.graph import Graph, Host, Operator, Reshape, Tensor
from loadstone.graph.reference import run_operator
from loadstone.partition.patterns import Reader
from loadstone.partition.relax_parts import extracted, variables
from loadstone.relax.compat import (
    bindings,
    codegen_of,
    dtype,
    is_constant,
    name_of,
    op_name,
    relax,
    result,
    shape,
    tvm,
)
from loadstone.relax.compat import value as value_of
from loadstone.relax.rewriter import fresh_name
from loadstone.relax.row_calls import row_call

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, Var

__all__ = ["FusedGraph"]


class FusedGraph:
    """tensors: of the variables that `build` has met. calls: in each Host operator, by its name."""

    def __init__(
        self, fused: IRModule, reader: Reader, taken: Mapping[str, Operator], name: str
    ) -> None:
        self.fused, self.reader, self.taken, self.name = fused, reader, taken, name
        self.function = fused["main"]
        self.results = frozenset(result(self.function))
        self.output_names = output_names(self.function)
        self.file_names = dict(zip(result(self.function), self.output_names, strict=True))
        self.tensors: dict[Var, Tensor] = {}  # variable of the fused main -> tensor
        self.names: set[str] = set()  # of these tensors
        self.calls: dict[str, list[str]] = {}
        self.readers: dict[Var, set[Var]] = {}  # variable -> those that are computed of it
        for variable, value in bindings(self.function):
            for read in variables(value):
                self.readers.setdefault(read, set()).add(variable)
        self.operators: list[Operator] = []
        self.built: set[Operator] = set()  # those of patterns, by identity

    def build(self) -> Graph:
        """The graph. Raises UnsupportedError for dynamic shapes, LoweringError where a pass between
        has lost names."""
        inputs = tuple(self._parameter(variable) for variable in self.function.params)
        pending: list[
            tuple[Var, Expr]
        ] = []  # calls that no pattern took and that nothing has read yet
        for variable, value in bindings(self.function):
            if isinstance(
                value, relax.Var | relax.Tuple
            ):  # the result, under another name: `result` sees through it
                continue
            if not self._is_composite(value):
                pending.append((variable, value))
                continue
            pending = self._flush(
                pending, variables(value)
            )  # first: these name the tensors that the composite reads
            operator = self._composite(value)
            self._keep(variable, operator.output)
            self.built.add(operator)
            self._add(operator)
        self._flush(pending, {variable for variable, _ in pending})
        outputs = self._outputs({tensor.name for tensor in inputs})
        used = {tensor.name for operator in self.operators for tensor in operator.inputs}
        constants = {name: array for name, array in self.reader.constants.items() if name in used}
        return Graph(
            name=self.name,
            inputs=inputs,
            outputs=outputs,
            operators=tuple(self.operators),
            constants=constants,
        )

    def _parameter(self, variable: Var) -> Tensor:
        extents = shape(variable)
        if extents is None:
            raise UnsupportedError(
                f'{self.name}: input "{variable.name}" has a dynamic shape: export it with a '
                "fixed size"
            )
        known = self.reader.quantizations.items()
        quantization = next((entry for old, entry in known if old.name == variable.name), None)
        self._keep(variable, Tensor(variable.name, extents, dtype(variable), quantization))
        return self.tensors[variable]

    def _add(self, operator: Operator) -> None:
        """Behind the others; one that reads no more than constants is computed now."""
        known = self.reader.constants
        if operator.inputs and not all(tensor.name in known for tensor in operator.inputs):
            self.operators.append(operator)
            return
        made = run_operator(operator, [known[tensor.name] for tensor in operator.inputs])
        known.update(
            (tensor.name, array) for tensor, array in zip(operator.outputs, made, strict=True)
        )

    def _outputs(self, fixed: Set[str]) -> tuple[Tensor, ...]:
        """Of the network, each with memory of its own: what is an input, a constant or an output
        already is copied. fixed: names of inputs."""
        taken, outputs = set(fixed), list[Tensor]()
        for variable, name in zip(result(self.function), self.output_names, strict=True):
            tensor = self._stored(variable) if is_constant(variable) else self._tensor(variable)
            if tensor.name in self.reader.constants:
                tensor = self._copied(self._renamed(tensor), name or tensor.name, 0)
            elif tensor.name in taken:
                tensor = self._copied(tensor, name, len(self.operators))
            taken.add(tensor.name)
            outputs.append(tensor)
        return tuple(outputs)

    def _copied(self, tensor: Tensor, name: str, place: int) -> Tensor:
        """What a copy among the operators makes, called as the file calls it where that is free."""
        base = name if name and name not in self.names else f"{tensor.name}/copy"
        copied = replace(tensor, name=fresh_name(base, self.names))
        copy = Reshape(name=copied.name, inputs=(tensor,), outputs=(copied,))
        self.operators.insert(place, copy)
        return copied

    def _renamed(self, tensor: Tensor) -> Tensor:
        """A constant whose name is the output's: its readers read the output."""
        renamed = replace(tensor, name=fresh_name(f"{tensor.name}/constant", self.names))
        self.reader.constants[renamed.name] = self.reader.constants.pop(tensor.name)
        self.names.discard(tensor.name)
        return renamed

    def _stored(self, constant: Expr) -> Tensor:
        """A result that stands in the module as a constant."""
        array = value_of(constant)
        name = fresh_name(f"{self.name}/constant", self.names)
        self.reader.constants[name] = array
        return Tensor(name, array.shape, array.dtype.name)

    def _is_composite(self, value: Expr) -> bool:
        return (
            isinstance(value, relax.Call)
            and isinstance(value.op, tvm.ir.GlobalVar)
            and not codegen_of(self.fused, value)
        )

    def _composite(self, value: Expr) -> Operator:
        """The operator of a call to a composite function, on tensors of this graph."""
        body = dict(bindings(self.fused[value.op]))
        root = result(self.fused[value.op])[0]
        if name_of(body[root]) not in self.taken:
            raise LoweringError(
                f"partition: composite {value.op.name_hint} has lost its name: a pass must "
                "keep the spans of calls"
            )
        operator = self.taken[name_of(body[root]) or ""]
        if operator in self.built:
            raise LoweringError(
                f"partition: {value.op.name_hint} stands for {operator.name}, which another call "
                "is already: a pass must not give two calls one composite"
            )
        return operator

    # -- what stays Relax --------------------------------------------------------------------------

    def _flush(self, pending: list[tuple[Var, Expr]], read: Set[Var]) -> list[tuple[Var, Expr]]:
        """Makes Host operators of the connected groups that `read` needs; returns what is still
        pending."""
        rest = []
        for group in _connected(pending):
            if not read.isdisjoint(variable for variable, _ in group):
                self._host(group)
            else:
                rest += group
        return rest

    def _host(self, group: list[tuple[Var, Expr]]) -> None:
        """One Host operator; names that a composite bound to it are those of its extractor."""
        inside = {variable for variable, _ in group}
        outside = {
            variable for variable in inside if not self.readers.get(variable, set()) <= inside
        }
        outside |= self.results
        sources = list(
            dict.fromkeys(
                item for _, value in group for item in variables(value) if item not in inside
            )
        )
        targets = [
            variable
            for variable, _ in group
            if variable in outside and not isinstance(variable.ty, relax.TupleType)
        ]
        if targets:
            self._host_of(group, sources, targets)

    def _host_of(
        self, group: list[tuple[Var, Expr]], sources: list[Var], targets: list[Var]
    ) -> None:
        """From sources to targets; several where steps on rows stand among what only C has."""
        outputs = tuple(self._tensor(variable, dict(group)[variable]) for variable in targets)
        calls = [value for _, value in group if isinstance(value, relax.Call)]
        names = tuple(
            dict.fromkeys(codegen_of(self.fused, value) or op_name(value) for value in calls)
        )
        made = Host(
            name=outputs[0].name,
            inputs=tuple(self._tensor(variable) for variable in sources),
            outputs=outputs,
            function=extracted(self.fused, sources, group, targets),
            operators=names,
        )
        runs = _runs(group)
        if len(runs) > 1 and not has_steps(made):  # C of its own does not call the runtime's
            for run in runs:
                self._host(run)
            return
        self.calls[outputs[0].name] = [name_of(value) or "" for value in calls]
        self._add(made)

    def _tensor(self, variable: Var, value: Expr | None = None) -> Tensor:
        """The tensor of a variable of the fused main."""
        if variable not in self.tensors:
            extents = shape(variable)
            if extents is None:
                raise UnsupportedError(
                    f'{self.name}: "{variable.name}" has a dynamic shape: Loadstone needs '
                    "shapes known at compile time"
                )
            name = base = name_of(value) or self.file_names.get(variable) or variable.name
            while name in self.names:
                name = f"{base}#{len(self.names)}"
            self._keep(variable, Tensor(name, extents, dtype(variable)))
        return self.tensors[variable]

    def _keep(self, variable: Var, tensor: Tensor) -> None:
        self.tensors[variable] = tensor
        self.names.add(tensor.name)


def _runs(group: list[tuple[Var, Expr]]) -> list[list[tuple[Var, Expr]]]:
    """Bindings one behind the other that are, or are not, steps on rows."""
    kinds = groupby(group, lambda binding: row_call(binding[1]) is not None)
    return [list(run) for _, run in kinds]


def _connected(pending: list[tuple[Var, Expr]]) -> list[list[tuple[Var, Expr]]]:
    """Groups of bindings that read each other, each in order."""
    groups: list[list[tuple[Var, Expr]]] = []
    for entry in pending:
        read = variables(entry[1])
        joined = [group for group in groups if any(variable in read for variable, _ in group)]
        merged = [binding for group in joined for binding in group]
        groups = [group for group in groups if group not in joined] + [[*merged, entry]]
    order = {variable: index for index, (variable, _) in enumerate(pending)}
    return [sorted(group, key=lambda binding: order[binding[0]]) for group in groups]
