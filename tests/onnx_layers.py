# SPDX-License-Identifier: Apache-2.0
"""A QDQ ONNX file, layer by layer: each one alone on ONNX Runtime, with the integers that
Loadstone's simulator computed before it.

In:   the file, a device, samples.
Out:  elements compared and elements different, summed over the layers: nothing that one layer does
      differently reaches the next.
Next: quantization/test_export_onnx.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper

from loadstone import compiler
from loadstone.partition import partitioner
from tests import onnx_builder
from tests.test_networks import observed

__all__ = ["Layers"]

Array = NDArray[Any]


class Layers:
    """names: the int8 tensors that both know, in order. elements, different, largest: after
    `compare`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.model = onnx.load(str(file))
        self.constants = {entry.name: entry for entry in self.model.graph.initializer}
        self.makers = {output: node for node in self.model.graph.node for output in node.output}
        self.names: list[str] = []
        self.elements = self.different = self.largest = 0

    def compare(self, device: str, samples: Array) -> None:
        """Runs the network with every layer shown on the simulator, then each layer on ONNX
        Runtime."""
        shown = self.simulated(device, samples)
        self.names = [
            node.output[0]
            for node in self.model.graph.node
            if node.op_type == "QuantizeLinear" and node.output[0] in shown
        ]
        whole = session(
            self.model,
            [(entry.name, None) for entry in self.model.graph.input],
            self.names,
            list(self.model.graph.node),
        )
        references = [
            dict(zip(self.names, whole.run(None, {whole.get_inputs()[0].name: x}), strict=True))
            for x in samples
        ]
        ours = [
            {name: channels_first(shown[name][k], exact[name]) for name in self.names}
            for k, exact in enumerate(references)
        ]
        for name in self.names:
            layer = self.alone(name, references[0])
            for x, tensors in zip(samples, ours, strict=True):
                feeds = {entry.name: tensors.get(entry.name, x) for entry in layer.get_inputs()}
                difference = np.abs(layer.run(None, feeds)[0].astype(np.int64) - tensors[name])
                self.elements += difference.size
                self.different += int(np.count_nonzero(difference))
                self.largest = max(self.largest, int(difference.max()))

    def simulated(self, device: str, samples: Array) -> Mapping[str, Array]:
        """Every tensor between operators, (samples, *shape of the graph's tensor)."""
        with pytest.MonkeyPatch.context() as patch:
            divide = partitioner.partition
            patch.setattr(partitioner, "partition", lambda *arguments: observed(divide(*arguments)))
            compiled = compiler.compile(self.file, device)
        tensors = zip(compiled.graph.outputs, compiled.run(samples), strict=True)
        return {
            tensor.name: found.reshape(len(samples), *tensor.shape) for tensor, found in tensors
        }

    def alone(self, name: str, shapes: Mapping[str, Array]) -> onnxruntime.InferenceSession:
        """The nodes from the int8 tensors before `name` to it."""
        nodes, inputs = [], []
        for tensor in self.before(name):
            if tensor in self.makers and (tensor == name or tensor not in self.names):
                nodes.append(self.makers[tensor])
            elif tensor not in self.constants:
                inputs.append((tensor, shapes.get(tensor)))
        order = {node.name: index for index, node in enumerate(self.model.graph.node)}
        return session(self.model, inputs, [name], sorted(nodes, key=lambda node: order[node.name]))

    def before(self, name: str) -> Iterator[str]:
        """Tensors that `name` is computed from, up to int8 ones, each once."""
        seen, todo = set(), [name]
        while todo:
            tensor = todo.pop()
            if tensor and tensor not in seen:
                seen.add(tensor)
                yield tensor
                if tensor in self.makers and (tensor == name or tensor not in self.names):
                    todo += self.makers[tensor].input


def channels_first(found: Array, exact: Array) -> Array:
    """Loadstone's graph has channels last, the file's tensors may have them first: whichever comes
    nearer to ONNX Runtime's."""
    candidates = [found] + ([found.transpose(0, 3, 1, 2)] if found.ndim == 4 else [])
    fitting = [np.ascontiguousarray(entry) for entry in candidates if entry.shape == exact.shape]
    return min(fitting, key=lambda entry: np.count_nonzero(entry != exact))


def session(
    model: Any, inputs: list[tuple[str, Array | None]], outputs: list[str], nodes: list[Any]
) -> onnxruntime.InferenceSession:
    """Part of a model, as the file says it: without optimizations. inputs: int8 arrays that have
    the shape, or None for the model's own."""
    own = {entry.name: entry for entry in model.graph.input}
    infos = [
        own[name]
        if array is None
        else helper.make_tensor_value_info(name, onnx.TensorProto.INT8, array.shape)
        for name, array in inputs
    ]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.INT8, None) for name in outputs]
    read = {tensor for node in nodes for tensor in node.input}
    graph = helper.make_graph(
        nodes,
        "layer",
        infos,
        results,
        [entry for entry in model.graph.initializer if entry.name in read],
    )
    part = helper.make_model(
        graph, opset_imports=list(model.opset_import), ir_version=model.ir_version
    )
    return onnx_builder.session(part.SerializeToString())
