# SPDX-License-Identifier: Apache-2.0
"""A conformance case as a file: standard QDQ ONNX, which the compiler and ONNX Runtime read.

In:   a Graph of operators that ONNX has, rounded as ONNX rounds.
Out:  an onnx.ModelProto of the same integers, images in NHWC at its edges as in the Graph.
Next: commands/conform.py saves the smallest wrong network; `loadstone compile` and `loadstone
      compare` take the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from onnx import checker, helper, numpy_helper

from loadstone import graph as g
from loadstone.errors import UnsupportedError
from loadstone.numerics import Array, Rounding

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

__all__ = ["onnx_case"]

OPSET, IR_VERSION = 17, 8
_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def onnx_case(graph: g.Graph) -> ModelProto:
    """Raises UnsupportedError for what ONNX cannot say: an operator of TFLite's alone, or its way
    to round."""
    writer = _Writer()
    for name, array in graph.constants.items():
        writer.constant(array, name)
    for operator in graph.operators:
        if getattr(operator, "rounding", Rounding.FLOAT32) is not Rounding.FLOAT32:
            raise UnsupportedError(f"{operator.kind} as TFLite rounds it is not ONNX")
        if type(operator) not in _NODES:
            raise UnsupportedError(f"{operator.kind} has no form in ONNX of one operator")
        writer.operator(operator)
    model = helper.make_model(
        helper.make_graph(
            writer.nodes,
            graph.name,
            [_info(tensor) for tensor in graph.inputs],
            [_info(tensor) for tensor in graph.outputs],
            writer.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="loadstone",
        ir_version=IR_VERSION,
    )
    checker.check_model(model, full_check=True)
    return model


def _info(tensor: g.Tensor) -> ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(tensor.name, kind, tensor.shape)


@dataclass
class _Writer:
    """Nodes so far. Names of values are those of tensors, and what stands behind a slash."""

    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)

    def constant(self, array: Array | np.generic, name: str) -> str:
        """Adds an initializer."""
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], name: str, **attributes: object) -> str:
        """Adds a node of one output, which has its name."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def grid(self, quantization: g.Quantization, name: str) -> list[str]:
        """Scale and zero point."""
        zero = np.array(quantization.zero_point, np.int8)
        return [
            self.constant(np.array(quantization.scale, np.float32), f"{name}/scale"),
            self.constant(zero, f"{name}/zero"),
        ]

    def operator(self, operator: g.Operator) -> None:
        """Real inputs, the operator, a clamp, the output's integers."""
        y = operator.output
        reals = [self.real(tensor, operator) for tensor in operator.inputs]
        made = _NODES[type(operator)](self, operator, reals)
        if y.quantization is None:
            self.node("Identity", [made], y.name)
            return
        low, high = getattr(operator, "low", -128), getattr(operator, "high", 127)
        if low > -128 or high < 127:
            ends = [
                self.constant(np.float32((end - y.zero_point) * y.scale), f"{y.name}/{side}")
                for side, end in (("low", low), ("high", high))
            ]
            made = self.node("Clip", [made, *ends], f"{y.name}/clipped")
        self.node("QuantizeLinear", [made, *self.grid(y.quantization, y.name)], y.name)

    def real(self, tensor: g.Tensor, operator: g.Operator) -> str:
        """The tensor's real numbers; a reader has its own, as the compiler would write it."""
        if tensor.quantization is None:
            return tensor.name
        name = f"{operator.name}/{tensor.name}"
        inputs = [tensor.name, *self.grid(tensor.quantization, name)]
        return self.node("DequantizeLinear", inputs, f"{name}/real")

    def window(self, x: str, make: Callable[[str], str], name: str) -> str:
        """A node that takes NCHW, between Transposes."""
        made = make(self.node("Transpose", [x], f"{name}/first", perm=_TO_FIRST))
        return self.node("Transpose", [made], f"{name}/last", perm=_TO_LAST)

    def weights(self, operator: g.Weighted, array: Array) -> list[str]:
        """Kernel, in ONNX's order of axes, and bias; channels first in both."""
        name, found = operator.name, []
        scales = np.float32(operator.input.scale) * operator.weight_scales
        for part, values, scale in (
            ("weights", array, operator.weight_scales),
            ("bias", operator.bias, scales),
        ):
            inputs = [
                self.constant(values, f"{name}/{part}/integers"),
                self.constant(scale.astype(np.float32), f"{name}/{part}/scale"),
                self.constant(np.zeros(len(scale), values.dtype), f"{name}/{part}/zero"),
            ]
            found.append(self.node("DequantizeLinear", inputs, f"{name}/{part}", axis=0))
        return found


def _conv2d(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    conv = cast(g.Conv2D, operator)
    kernel = writer.weights(conv, conv.weights.transpose(0, 3, 1, 2))
    return writer.window(
        reals[0],
        lambda x: writer.node(
            "Conv",
            [x, *kernel],
            f"{conv.name}/conv",
            strides=conv.strides,
            dilations=conv.dilation,
            pads=conv.padding,
            group=conv.groups,
        ),
        conv.name,
    )


def _dense(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    dense = cast(g.Dense, operator)
    inputs = [*reals, *writer.weights(dense, dense.weights)]
    return writer.node("Gemm", inputs, f"{dense.name}/gemm", transB=1)


def _pool(kind: str) -> _Maker:
    def make(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
        pool = cast(g.Pool2D, operator)
        counted = getattr(pool, "count_include_pad", False)
        more = {"count_include_pad": int(counted)} if kind == "AveragePool" else {}
        return writer.window(
            reals[0],
            lambda x: writer.node(
                kind,
                [x],
                f"{pool.name}/pool",
                kernel_shape=pool.kernel,
                strides=pool.strides,
                pads=pool.padding,
                **more,
            ),
            pool.name,
        )

    return make


def _plain(kind: str) -> _Maker:
    """A node of the same operands, without attributes."""
    return lambda writer, operator, reals: writer.node(kind, reals, f"{operator.name}/{kind}")


def _mean(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    mean = cast(g.Mean, operator)
    keep = int(len(mean.output.shape) == len(mean.input.shape))
    name = f"{mean.name}/mean"
    return writer.node("ReduceMean", reals, name, axes=mean.axes, keepdims=keep)


def _concatenate(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    axis = cast(g.Concatenate, operator).axis
    return writer.node("Concat", reals, f"{operator.name}/concat", axis=axis)


def _reshape(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    shape = writer.constant(np.array(operator.output.shape, np.int64), f"{operator.name}/shape")
    return writer.node("Reshape", [*reals, shape], f"{operator.name}/reshaped")


def _transpose(writer: _Writer, operator: g.Operator, reals: Sequence[str]) -> str:
    order = cast(g.Transpose, operator).permutation
    return writer.node("Transpose", reals, f"{operator.name}/turned", perm=order)


_Maker: TypeAlias = Callable[[_Writer, g.Operator, Sequence[str]], str]

#: Class of an operator -> its node between dequantize and quantize.
_NODES: dict[type[g.Operator], _Maker] = {
    g.Conv2D: _conv2d,
    g.Dense: _dense,
    g.Add: _plain("Add"),
    g.Sub: _plain("Sub"),
    g.Mul: _plain("Mul"),
    g.MaxPool2D: _pool("MaxPool"),
    g.AveragePool2D: _pool("AveragePool"),
    g.Mean: _mean,
    g.Concatenate: _concatenate,
    g.Reshape: _reshape,
    g.Transpose: _transpose,
    g.Requantize: _plain("Identity"),
    g.Dequantize: _plain("Identity"),
    g.Quantize: _plain("Identity"),
}
