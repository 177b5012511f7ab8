# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as records, for a reader that trusts neither the file nor the compiler's reader.

In:   bytes.
Out:  OnnxModel: nodes with every attribute, constants, inputs and outputs.
Next: read_onnx.py says what each node means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from loadstone.errors import ModelError, UnsupportedError

__all__ = ["Array", "NodeRecord", "OnnxModel", "read_file"]

Array: TypeAlias = NDArray[np.generic]
_DOMAINS = ("", "ai.onnx", "com.microsoft", "ai.onnx.ml", "com.microsoft.nchwc")
_MAX_OPSET = 23


@dataclass(frozen=True, eq=False)
class NodeRecord:
    """A node. attributes: by name; a tensor is an array, a string is text."""

    index: int
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    @property
    def where(self) -> str:
        """`Conv (node 3, output "conv1")`."""
        output = self.outputs[0] if self.outputs else ""
        return f'{self.kind} (node {self.index}, output "{output[-60:]}")'

    def integer(self, name: str, default: int) -> int:
        """An integer of the attributes."""
        value = self.attributes.get(name, default)
        assert isinstance(value, int), name
        return value

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A list of integers of the attributes."""
        value = self.attributes.get(name, default)
        assert isinstance(value, list | tuple), name
        return tuple(int(item) for item in value)


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A file's graph. inputs: (name, NumPy's name of the type, shape); an unknown first extent is
    1, one sample."""

    name: str
    opset: int
    nodes: tuple[NodeRecord, ...]
    constants: Mapping[str, Array]
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[str, ...]


def read_file(data: bytes, name: str) -> OnnxModel:
    """The model of a file. Raises ModelError where it is damaged, UnsupportedError for what no
    record can hold."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's class of errors has no home that all versions share
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{name}: damaged ONNX file: {reason}") from error
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    opset = opsets.get("", opsets.get("ai.onnx", 1))
    if opset > _MAX_OPSET:
        raise UnsupportedError(
            f"{name}: opset {opset}, the limit is {_MAX_OPSET}: convert the model "
            "(onnx.version_converter)"
        )
    constants = {tensor.name: _array(tensor, name) for tensor in model.graph.initializer}
    return OnnxModel(
        name,
        opset,
        tuple(_node(k, node, name) for k, node in enumerate(model.graph.node)),
        constants,
        tuple(_input(entry, name) for entry in model.graph.input if entry.name not in constants),
        tuple(entry.name for entry in model.graph.output),
    )


def _array(tensor: onnx.TensorProto, name: str) -> Array:
    if tensor.external_data:
        raise UnsupportedError(
            f'{name}: the constant "{tensor.name[-60:]}" lies in another file: save the model '
            "in one"
        )
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise ModelError(f'{name}: the constant "{tensor.name[-60:]}" is damaged') from error


def _node(index: int, node: onnx.NodeProto, name: str) -> NodeRecord:
    if node.domain not in _DOMAINS:
        raise UnsupportedError(
            f"{name}: {node.op_type} (node {index}) is of the domain {node.domain}: a proof knows "
            "ONNX's own and com.microsoft"
        )
    attributes: dict[str, object] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = _array(value, name)
        elif isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        attributes[attribute.name] = value
    return NodeRecord(index, node.op_type, tuple(node.input), tuple(node.output), attributes)


def _input(entry: onnx.ValueInfoProto, name: str) -> tuple[str, str, tuple[int, ...]]:
    stated = entry.type.tensor_type
    extents = [int(d.dim_value) for d in stated.shape.dim]
    if extents and extents[0] == 0:
        extents[0] = 1
    if not stated.HasField("shape") or 0 in extents:
        raise UnsupportedError(
            f'{name}: input "{entry.name[-60:]}" has shape {extents}: export the model with fixed '
            "shapes"
        )
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(stated.elem_type)).name
    return entry.name, dtype, tuple(extents)
