# SPDX-License-Identifier: Apache-2.0
"""What ExecuTorch calls when it lowers a program: which parts are Loadstone's, and what each is.

In:   a program in Edge dialect; the weights of the program that it was made of.
Out:  each part that Loadstone runs alone is a delegate "LoadstoneBackend" that carries its
      artifact; the rest stays ExecuTorch's.
Next: backend.cc runs the artifacts in ExecuTorch's runtime.

The parts are found on the Edge program itself, by compiling them (loadstone.hosts.cut), so that
what is taken is what compiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data

from loadstone.backend.target import resolve
from loadstone.compiler import compile as compile_model
from loadstone.hosts.cut import CutModel, cut
from loadstone_executorch.edge import TAG, Edge

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["LoadstoneBackend", "LoadstonePartitioner"]


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
        edge = Edge(exported_program, self.weights)
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
                node.meta[TAG] = tag
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class LoadstoneBackend(BackendDetails):  # type: ignore[misc]
    """Its name is the delegate's in the .pte file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[Any]) -> PreprocessResult:
        """The artifact of a part: its inputs and outputs in the part's order. ExecuTorch calls
        it."""
        said = {spec.key: bytes(spec.value).decode() for spec in compile_specs}
        edge = Edge(edge_program, {**edge_program.state_dict, **edge_program.constants})
        module = edge.module(range(len(edge.order)), edge.inputs, edge.outputs)
        artifact = compile_model(module, said["target"]).artifact
        return PreprocessResult(processed_bytes=artifact.to_bytes())
