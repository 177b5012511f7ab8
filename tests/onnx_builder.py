# SPDX-License-Identifier: Apache-2.0
"""ONNX models made by tests: single operators or small graphs, saved to bytes, run on ONNX Runtime.

In:   inputs, constants and nodes.
Out:  the bytes of a .onnx file; `run` gives what ONNX Runtime computes, as the model says it,
      without optimisations; `session` is ONNX Runtime with any model.
Next: graph/kernels/onnx/ compares that with loadstone.graph.kernels.onnx; the compiler's
property tests compile it.

    graph = Graph()
    x = graph.dequantize(graph.input((1, 3, 8, 8), np.int8), 0.1, -3)
    y = graph.quantize(graph.node("MaxPool", x, kernel_shape=[2, 2]), 0.1, -3)
    outputs = run(graph.save([(y, np.int8)]), [image])

Values are the names of tensors. Tensors are NCHW, as ONNX has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import helper, numpy_helper

__all__ = ["Graph", "run", "session"]

OPSET = 17
IR_VERSION = 8


@dataclass
class Graph:
    """One graph under construction."""

    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def input(self, shape: Sequence[int], dtype: DTypeLike) -> str:
        """Adds an input of the graph."""
        name = f"in{len(self.inputs)}"
        self.inputs.append(
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape)
            )
        )
        return name

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """Adds an initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Appends a node with one output and gives its name; "" stands for an optional input left
        out."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def dequantize(
        self,
        x: str,
        scale: ArrayLike,
        zero_point: ArrayLike,
        dtype: DTypeLike = np.int8,
        *,
        axis: int = 1,
    ) -> str:
        """DequantizeLinear; a vector of scales is one per channel along `axis`."""
        return self.node(
            "DequantizeLinear",
            x,
            self.constant(scale, np.float32),
            self.constant(zero_point, dtype),
            axis=axis,
        )

    def quantize(self, x: str, scale: float, zero_point: int, dtype: DTypeLike = np.int8) -> str:
        """QuantizeLinear."""
        return self.node(
            "QuantizeLinear", x, self.constant(scale, np.float32), self.constant(zero_point, dtype)
        )

    def save(
        self,
        outputs: Sequence[tuple[str, DTypeLike]],
        shapes: Sequence[Sequence[int]] | None = None,
        *,
        opset: int = OPSET,
        ir: int = IR_VERSION,
    ) -> bytes:
        """The .onnx file, its outputs given as (name, type). shapes: ONNX's checker demands them,
        ONNX Runtime does not."""
        types = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for _, dtype in outputs]
        extents = shapes or [None] * len(outputs)
        infos = [
            helper.make_tensor_value_info(name, t, e)
            for (name, _), t, e in zip(outputs, types, extents, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "test", self.inputs, infos, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir)
        return bytes(model.SerializeToString())


def session(model: bytes | Path, *, optimize: bool = False) -> onnxruntime.InferenceSession:
    """A model, its bytes or its file, on one thread: tests run in as many processes as there are
    cores."""
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    content = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(
    model: bytes, inputs: Sequence[NDArray[Any]], *, optimize: bool = False
) -> list[NDArray[Any]]:
    """Runs a model once; all outputs in order."""
    opened = session(model, optimize=optimize)
    outputs: list[NDArray[Any]] = opened.run(
        None, {entry.name: x for entry, x in zip(opened.get_inputs(), inputs, strict=True)}
    )
    return outputs
