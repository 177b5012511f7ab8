# SPDX-License-Identifier: Apache-2.0
"""What quantizers write, in the forms that everything after knows.

In:   an ONNX graph with QuantizeLinear and DequantizeLinear, com.microsoft's among them, and
      MatMulNBits.
Out:  the same graph (changed in place) with the standard's operators alone: zero points said,
      constants of two or four bits in eight, blocks of weights as float weights, no scale of 0.
Next: table.py checks and importer.py converts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
#: What blocks may hold.
_INTEGERS = (
    *_WIDER,
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16),
    TensorProto.INT32,
)
#: Attributes of MatMulNBits; accuracy_level allows ORT to round activations, and obliges nobody.
_KNOWN = ("K", "N", "accuracy_level", "bits", "block_size")
#: Of the bits of a weight in MatMulNBits: those that fill a byte.
_BITS = (2, 4, 8)


def plain_quantizers(graph: GraphProto, describe: Callable[[NodeProto], str]) -> None:
    """`describe(node)` begins the message of an UnsupportedError."""
    rest = [node for node in graph.node if node.op_type != "DequantizeLinear"]
    others = {entry for node in rest for entry in node.input} | {o.name for o in graph.output}
    quantizers = _Quantizers(graph, {t.name: t for t in graph.initializer}, describe, others)
    nodes = [new for node in graph.node for new in quantizers.plain(node)]
    del graph.node[:]
    graph.node.extend(nodes)
    read = {entry for node in nodes for entry in node.input} | {o.name for o in graph.output}
    unread = {t.name for t in graph.initializer if t.data_type in _WIDER} - read
    for entries in (graph.initializer, graph.input):
        kept = [entry for entry in entries if entry.name not in unread]
        del entries[:]
        entries.extend(kept)


@dataclass
class _Quantizers:
    """others: what is read elsewhere than in DequantizeLinear."""

    graph: GraphProto
    constants: dict[str, TensorProto]
    describe: Callable[[NodeProto], str]
    others: set[str]

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
        if given.get("block_size"):
            self.unblock(node, given)
            return []
        for place in range(len(node.input)):
            node.input[place] = self.widened(node.input[place])
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

    def widened(self, name: str) -> str:
        """Two or four bits in eight, for those who compute with the numbers alone. What others read
        stays, because its type says to QuantizeLinear where it saturates."""
        tensor = self.constants.get(name)
        if tensor is None or tensor.data_type not in _WIDER:
            return name
        wide = self.array(name).astype(helper.tensor_dtype_to_np_dtype(_WIDER[tensor.data_type]))
        if name in self.others:
            beside = f"{name}/wide"
            return beside if beside in self.constants else self.add(wide, beside)
        tensor.CopyFrom(numpy_helper.from_array(wide, name))
        for entry in self.graph.input:
            if entry.name == name:
                entry.type.tensor_type.elem_type = tensor.data_type
        return name

    def unblock(self, node: NodeProto, given: Mapping[str, int]) -> None:
        """A scale for each block along the axis: computed now, in float."""
        axis, size = given.get("axis", 1), given["block_size"]
        levels, scales = self.array(node.input[0]), self.array(node.input[1])
        zeros = self.array(node.input[2]) if "".join(node.input[2:]) else None
        if not -levels.ndim <= axis < levels.ndim or size < 0:
            raise self.fault(node, f"it has blocks of {size} along axis {axis} of {levels.shape}")
        if self.constants[node.input[0]].data_type not in _INTEGERS:
            raise self.fault(node, f"it has blocks of {levels.dtype}, not of integers")
        shape = list(levels.shape)
        shape[axis] = -(-shape[axis] // size)
        for what, entry in (("scales", scales), ("zero points", zeros)):
            if entry is not None and entry.shape != tuple(shape):
                raise self.fault(node, f"its {what} are {entry.shape}, not {tuple(shape)}")
        if zeros is not None and zeros.dtype != levels.dtype:
            raise self.fault(node, f"its zero points are {zeros.dtype}, not {levels.dtype}")
        places = np.arange(levels.shape[axis]) // size
        levels = levels.astype(np.int64)
        if zeros is not None:
            levels = levels - zeros.astype(np.int64).take(places, axis)
        kind = scales.dtype
        if given.get("output_dtype"):
            kind = helper.tensor_dtype_to_np_dtype(given["output_dtype"])
        real = levels.astype(np.float32) * self.steps(node, scales).take(places, axis)
        self.add(real.astype(kind), node.output[0])

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
        """MatMulNBits (a, b, scales, zero_points?, g_idx?, bias?): b holds columns one behind the
        other, blocks of block_size along K, in each byte the lowest bits first."""
        given: dict[str, Any] = {a.name: attribute_value(a) for a in node.attribute}
        inputs = [*node.input, "", "", ""][:6]
        bits, size = int(given.get("bits", 4)), int(given["block_size"])
        columns, rows = int(given["N"]), int(given["K"])
        for key in sorted(set(given) - set(_KNOWN)):
            if given[key]:
                raise UnsupportedError(
                    f"{self.describe(node)}: its attribute {key} is {given[key]}, and only 0 is "
                    "imported: export the model without it"
                )
        if bits not in _BITS:
            raise self.fault(
                node, f"it has {bits} bits, and only {', '.join(map(str, _BITS))} are read"
            )
        if inputs[4]:
            what = "it has g_idx, and only blocks of rows in their order are read"
            raise UnsupportedError(
                f"{self.describe(node)}: {what}: quantize it anew without it (desc_act, act_order)"
            )
        if any(entry and entry not in self.constants for entry in inputs[1:4]):
            raise self.fault(
                node, "its weights are computed when it runs, and only constants are read"
            )
        if min(columns, rows, size // 8) < 1:
            what = f"N is {columns}, K {rows} and block_size {size}, and the least are 1, 1 and 8"
            raise self.fault(node, what)
        blocks = -(-rows // size)
        packed = self.sized(node, "weights", inputs[1], (columns, blocks * size * bits // 8))
        levels = _unpacked(packed, bits)[:, :rows].astype(np.float32)
        scales = self.sized(node, "scales", inputs[2], (columns, blocks))
        zeros: Array = np.full((columns, blocks), 1 << bits - 1, np.float32)
        if inputs[3] and self.array(inputs[3]).dtype == np.uint8:
            packed = self.sized(node, "zero points", inputs[3], (columns, -(-blocks * bits // 8)))
            zeros = _unpacked(packed, bits)[:, :blocks].astype(np.float32)
        elif inputs[3]:
            zeros = self.sized(node, "zero points", inputs[3], (columns, blocks)).astype(np.float32)
        steps = self.steps(node, scales)
        real = (levels - zeros.repeat(size, 1)[:, :rows]) * steps.repeat(size, 1)[:, :rows]
        weights = real.T.astype(scales.dtype)
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

    def sized(self, node: NodeProto, what: str, name: str, shape: tuple[int, int]) -> Array:
        """A constant in the shape that the attributes say; its own may have more or fewer axes."""
        found = self.array(name)
        if found.size != shape[0] * shape[1]:
            raise self.fault(
                node, f"its {what} are {found.size} entries, not {shape[0] * shape[1]}"
            )
        return found.reshape(shape)

    def steps(self, node: NodeProto, scales: Array) -> Array:
        """Scales of blocks, in float32."""
        real: Array = scales.astype(np.float32)
        if not np.isfinite(real).all():
            raise self.fault(node, f"it has the scale {real[~np.isfinite(real)][0]}")
        return real

    def fault(self, node: NodeProto, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.describe(node)}: {what}: quantize the float model anew")

    def add(self, array: Array, name: str) -> str:
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        self.constants[name] = self.graph.initializer[-1]
        return name


def _unpacked(packed: Array, bits: int) -> Array:
    """(n, bytes) as (n, bytes * 8 / bits), the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found: Array = (packed[..., None] >> shifts & (1 << bits) - 1).reshape(len(packed), -1)
    return found
