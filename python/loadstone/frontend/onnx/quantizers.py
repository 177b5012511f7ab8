# SPDX-License-Identifier: Apache-2.0
"""What quantizers write, in the forms that everything after knows.

In:   an ONNX graph with QuantizeLinear and DequantizeLinear, com.microsoft's among them, and
      MatMulNBits.
Out:  the same graph (changed in place) with the standard's operators alone: zero points said,
      constants of two or four bits in eight, blocks of weights as float weights, no scale of 0.
Next: table.py checks and importer.py converts it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.onnx.node import attribute_value
from loadstone.numerics import Array

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

__all__ = ["plain_quantizers"]

_MICROSOFT = "com.microsoft"
#: Integers of few bits, and those of eight that hold them.
_WIDER = {
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
    TensorProto.INT2: TensorProto.INT8,
    TensorProto.UINT2: TensorProto.UINT8,
}
_BITS = 4


def plain_quantizers(graph: GraphProto, describe: Callable[[NodeProto], str]) -> None:
    """`describe(node)` begins the message of an UnsupportedError."""
    quantizers = _Quantizers(graph, {t.name: t for t in graph.initializer}, describe)
    nodes = [new for node in graph.node for new in quantizers.plain(node)]
    del graph.node[:]
    graph.node.extend(nodes)


@dataclass
class _Quantizers:
    graph: GraphProto
    constants: dict[str, TensorProto]
    describe: Callable[[NodeProto], str]

    def plain(self, node: NodeProto) -> list[NodeProto]:
        """What stands in a node's place."""
        if (node.domain, node.op_type) == (_MICROSOFT, "MatMulNBits"):
            return self.product(node)
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            return [node]
        if node.domain == _MICROSOFT:
            node.domain = ""
        if node.op_type == "QuantizeLinear":
            self.say_zero_point(node)
            return [node]
        given = {a.name: attribute_value(a) for a in node.attribute}
        if node.input[0] not in self.constants or any(
            entry and entry not in self.constants for entry in node.input[1:]
        ):
            return [node]
        for entry in (node.input[0], *node.input[2:]):
            self.widen(entry)
        if given.get("block_size"):
            self.unblock(node, int(given.get("axis", 1)), int(given["block_size"]))
            return []
        self.revive(node, int(given.get("axis", 1)))
        return [node]

    # -- each kind ---------------------------------------------------------------------------------

    def say_zero_point(self, node: NodeProto) -> None:
        """output_dtype, in the place of a zero point, which says the type, too."""
        kept = [a for a in node.attribute if a.name != "output_dtype"]
        said = next((a.i for a in node.attribute if a.name == "output_dtype"), 0)
        if not said or node.input[1] not in self.constants:
            return
        if len(node.input) < 3 or not node.input[2]:
            shape = tuple(self.constants[node.input[1]].dims)
            kind = helper.tensor_dtype_to_np_dtype(said)
            zero = self.add(np.zeros(shape, kind), f"{node.output[0]}/zero_point")
            del node.input[2:]
            node.input.append(zero)
        elif self.constants.get(node.input[2], TensorProto(data_type=said)).data_type != said:
            raise UnsupportedError(
                f"{self.describe(node)}: its output_dtype is not the type of its zero point: "
                "export the model anew"
            )
        del node.attribute[:]
        node.attribute.extend(kept)

    def widen(self, name: str) -> None:
        """Two or four bits in eight: all that reads them computes with their numbers."""
        tensor = self.constants.get(name)
        if tensor is None or tensor.data_type not in _WIDER:
            return
        kind = helper.tensor_dtype_to_np_dtype(_WIDER[tensor.data_type])
        tensor.CopyFrom(numpy_helper.from_array(self.array(name).astype(kind), name))

    def unblock(self, node: NodeProto, axis: int, size: int) -> None:
        """A scale for each block of `size` along the axis: computed now, in float."""
        levels, scales = self.array(node.input[0]), self.array(node.input[1])
        places = np.arange(levels.shape[axis]) // size
        levels = levels.astype(np.int32)
        if len(node.input) > 2 and node.input[2]:
            levels = levels - self.array(node.input[2]).astype(np.int32).take(places, axis)
        real = levels.astype(np.float32) * scales.take(places, axis).astype(np.float32)
        self.add(real.astype(scales.dtype), node.output[0])

    def revive(self, node: NodeProto, axis: int) -> None:
        """A scale of 0 makes zeros; the same zeros with a scale that is a number."""
        scales = self.array(node.input[1])
        dead = scales == 0
        if not dead.any():
            return
        levels = self.array(node.input[0])
        zeros = self.array(node.input[2]) if len(node.input) > 2 else np.zeros((), levels.dtype)
        living = scales[scales > 0]
        name = node.output[0]
        if scales.size > 1:
            shape = [-1 if place == axis % levels.ndim else 1 for place in range(levels.ndim)]
            dead, zeros = dead.reshape(shape), np.broadcast_to(zeros, scales.shape).reshape(shape)
        cleared = np.where(dead, zeros, levels).astype(levels.dtype)
        node.input[0] = self.add(cleared, f"{name}/levels")
        fill = living.min() if living.size else scales.dtype.type(1)
        node.input[1] = self.add(np.where(scales == 0, fill, scales), f"{name}/scales")

    def product(self, node: NodeProto) -> list[NodeProto]:
        """MatMulNBits (a, b, scales, zero_points?, g_idx?, bias?): b holds two columns' elements in
        each byte, the lower half first, blocks of block_size along K."""
        given: dict[str, Any] = {a.name: attribute_value(a) for a in node.attribute}
        inputs = [*node.input, "", "", ""][:6]
        bits, size = int(given.get("bits", _BITS)), int(given["block_size"])
        needed = [entry for entry in inputs[1:4] if entry]
        if bits != _BITS or inputs[4] or any(entry not in self.constants for entry in needed):
            raise UnsupportedError(
                f"{self.describe(node)}: it has {bits} bits{', and g_idx' if inputs[4] else ''}: "
                f"{_BITS} bits, constant weights and no g_idx are imported: quantize it so"
            )
        columns, rows = int(given["N"]), int(given["K"])
        blocks = -(-rows // size)
        levels = _halves(self.array(inputs[1]).reshape(columns, -1)).reshape(columns, blocks, size)
        scales = self.array(inputs[2]).reshape(columns, blocks, 1)
        zeros: Array = np.full((columns, blocks, 1), 8.0)
        if inputs[3]:
            packed = self.array(inputs[3])
            if packed.dtype == np.uint8:
                packed = _halves(packed.reshape(columns, -1))[:, :blocks]
            zeros = packed.reshape(columns, blocks, 1)
        real = (levels.astype(np.float32) - zeros.astype(np.float32)) * scales.astype(np.float32)
        weights = real.reshape(columns, -1)[:, :rows].T.astype(scales.dtype)
        name = self.add(np.ascontiguousarray(weights), f"{node.output[0]}/weights")
        if not inputs[5]:
            return [helper.make_node("MatMul", [inputs[0], name], node.output, node.name)]
        sums = f"{node.output[0]}/sums"
        return [
            helper.make_node("MatMul", [inputs[0], name], [sums], node.name),
            helper.make_node("Add", [sums, inputs[5]], node.output, f"{node.name}/bias"),
        ]

    # -- constants ---------------------------------------------------------------------------------

    def array(self, name: str) -> Array:
        found: Array = numpy_helper.to_array(self.constants[name])
        return found

    def add(self, array: Array, name: str) -> str:
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        self.constants[name] = self.graph.initializer[-1]
        return name


def _halves(packed: Array) -> Array:
    """(n, bytes) as (n, 2 * bytes), the lower four bits first."""
    pairs = np.stack([packed & 15, packed >> 4], -1)
    found: Array = pairs.reshape(len(packed), -1)
    return found
