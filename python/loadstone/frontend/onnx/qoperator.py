# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on integers (QLinearConv and its kin) rewritten as QDQ: DequantizeLinear, the
float operator, QuantizeLinear.

In:   an ONNX graph with QLinear* operators, of the standard or of com.microsoft; others pass
      unchanged.
Out:  the same graph without them (changed in place).
Next: table.py checks and importer.py converts it.

Both forms mean the same numbers (docs/numerics.md, float32), and one form is enough for everything
that follows.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from loadstone.errors import UnsupportedError
from loadstone.numerics import Array

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

__all__ = ["rewrite_to_qdq"]

#: From this opset on Softmax is over one axis.
COERCED = 13


def rewrite_to_qdq(
    graph: GraphProto, describe: Callable[[NodeProto], str], opset: int = COERCED
) -> bool:
    """Replaces every QLinear* operator, and says whether there was one. `describe(node)` begins the
    message of an UnsupportedError. opset: the model's."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    writer = _Writer(constants, graph.initializer, opset)
    for node in graph.node:
        if node.op_type in _TABLE:
            writer.node = node
            try:
                writer.say_what_is_left_out(node)
                _TABLE[node.op_type](writer, node)
            except (KeyError, IndexError, ValueError) as error:
                raise UnsupportedError(
                    f"{describe(node)}: scales and zero points must be constants of the "
                    f"model ({error})"
                ) from None
            except _Refused as error:
                raise UnsupportedError(f"{describe(node)}: {error}") from None
        elif node.op_type in _INTEGER_MOVES and node.input and node.input[0] in writer.parameters:
            writer.node = node
            writer.move(node)
        else:
            if node.op_type == "DequantizeLinear" and len(node.input) == 3:
                writer.parameters.setdefault(node.input[0], (node.input[1], node.input[2]))
            if node.op_type == "QuantizeLinear" and len(node.input) == 3:
                writer.parameters[node.output[0]] = (node.input[1], node.input[2])
            writer.nodes.append(node)
    rewritten = writer.node is not None
    nodes = list(writer.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    return rewritten


#: Operators that ONNX also defines on int8 and uint8 tensors, and that keep their quantization.
_INTEGER_MOVES = (
    "MaxPool",
    "Reshape",
    "Transpose",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Identity",
)


class _Refused(Exception):
    pass


@dataclass
class _Writer:
    constants: dict[str, TensorProto]
    initializers: MutableSequence[TensorProto]
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    parameters: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # integer tensor -> names of its scale, zero point
    node: NodeProto = None
    count: int = 0

    def fresh(self, suffix: str) -> str:
        self.count += 1
        return f"{self.node.output[0]}/{suffix}{self.count}"

    def array(self, name: str) -> Array:
        array: Array = numpy_helper.to_array(self.constants[name])
        return array

    def constant(self, array: ArrayLike) -> str:
        name = self.fresh("constant")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        self.constants[name] = self.initializers[-1]
        return name

    def say_what_is_left_out(self, node: NodeProto) -> None:
        """Inputs to their full number, and zero points, of the type of those that are there."""
        places = _ZERO_POINTS.get(node.op_type)
        if places is None:
            return
        node.input.extend([""] * (places[-1] + 1 - len(node.input)))
        known = [node.input[place] for place in places if node.input[place]]
        for place in places:
            if not node.input[place] and node.input[place - 1] and known:
                like = self.array(known[0])
                node.input[place] = self.constant(np.zeros((), like.dtype))

    def dequantize(self, tensor: str, scale: str, zero_point: str, *, axis: int = 1) -> str:
        self.parameters.setdefault(tensor, (scale, zero_point))
        self.array(scale), self.array(zero_point)  # KeyError unless both are constants
        output = self.fresh("real")
        self.nodes.append(
            helper.make_node("DequantizeLinear", [tensor, scale, zero_point], [output], axis=axis)
        )
        return output

    def quantize(self, tensor: str, scale: str, zero_point: str, output: str) -> None:
        self.array(scale), self.array(zero_point)
        self.parameters[output] = (scale, zero_point)
        self.nodes.append(helper.make_node("QuantizeLinear", [tensor, scale, zero_point], [output]))

    def emit(
        self,
        op_type: str,
        inputs: Sequence[str],
        scale: str,
        zero_point: str,
        attributes: Sequence[AttributeProto] = (),
    ) -> None:
        """The float operator and the quantization of its result, under the name of the old
        result."""
        output = self.fresh("real")
        float_node = helper.make_node(op_type, list(inputs), [output], name=self.node.name)
        float_node.attribute.extend(attributes)
        self.nodes.append(float_node)
        self.quantize(output, scale, zero_point, self.node.output[0])

    def move(self, node: NodeProto) -> None:
        self.node = node
        scale, zero_point = self.parameters[node.input[0]]
        source = self.dequantize(node.input[0], scale, zero_point)
        self.emit(node.op_type, [source, *node.input[1:]], scale, zero_point, node.attribute)


# Each takes the writer and the node: (x, x_scale, x_zero_point, ...).


def _conv(writer: _Writer, node: NodeProto) -> None:
    """(x, x_scale, x_zp, w, w_scale, w_zp, y_scale, y_zp, bias?); the bias is int32 at x_scale *
    w_scale."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    inputs = [writer.dequantize(x, x_scale, x_zero), writer.dequantize(w, w_scale, w_zero, axis=0)]
    scale = _product(writer, x_scale, w_scale)
    if bias and bias[0]:
        inputs.append(_bias(writer, bias[0], scale))
    writer.emit("Conv", inputs, y_scale, y_zero, _kept(node))


def _product(writer: _Writer, x_scale: str, w_scale: str) -> Array:
    """The scale of the sums, () or (channels,). ONNX Runtime multiplies in float32, where a product
    that is no normal number has few bits left: its results are then not those of the real numbers.
    """
    x, w = (writer.array(name).astype(np.float32) for name in (x_scale, w_scale))
    with np.errstate(all="ignore"):
        scale = np.asarray(x * w, np.float32)
        few = (scale < np.finfo(np.float32).tiny) & (x > 0) & (w > 0)
    if np.any(few):
        raise _Refused(
            f"the product of its scales, {scale[few][0]:.3g}, is no normal number of float32: "
            "quantize the model with scales that are"
        )
    return scale.reshape(-1) if scale.size > 1 else scale.reshape(())


def _bias(writer: _Writer, bias: str, scale: Array) -> str:
    return writer.dequantize(
        bias, writer.constant(scale), writer.constant(np.zeros(scale.shape, np.int32)), axis=0
    )


def _matmul(writer: _Writer, node: NodeProto) -> None:
    """(a, a_scale, a_zp, b, b_scale, b_zp, y_scale, y_zp); b may have a scale per column."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    inputs = [writer.dequantize(a, a_scale, a_zero), writer.dequantize(b, b_scale, b_zero, axis=1)]
    _product(writer, a_scale, b_scale)
    writer.emit("MatMul", inputs, y_scale, y_zero)


def _gemm(writer: _Writer, node: NodeProto) -> None:
    """com.microsoft QGemm: (a, a_scale, a_zp, b, b_scale, b_zp, c?, y_scale?, y_zp?)."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = node.input
    attributes = {attribute.name: attribute for attribute in node.attribute}
    column = 0 if "transB" in attributes and attributes["transB"].i else 1
    alpha = np.float32(attributes["alpha"].f if "alpha" in attributes else 1)
    if not alpha > 0:
        raise _Refused(f"its alpha is {alpha:g}, and one above 0 is imported: export it with that")
    if alpha != 1:  # a product of alpha times weights, and the bias has the product's scale
        b_scale = writer.constant(np.asarray(alpha * writer.array(b_scale), np.float32))
    inputs = [
        writer.dequantize(a, a_scale, a_zero),
        writer.dequantize(b, b_scale, b_zero, axis=column),
    ]
    scale = _product(writer, a_scale, b_scale)
    if c:
        inputs.append(_bias(writer, c, scale))
    kept = _kept(node, "alpha")
    if y_scale:
        writer.emit("Gemm", inputs, y_scale, y_zero, kept)
    else:  # the result is float
        writer.nodes.append(helper.make_node("Gemm", inputs, node.output, name=node.name))
        writer.nodes[-1].attribute.extend(kept)


def _binary(op_type: str) -> Callable[[_Writer, NodeProto], None]:
    """com.microsoft: (a, a_scale, a_zp, b, b_scale, b_zp, y_scale, y_zp)."""

    def rewrite(writer: _Writer, node: NodeProto) -> None:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
        writer.emit(
            op_type,
            [writer.dequantize(a, a_scale, a_zero), writer.dequantize(b, b_scale, b_zero)],
            y_scale,
            y_zero,
        )

    return rewrite


def _unary(op_type: str, *dropped: str) -> Callable[[_Writer, NodeProto], None]:
    """com.microsoft: (x, x_scale, x_zp, y_scale, y_zp)."""

    def rewrite(writer: _Writer, node: NodeProto) -> None:
        x, x_scale, x_zero, y_scale, y_zero = node.input
        writer.emit(
            op_type,
            [writer.dequantize(x, x_scale, x_zero)],
            y_scale,
            y_zero,
            _kept(node, *dropped),
        )

    return rewrite


def _concat(writer: _Writer, node: NodeProto) -> None:
    """com.microsoft: (y_scale, y_zp, then x, x_scale, x_zp for each input)."""
    y_scale, y_zero, *rest = node.input
    triples = [rest[start : start + 3] for start in range(0, len(rest), 3)]
    inputs = [writer.dequantize(x, scale, zero) for x, scale, zero in triples]
    writer.emit("Concat", inputs, y_scale, y_zero, node.attribute)


def _kept(node: NodeProto, *dropped: str) -> list[AttributeProto]:
    """The attributes that the float operator knows too."""
    for attribute in node.attribute:
        if attribute.name == "channels_last" and attribute.i:
            raise _Refused("its channels_last is 1: export with channels first")
    return [
        attribute
        for attribute in node.attribute
        if attribute.name not in ("channels_last", *dropped)
    ]


def _softmax(writer: _Writer, node: NodeProto) -> None:
    """com.microsoft QLinearSoftmax: `opset` says whose Softmax: below 13 over all axes from `axis`
    on, as one."""
    x, x_scale, x_zero, y_scale, y_zero = node.input
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    is_old, axis = attributes.get("opset", 13) < COERCED, attributes.get("axis", -1)
    source = writer.dequantize(x, x_scale, x_zero)
    if is_old == (writer.opset < COERCED) or axis == -1:
        writer.emit("Softmax", [source], y_scale, y_zero, _kept(node, "opset"))
        return
    if not is_old:
        raise _Refused(
            f"its opset is {attributes['opset']} in a model of opset {writer.opset}: convert the "
            "model (onnx.version_converter)"
        )
    flat, shape, rows, back = (writer.fresh(what) for what in ("flat", "shape", "rows", "back"))
    writer.nodes += [
        helper.make_node("Shape", [source], [shape]),
        helper.make_node("Flatten", [source], [flat], axis=axis),
        helper.make_node("Softmax", [flat], [rows], axis=-1),
        helper.make_node("Reshape", [rows, shape], [back], name=node.name),
    ]
    writer.quantize(back, y_scale, y_zero, node.output[0])


#: Where zero points stand that may be left out.
_ZERO_POINTS = {
    "QGemm": (2, 5, 8),
    "QLinearAdd": (2, 5, 7),
    "QLinearMul": (2, 5, 7),
    "QLinearAveragePool": (2, 4),
    "QLinearGlobalAveragePool": (2, 4),
    "QLinearLeakyRelu": (2, 4),
    "QLinearSigmoid": (2, 4),
    "QLinearSoftmax": (2, 4),
}
_TABLE: dict[str, Callable[[_Writer, NodeProto], None]] = {
    "QLinearConv": _conv,
    "QLinearMatMul": _matmul,
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearConcat": _concat,
    "QLinearAveragePool": _unary("AveragePool"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearSoftmax": _softmax,
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
}
