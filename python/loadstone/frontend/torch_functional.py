# SPDX-License-Identifier: Apache-2.0
"""Most programs of torch.export as functional ones, without tracing them anew.

In:   a torch.export.ExportedProgram of static shapes, or an ExportedGraph.
Out:  a FunctionalProgram, as PyTorch's run_decompositions would give it; or None, where an
      operator needs more than a rule of this file.
Next: torch.py walks it; torch_static.py has PyTorch trace the others.

A program as it is exported has operators that PyTorch composes of others, such as a dropout that
drops nothing, and some that write in place. PyTorch traces the whole program to be rid of them, and
that takes as long as compiling a small network. Of the rules here each changes one node.

An operator that writes in place is the same as one that does not where nobody else reads what it
overwrites: its operand has no other reader, and was computed by an operator that gives memory of
its own (FRESH).
"""

from __future__ import annotations

import builtins
import copy
import keyword
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loadstone.frontend.aten import OPERATORS

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor
    from torch.export import ExportedProgram, ExportGraphSignature
    from torch.fx import Graph, Node

    from loadstone.frontend.torch_graph import ExportedGraph

__all__ = ["CHECKS", "FunctionalProgram", "functional"]

#: Checks of the exporter about shapes and types; they compute nothing.
CHECKS = ("aten._assert", "aten.sym_constrain", "aten._check")
#: Operators whose result shares memory with no other tensor.
FRESH = (
    *("conv1d", "conv2d", "linear", "_native_batch_norm_legit_no_training", "add", "mul", "sub"),
    *("relu", "hardswish", "hardsigmoid", "silu", "hardtanh", "cat", "matmul", "mean", "sigmoid"),
)
#: Those that write their first operand, which has the result's shape and type.
IN_PLACE = ("relu_", "hardswish_", "hardsigmoid_", "silu_", "hardtanh_", "sigmoid_", "add_", "mul_")
#: Those that give their operand's elements in another shape.
RESHAPES = ("flatten", "reshape", "reshape_as")


@dataclass(frozen=True, eq=False)
class FunctionalProgram:
    """What of a torch.export.ExportedProgram is read: a graph of operators that write nothing in
    place, which of its placeholders are weights, and these."""

    graph: Graph
    graph_signature: ExportGraphSignature
    state_dict: Mapping[str, TorchTensor]
    constants: Mapping[str, Any] = field(default_factory=dict)


def functional(program: ExportedProgram | ExportedGraph) -> FunctionalProgram | None:
    """The program itself is not changed."""
    graph = copy.deepcopy(program.graph)
    for node, before in zip(graph.nodes, program.graph.nodes, strict=True):
        node.name = before.name  # the copy has no builtins as names
    inputs = set(program.graph_signature.user_inputs)
    varies: set[Node] = set()
    for node in list(graph.nodes):
        if node.op == "placeholder":
            varies.update({node} if node.name in inputs else ())
        elif node.op == "call_function" and str(node.target).startswith(CHECKS) and not node.users:
            graph.erase_node(node)
        elif node.op == "call_function":
            changed = _changed(graph, node)
            if changed is None:
                return None
            if changed is not node:
                node.replace_all_uses_with(changed)
                graph.erase_node(node)
            if varies.intersection(changed.all_input_nodes):
                varies.add(changed)
                varies.update(user for user in changed.users if user.target is operator.getitem)
                if not _is_read(changed):
                    return None
        elif node.op != "output":
            return None
    signature = _named(graph, program.graph_signature)
    return FunctionalProgram(graph, signature, program.state_dict, program.constants)


def _named(graph: Graph, signature: ExportGraphSignature) -> ExportGraphSignature:
    """Gives each node the name that tracing would give it, none of Python's own, and the outputs
    theirs in the signature."""
    outputs = next(reversed(graph.nodes)).args[0]
    taken = {node.name for node in graph.nodes if node.op == "placeholder"}
    taken.update(keyword.kwlist, dir(builtins))
    for node in graph.nodes:
        if node.op == "call_function":
            plain = _kind(node) or str(node.target).split(".")[1]
            names = (plain, *(f"{plain}_{number}" for number in range(1, len(graph.nodes) + 1)))
            node.name = next(name for name in names if name not in taken)
            taken.add(node.name)
    specs = [
        replace(spec, arg=replace(spec.arg, name=node.name)) if hasattr(node, "name") else spec
        for spec, node in zip(signature.output_specs, outputs, strict=True)
    ]
    return replace(signature, output_specs=specs)


def _changed(graph: Graph, node: Node) -> Node | None:
    """The node that takes this one's place; itself, where it stays; None where no rule says."""
    if node.target is operator.getitem:
        return node
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return None
    kind = _kind(node)
    rule = _RULES.get(kind)
    if rule is not None:
        with graph.inserting_before(node):
            return rule(graph, node)
    return None if schema.is_mutable else node


def _in_place(graph: Graph, node: Node) -> Node | None:
    written = node.args[0]
    one = written.meta["val"], node.meta["val"]
    others = [each.meta["val"] for each in node.all_input_nodes]
    if (
        written.op != "call_function"
        or len(written.users) > 1
        or _kind(written) not in (*FRESH, "getitem")
        or (_kind(written) == "getitem" and _kind(written.args[0]) not in FRESH)
        or len({tensor.dtype for tensor in (*one, *others)}) > 1
        or one[0].shape != one[1].shape
    ):
        return None
    packet = getattr(import_module("torch").ops.aten, _kind(node).removesuffix("_"))
    target = getattr(packet, str(node.target).rpartition(".")[2])
    return _made(graph, node, target, node.args, node.kwargs)


def _reshape(graph: Graph, node: Node) -> Node | None:
    sizes = list(node.meta["val"].shape)
    return _made(graph, node, import_module("torch").ops.aten.view.default, (node.args[0], sizes))


def _expand_as(graph: Graph, node: Node) -> Node | None:
    sizes = list(node.meta["val"].shape)
    expand = import_module("torch").ops.aten.expand.default
    return _made(graph, node, expand, (node.args[0], sizes))


def _dropout(graph: Graph, node: Node) -> Node | None:
    """Of evaluation: it gives its operand."""
    _, _, train = node.args
    return None if train else node.args[0]


def _contiguous(graph: Graph, node: Node) -> Node | None:
    """An order in memory, which no result depends on."""
    return node.args[0]


def _batch_norm(graph: Graph, node: Node) -> Node | None:
    """Of evaluation: with the statistics that were learnt."""
    x, weight, bias, mean, variance, training, momentum, eps, _ = node.args
    if training or mean is None or variance is None:
        return None
    aten = import_module("torch").ops.aten
    given = x, weight, bias, mean, variance, momentum, eps
    made = _made(graph, node, aten._native_batch_norm_legit_no_training.default, given)  # noqa: SLF001 (a name of ATen)
    made.meta["val"] = (node.meta["val"],) * 3
    return _made(graph, node, operator.getitem, (made, 0))


def _made(
    graph: Graph,
    node: Node,
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
) -> Node:
    made = graph.call_function(target, args, dict(kwargs or {}))
    made.meta = dict(node.meta)
    return made


def _kind(node: Node) -> str:
    """`conv2d`."""
    if node.target is operator.getitem:
        return "getitem"
    namespace, _, rest = str(node.target).partition(".")
    return rest.partition(".")[0] if namespace == "aten" else ""


def _is_read(node: Node) -> bool:
    target = str(node.target)
    return (
        node.target is operator.getitem
        or target in OPERATORS
        or target.rpartition(".")[0] in OPERATORS
    )


_RULES: dict[str, Callable[[Graph, Node], Node | None]] = {
    **dict.fromkeys(IN_PLACE, _in_place),
    **dict.fromkeys(RESHAPES, _reshape),
    "expand_as": _expand_as,
    "contiguous": _contiguous,
    "dropout": _dropout,
    "batch_norm": _batch_norm,
}
