# SPDX-License-Identifier: Apache-2.0
"""An ONNX model whose EPContext nodes carry artifacts, for ONNX Runtime's plug-in provider.

In:   a .onnx file, a target.
Out:  the same model, in which each part that Loadstone runs alone is one EPContext node with its
      artifact; the other nodes are unchanged.
Next: register_execution_provider_library("Loadstone", provider_file()); ONNX Runtime runs the model
      without Python, the other nodes with its own kernels.

    from loadstone.hosts import onnxruntime
    onnxruntime.compile("net.onnx", "vtaq-1x16x16").save("net_lds.onnx")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, shape_inference

from loadstone.backend.request import ROUNDINGS, CompileRequest
from loadstone.backend.target import TargetSource, resolve
from loadstone.errors import LoadstoneError, ModelError
from loadstone.frontend.message import one_line
from loadstone.hosts.cut import CutModel, HostModel, Node, Part, cut
from loadstone.library.native import library_file

__all__ = ["PROVIDER", "compile", "provider_file"]

#: The name under which ONNX Runtime knows the provider (runtime/hosts/onnxruntime/provider.c).
PROVIDER = "LoadstoneExecutionProvider"
_DOMAIN = "com.microsoft"


def provider_file() -> Path:
    """libloadstone_onnxruntime.so. Raises LoadstoneError when it was not built."""
    path = library_file().with_name("libloadstone_onnxruntime.so")
    if not path.is_file():
        raise LoadstoneError(f"{path} is absent: build it with `make lib`, or install the wheel")
    return path


def compile(  # noqa: A001
    model: str | Path, target: TargetSource, rounding: str = ROUNDINGS[0]
) -> HostModel:
    """Raises ModelError, UnsupportedError where no part of the model runs on the target."""
    path = Path(model)
    file = _File(_loaded(path), path.name)
    whole = CutModel(
        path.stem, file.nodes(), file.outputs, file.extracted, ".onnx", file.with_graphs()
    )
    parts, left = cut(whole, resolve(target).asked(CompileRequest(rounding)))
    return HostModel(file.replaced(parts), len(whole.nodes), tuple(parts), left)


def _loaded(path: Path) -> Any:
    """With the types of all tensors that ONNX can infer."""
    try:
        model = onnx.load(str(path))
        return shape_inference.infer_shapes(model, data_prop=True)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:
        raise ModelError(f"{path}: no ONNX model: {one_line(error)}") from error


class _File:
    """The main graph. Nodes that compute constants belong to whoever reads them."""

    def __init__(self, model: Any, name: str) -> None:
        self.model = model
        self.name = name
        graph = model.graph
        self.outputs = {value.name for value in graph.output}
        self.initializers = {item.name: item for item in graph.initializer}
        infos = (*graph.input, *graph.output, *graph.value_info)
        self.infos = {info.name: info for info in infos}
        self.constant_nodes: dict[str, int] = {}  # tensor -> the node that makes it of constants
        known = set(self.initializers)
        for index, node in enumerate(graph.node):
            if set(filter(None, node.input)) <= known and not _captured(node):
                known.update(node.output)
                self.constant_nodes.update(dict.fromkeys(node.output, index))
        self.constants = known

    def nodes(self) -> list[Node]:
        """Those whose inputs are not all constants."""
        constant = set(self.constant_nodes.values())
        return [
            Node(
                index,
                tuple(n for n in self.reads(node) if n not in self.constants),
                tuple(filter(None, node.output)),
            )
            for index, node in enumerate(self.model.graph.node)
            if index not in constant
        ]

    def with_graphs(self) -> dict[int, str]:
        """Nodes that hold graphs, such as If and Loop: no back end takes them."""
        return {
            index: f"{node.op_type} holds a graph of its own"
            for index, node in enumerate(self.model.graph.node)
            if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        }

    def reads(self, node: Any) -> list[str]:
        """Its inputs, and what the graphs inside it read of this one."""
        return list(dict.fromkeys([*filter(None, node.input), *_captured(node)]))

    def with_constants(self, group: Iterable[int]) -> list[int]:
        """The group and the nodes that make its constants, in the order of the file."""
        found: set[int] = set()
        todo = list(group)
        while todo:
            index = todo.pop()
            if index not in found:
                found.add(index)
                names = self.reads(self.model.graph.node[index])
                todo += [self.constant_nodes[n] for n in names if n in self.constant_nodes]
        return sorted(found)

    def extracted(
        self, group: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> bytes:
        """A model of these nodes alone."""
        nodes = [self.model.graph.node[index] for index in self.with_constants(group)]
        ports = [[self.info(name) for name in names] for names in (inputs, outputs)]
        return self.model_of(nodes, *ports)

    def info(self, name: str) -> Any:
        """Raises ModelError where ONNX does not know the tensor's type and shape."""
        info = self.infos.get(name)
        if info is None or not info.type.tensor_type.HasField("shape"):
            raise ModelError(f"{self.name}: the type of tensor {name!r} is not known")
        return info

    def replaced(self, parts: Sequence[Part]) -> bytes:
        """The model with an EPContext node for each part."""
        taken = {index for part in parts for index in part.nodes}
        rest = [node.index for node in self.nodes() if node.index not in taken]
        kept = self.with_constants(rest) + [
            self.constant_nodes[name] for name in self.outputs if name in self.constant_nodes
        ]
        nodes = [self.model.graph.node[index] for index in sorted(set(kept))]
        nodes = _ordered([*nodes, *map(_context_node, parts)], self)
        graph = self.model.graph
        # ONNX cannot infer what an EPContext node gives
        inner = [self.info(n) for part in parts for n in part.outputs if n not in self.outputs]
        return self.model_of(nodes, graph.input, graph.output, inner)

    def model_of(
        self,
        nodes: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        inner: Sequence[Any] = (),
    ) -> bytes:
        """With the initializers that the nodes read, and those that are outputs. inner: types of
        tensors between nodes."""
        used = {name for node in nodes for name in self.reads(node)}
        used |= {value.name for value in outputs}
        kept = [item for name, item in self.initializers.items() if name in used]
        name = self.model.graph.name
        graph = helper.make_graph(list(nodes), name, inputs, outputs, kept, value_info=inner)
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        made.graph.CopyFrom(graph)
        if _DOMAIN not in [entry.domain for entry in made.opset_import]:
            made.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
        return bytes(made.SerializeToString())


def _captured(node: Any) -> list[str]:
    """Names that the graphs in its attributes read and do not make: of the graph around it."""
    found: list[str] = []
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        for graph in graphs:
            made = {value.name for value in (*graph.input, *graph.initializer)}
            made |= {name for inner in graph.node for name in inner.output}
            read = [n for inner in graph.node for n in (*inner.input, *_captured(inner)) if n]
            found += [n for n in (*read, *(v.name for v in graph.output)) if n not in made]
    return found


def _context_node(part: Part) -> Any:
    artifact = part.artifact
    return helper.make_node(
        "EPContext",
        list(part.inputs),
        list(part.outputs),
        name=f"loadstone_{part.nodes[0]}",
        domain=_DOMAIN,
        main_context=1,
        embed_mode=1,
        ep_cache_context=artifact.to_bytes(),
        source=PROVIDER,
        partition_name=artifact.name,
        hardware_architecture=artifact.device,
    )


def _ordered(nodes: Sequence[Any], file: _File) -> list[Any]:
    """Each behind those whose outputs it reads."""
    maker = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    needs: Mapping[int, set[int]] = {
        k: {maker[name] for name in file.reads(node) if name in maker}
        for k, node in enumerate(nodes)
    }
    done: list[int] = []
    while len(done) < len(nodes):
        ready = [k for k in needs if k not in done and needs[k] <= set(done)]
        if not ready:
            raise AssertionError("a circle of parts")
        done += ready
    return [nodes[k] for k in done]
