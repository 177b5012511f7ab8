# SPDX-License-Identifier: Apache-2.0
"""Cut a model file into parts that Loadstone runs alone, by the nodes of the file itself.

In:   the file's nodes with their tensors; `extract`, which makes a model file of some of them.
Out:  Parts: the nodes of each, and their artifact; the reasons why other nodes stay with the host.
Next: litert.py and onnxruntime.py describe the nodes of their formats, and insert artifacts.

Each part is compiled from a separate model file, so that an artifact's inputs and outputs are
tensors of the original file. Nodes that the compiler would leave to Python at run time stay with
the host, and the remaining ones are divided again, until the compiler leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.target import Target
from loadstone.errors import LoadstoneError, ModelError, UnsupportedError
from loadstone.files import write_whole
from loadstone.frontend import Model, load
from loadstone.hosts.offload import divided_module, offload
from loadstone.partition.lowering import lower_partition
from loadstone.partition.network_pass import apply_graph_passes

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["CutModel", "HostModel", "Node", "Part", "boundary", "cut", "groups"]


@dataclass(frozen=True)
class Node:
    """One node of a file. inputs: without constants."""

    index: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Part:
    """Nodes, in the order of the file, and what they became. inputs, outputs: of the artifact, in
    its order, by the file's names."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    artifact: Artifact


@dataclass(frozen=True, eq=False)
class HostModel:
    """A model file that carries its artifacts. data: of the file. nodes: how many it had. left:
    those that stay with the host -> why."""

    data: bytes
    nodes: int
    parts: tuple[Part, ...]
    left: Mapping[int, str]

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        write_whole(path, self.data)


@dataclass(frozen=True, eq=False)
class CutModel:
    """name: for messages. outputs: tensors that somebody outside the nodes reads. extract: (nodes,
    inputs, outputs) -> the bytes of a model file of these nodes, or a model in memory. suffix: of
    such a file."""

    name: str
    nodes: Sequence[Node]
    outputs: Collection[str]
    extract: Callable[[Sequence[int], Sequence[str], Sequence[str]], bytes | IRModule]
    suffix: str
    #: Nodes that stay with the host whatever the target is -> why.
    stays: Mapping[int, str] = field(default_factory=dict)


def groups(nodes: Sequence[Node], taken: Collection[int]) -> list[list[int]]:
    """Taken nodes that can run together: no path leaves a group and comes back. Steps of taken
    nodes are even, those of others odd, and on every path a step never falls."""
    step_of: dict[str, int] = {}
    found: dict[int, list[int]] = {}
    for node in nodes:
        ready = max((step_of[name] for name in node.inputs if name in step_of), default=0)
        step = ready + (ready % 2 != (node.index not in taken))
        step_of.update(dict.fromkeys(node.outputs, step))
        if node.index in taken:
            found.setdefault(step, []).append(node.index)
    by_index = {node.index: node for node in nodes}
    return [part for group in found.values() for part in _connected(group, by_index)]


def _connected(group: Sequence[int], by_index: Mapping[int, Node]) -> list[list[int]]:
    """Those that share tensors stay together."""
    parts: list[tuple[set[str], list[int]]] = []
    for index in group:
        names = {*by_index[index].inputs, *by_index[index].outputs}
        joined = [part for part in parts if part[0] & names]
        parts = [part for part in parts if part not in joined]
        members = sorted(member for _, found in joined for member in found)
        parts.append((names.union(*(found for found, _ in joined)), [*members, index]))
    return [members for _, members in parts]


def boundary(model: CutModel, group: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(inputs, outputs) of a group: what others make, and what others read."""
    members = set(group)
    inside = [node for node in model.nodes if node.index in members]
    made = {name for node in inside for name in node.outputs}
    wanted = {
        *model.outputs,
        *(name for node in model.nodes if node.index not in members for name in node.inputs),
    }
    inputs = dict.fromkeys(name for node in inside for name in node.inputs if name not in made)
    outputs = (name for node in inside for name in node.outputs if name in wanted)
    return tuple(inputs), tuple(outputs)


def cut(model: CutModel, target: Target) -> tuple[list[Part], dict[int, str]]:
    """The parts, and the reasons of nodes that stay. Raises UnsupportedError where there is no part
    at all."""
    cutter = _Cutter(model, target)
    with TemporaryDirectory() as folder:
        cutter.folder = Path(folder)
        parts = cutter.run()
    if not parts:
        why = next(iter(cutter.left.values()), "it has no operators")
        raise UnsupportedError(f"{model.name}: no part of it runs on {target.spec}: {why}")
    return parts, cutter.left


class _Cutter:
    """Tries groups until each compiles whole."""

    def __init__(self, model: CutModel, target: Target) -> None:
        self.model = model
        self.target = target
        self.folder = Path()
        self.left = dict(model.stays)  # node -> why it stays
        self.maker = {name: node.index for node in model.nodes for name in node.outputs}
        self.done: dict[tuple[int, ...], Part | None] = {}

    def run(self) -> list[Part]:
        """Each turn leaves at least one more node to the host, or is the last."""
        while True:
            taken = {node.index for node in self.model.nodes} - self.left.keys()
            found = [tuple(group) for group in groups(self.model.nodes, taken)]
            before = len(self.left)
            for group in found:
                if group not in self.done:
                    self.done[group] = self.part(group)
            if len(self.left) == before:
                return [part for group in found if (part := self.done[group]) is not None]

    def part(self, group: tuple[int, ...]) -> Part | None:
        """None where no accelerator takes anything of it, or where some of it was left."""
        inputs, outputs = boundary(self.model, group)
        try:
            module = load(self.extracted(group, inputs, outputs))
            divided = apply_graph_passes(
                divided_module(module, self.target, self.part_name(group)), self.target.backends
            )
            found = offload(divided)
            if self.leave(group, found.reasons):
                return None
            if not found.segments:
                self.left.update(dict.fromkeys(group, "no accelerator takes any of it"))
                return None
            artifact = lower_partition(divided, self.target).deployment.artifact
        except (ModelError, UnsupportedError) as error:
            self.give_up(group, error)
            return None
        steps = [step for step in artifact.steps if isinstance(step, HostStep) and step.function]
        if self.leave(group, {step.name: "it needs Python at run time" for step in steps}):
            return None
        return Part(group, inputs, outputs, artifact)

    def part_name(self, group: Sequence[int]) -> str:
        """Of the artifact: the model's, and the first node's number."""
        return f"{self.model.name}_{group[0]}"

    def extracted(
        self, group: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> Model:
        """A model of the group: a file, unless it is in memory."""
        made = self.model.extract(group, inputs, outputs)
        if not isinstance(made, bytes):
            return made
        path = self.folder / f"{self.part_name(group)}{self.model.suffix}"
        path.write_bytes(made)
        return path

    def leave(self, group: Sequence[int], reasons: Mapping[str, str]) -> bool:
        """Whether some operators of the group stay, by the tensors that they make. Where none of
        these is the file's, the group stays whole."""
        makers = {self.made_by(name): why for name, why in reasons.items()}
        found = {index: why for index, why in makers.items() if index in set(group)}
        if reasons and not found:
            found = dict.fromkeys(group, next(iter(reasons.values())))
        self.left.update({index: why for index, why in found.items() if index is not None})
        return bool(reasons)

    def made_by(self, name: str) -> int | None:
        """The node that an operator comes from. What computes `t/float` is behind the node that
        quantizes it to t: it could be quantized here."""
        index = self.maker_of(_tensor(name))
        if index is None or not name.endswith("/float"):
            return index
        (node,) = (node for node in self.model.nodes if node.index == index)
        return self.maker.get(node.inputs[0], index)

    def maker_of(self, name: str) -> int | None:
        """By the longest beginning that is a tensor's name: a rewriting may have added to it."""
        while name not in self.maker and "/" in name:
            name = name.rpartition("/")[0]
        return self.maker.get(name)

    def give_up(self, group: Sequence[int], error: LoadstoneError) -> None:
        """The nodes that cannot be read by themselves stay; if there is none, all do."""
        alone = {}
        for index in group if len(group) > 1 else ():
            try:
                load(self.extracted([index], *boundary(self.model, [index])))
            except LoadstoneError as reason:
                alone[index] = str(reason)
        self.left.update(alone or dict.fromkeys(group, str(error)))


def _tensor(name: str) -> str:
    """The file's name of a tensor: the compiler adds `/real`, `/nhwc`, `#2` to it."""
    return re.sub(r"(/(real|float|nhwc|nchw|int8|moved))*(#\d+)?$", "", name)
