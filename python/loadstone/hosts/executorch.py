# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch: parts of a program as artifacts inside its .pte file.

In:   a program of torch.export, float or quantized by PT2E, that ExecuTorch lowers.
Out:  `LoadstonePartitioner` for to_edge_transform_and_lower: each part that Loadstone runs alone
      becomes a delegate "LoadstoneBackend" that carries its artifact; the rest stays ExecuTorch's.
Next: runtime/hosts/executorch/backend.cc runs it; `build` compiles that file against the
      ExecuTorch that is installed, `load` takes the result into this process.

    partitioner = LoadstonePartitioner(program, "vtaq-1x16x16")
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    Path("net.pte").write_bytes(edge.to_executorch().buffer)

The parts are found on the Edge program itself, by compiling them (cut.py), so that what is taken is
what compiles. ExecuTorch is imported when this file is.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import executorch
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from loadstone.backend.target import resolve
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.files import source_folder
from loadstone.frontend.torch import FunctionalProgram, from_functional
from loadstone.hosts.cut import CutModel, Node, cut
from loadstone.library.native import library_file

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from loadstone.relax.types import IRModule

__all__ = ["LoadstoneBackend", "LoadstonePartitioner", "build", "load"]

#: Edge has no views: `view_copy` computes what `view` does.
_COPY = "_copy"
_TAG = "delegation_tag"


class LoadstonePartitioner(Partitioner):  # type: ignore[misc]  # ExecuTorch has no types
    """Tags what Loadstone runs alone on a target. left: nodes that stay with ExecuTorch -> why,
    after `partition`."""

    def __init__(self, program: ExportedProgram, target: str, device: str = "sim") -> None:
        """program: that which is lowered; its weights are read here, as ExecuTorch shows a
        partitioner none. target: as of `loadstone compile --target`. device: which runs it, a name
        of lds_easy.h; a process that runs the file takes it from there only if it is `sim`, else
        from LOADSTONE_DEVICE. Raises TargetError."""
        super().__init__()
        self.weights = {**program.state_dict, **program.constants}
        self.target = resolve(target)
        self.left: dict[str, str] = {}
        specs = [CompileSpec("target", target.encode()), CompileSpec("device", device.encode())]
        self.delegation = DelegationSpec(LoadstoneBackend.__name__, specs)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Each part its own tag. Raises UnsupportedError where there is none."""
        edge = _Edge(exported_program, self.weights)
        names = [node.name for node in edge.order]
        parts, left = cut(
            CutModel("part", edge.nodes(), edge.outputs, edge.module, ""), self.target
        )
        self.left = {names[index]: why for index, why in left.items()}
        tags = {}
        for part in parts:
            tag = f"loadstone_{part.nodes[0]}"
            tags[tag] = self.delegation
            for node in edge.owned(part.nodes, tag):
                node.meta[_TAG] = tag
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class LoadstoneBackend(BackendDetails):  # type: ignore[misc]
    """Its name is the delegate's in the .pte file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> PreprocessResult:
        """The artifact of a part: its inputs and outputs in the part's order. ExecuTorch calls
        it."""
        said = {spec.key: bytes(spec.value).decode() for spec in compile_specs}
        edge = _Edge(edge_program, {**edge_program.state_dict, **edge_program.constants})
        module = edge.module(range(len(edge.order)), edge.inputs, edge.outputs)
        artifact = compile_model(module, said["target"]).artifact
        return PreprocessResult(processed_bytes=artifact.to_bytes())


@dataclass(frozen=True)
class _Constant:
    """Where a program keeps a weight."""

    kind: InputKind
    target: str


class _Edge:
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
            if node.meta.get(_TAG, tag) != tag:
                with self.program.graph.inserting_after(node):
                    copies[node] = self.program.graph.node_copy(node, lambda n: copies.get(n, n))
                    copies[node].meta.pop(_TAG)
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


def build(folder: str | Path) -> Path:
    """libloadstone_executorch.so in a folder, compiled by the machine's C++ compiler (the
    environment's CXX, else c++) against the ExecuTorch that is installed. Raises LoadstoneError."""
    root, library = source_folder(), library_file()
    host = Path(next(iter(executorch.__path__)))
    path = Path(folder) / "libloadstone_executorch.so"
    headers = [host / "include", host / "include/executorch/runtime/core/portable_type/c10"]
    own = ("runtime/hosts/include", "runtime/include", "driver/include")
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-fPIC", "-shared"]
    command += ["-fvisibility=hidden", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    command += [str(root / "runtime/hosts/executorch/backend.cc"), "-o", str(path)]
    command += [word for header in headers for word in ("-isystem", str(header))]
    command += [f"-I{root / part}" for part in own]
    for name, where in (("executorch", host / "lib"), ("loadstone", library.parent)):
        command += [f"-L{where}", f"-l{name}", f"-Wl,-rpath,{where}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LoadstoneError(f"{command[0]}: {error.strerror}: install a C++ compiler") from error
    if done.returncode:
        raise LoadstoneError(f"{command[0]} cannot compile backend.cc: {done.stderr[:300]}")
    return path


def load(path: str | Path) -> None:
    """Takes what `build` made into this process: ExecuTorch's runtime then knows the back end.
    Raises LoadstoneError."""
    try:
        ctypes.CDLL(str(Path(path).resolve()))  # a name without a folder is looked for elsewhere
    except OSError as error:
        raise LoadstoneError(f"{path}: cannot be loaded: {error}") from error
