# SPDX-License-Identifier: Apache-2.0
"""A program in Edge dialect, and parts of it as programs of ATen.

In:   what ExecuTorch gives a partitioner or a back end.
Out:  `Edge`: its nodes as loadstone.hosts.cut takes them; any group of them as a Relax module; the
      nodes that belong to a part, with what it computes of weights.
Next: partitioner.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from loadstone.frontend.torch import FunctionalProgram, from_functional
from loadstone.hosts.cut import Node

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from loadstone.relax.types import IRModule

__all__ = ["TAG", "Edge"]

#: Edge has no views: `view_copy` computes what `view` does.
_COPY = "_copy"
#: Where ExecuTorch looks for the name of a node's part.
TAG = "delegation_tag"


@dataclass(frozen=True)
class _Constant:
    """Where a program keeps a weight."""

    kind: InputKind
    target: str


class Edge:
    """A program in Edge dialect: its nodes, and parts of it as programs of ATen.

    What depends on weights alone belongs to whoever reads it.
    """

    def __init__(self, program: ExportedProgram, weights: Mapping[str, Any]) -> None:
        self.program = program
        self.weights = weights
        signature = program.graph_signature
        self.constants: dict[str, _Constant] = {
            spec.arg.name: _Constant(spec.kind, spec.target)
            for spec in signature.input_specs
            if spec.kind != InputKind.USER_INPUT
        }
        self.inputs = tuple(signature.user_inputs)
        self.outputs = tuple(signature.user_outputs)
        self.node = {node.name: node for node in program.graph.nodes}
        self.constant: set[str] = set(self.constants)
        self.order: list[torch.fx.Node] = []
        for node in program.graph.nodes:
            if node.op != "call_function":
                continue
            if all(source.name in self.constant for source in node.all_input_nodes):
                self.constant.add(node.name)
            else:
                self.order.append(node)

    def nodes(self) -> list[Node]:
        """Those whose inputs are not all constants."""
        return [
            Node(index, tuple(n for n in _reads(node) if n not in self.constant), (node.name,))
            for index, node in enumerate(self.order)
        ]

    def module(
        self, group: Iterable[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> IRModule:
        """These nodes alone, as the importer of .pt2 files gives them."""
        members = {self.order[index].name for index in group}
        members |= self._constants_of(members)
        weights = [name for name in self.constants if name in members]
        graph = torch.fx.Graph()
        made: dict[str, torch.fx.Node] = {}
        for name in (*weights, *inputs):
            made[name] = graph.placeholder(name)
            made[name].meta["val"] = self.node[name].meta["val"]
        for node in self.program.graph.nodes:
            if node.name in members and node.op == "call_function":
                made[node.name] = graph.node_copy(node, lambda source: made[source.name])
                made[node.name].target = _aten(node.target)
                made[node.name].meta = {"val": node.meta["val"]}
        graph.output(tuple(made[name] for name in outputs))
        return from_functional(self._functional(graph, weights, made, inputs, outputs), "part")

    def _functional(
        self,
        graph: torch.fx.Graph,
        weights: Sequence[str],
        made: dict[str, torch.fx.Node],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> FunctionalProgram:
        """The graph may have renamed what it was given."""
        stored = [
            InputSpec(kept.kind, TensorArgument(made[name].name), kept.target, persistent=True)
            for name in weights
            for kept in [self.constants[name]]
        ]
        given = [
            InputSpec(InputKind.USER_INPUT, TensorArgument(made[name].name), None)
            for name in inputs
        ]
        taken = [
            OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(made[name].name), None)
            for name in outputs
        ]
        return FunctionalProgram(
            graph,
            ExportGraphSignature([*stored, *given], taken),
            self.weights,
        )

    def _constants_of(self, names: Collection[str]) -> set[str]:
        """Weights and what is computed of them that these nodes read, directly or not."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            for name in _reads(self.node[todo.pop()]):
                if name in self.constant and name not in found:
                    found.add(name)
                    todo.append(name)
        return found

    def owned(self, group: Iterable[int], tag: str) -> list[torch.fx.Node]:
        """The nodes of a part and what they compute of weights. What another part has already is
        computed again, so that each has its own."""
        nodes = [self.order[index] for index in group]
        found = self._constants_of([node.name for node in nodes])
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in list(self.program.graph.nodes):
            if node.name not in found or node.op != "call_function":
                continue
            if node.meta.get(TAG, tag) != tag:
                with self.program.graph.inserting_after(node):
                    copies[node] = self.program.graph.node_copy(node, lambda n: copies.get(n, n))
                    copies[node].meta.pop(TAG)
            else:
                copies[node] = node
        for reader in (*nodes, *copies.values()):
            for old, new in copies.items():
                reader.replace_input_with(old, new)
        return [*nodes, *copies.values()]


def _reads(node: torch.fx.Node) -> list[str]:
    return [source.name for source in node.all_input_nodes]


def _aten(target: Any) -> Any:
    """The operator of PyTorch behind one of Edge's; the view in place of its copy."""
    target = getattr(target, "_op", target)
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.name.endswith(_COPY):
        return target
    space, _, name = schema.name.partition("::")
    view = getattr(getattr(torch.ops, space), name.removesuffix(_COPY), None)
    return getattr(view, schema.overload_name or "default", target) if view else target
