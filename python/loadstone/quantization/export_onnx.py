# SPDX-License-Identifier: Apache-2.0
"""Write a module as ONNX: float, or quantized as standard QDQ that ONNX Runtime runs.

In:   a module in canonical form (NHWC, OHWI, QDQ or float), names for its outputs.
Out:  an onnx.ModelProto: NCHW, as ONNX requires, with the module's names of tensors.
Next: the file that `loadstone quantize` writes; frontend/onnx/importer.py reads it back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

from loadstone.errors import UnsupportedError
from loadstone.quantization.onnx_functions import FUNCTIONS, FunctionsWriter
from loadstone.quantization.onnx_writer import FIRST, PLAIN
from loadstone.relax.compat import (
    integers,
    is_call,
    is_constant,
    op_name,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, Var

__all__ = ["export_onnx"]

#: Relax operators on tensors, without attributes.
_SIMPLE = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "nn.relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "negative": "Neg",
    "erf": "Erf",
    "floor": "Floor",
    "sin": "Sin",
    "cos": "Cos",
    "greater": "Greater",
    "less": "Less",
    "where": "Where",
    "ceil": "Ceil",
    "round": "Round",
    "equal": "Equal",
}


def export_onnx(
    module: IRModule, outputs: Sequence[str], metadata: dict[str, str] | None = None
) -> onnx.ModelProto:
    """The module's `main` as a model. Raises UnsupportedError for an operator that cannot be
    written as ONNX."""
    model = _Exporter(module["main"], outputs).write()
    helper.set_model_props(model, metadata or {})
    onnx.checker.check_model(model, full_check=True)
    return model


class _Exporter(FunctionsWriter):
    def binding(self, variable: Var, call: Call) -> None:
        core, bias = call, None
        if variable in self.merged:
            core, bias = self.bound[self.merged[variable][0]], self.merged[variable][1]
        name = op_name(core)
        if name == "dequantize" and is_constant(core.args[0]) and self.only_weights(variable):
            return  # written beside the layer that reads it
        if name in _SIMPLE:
            layout = self.layout(*core.args)
            self.emit(
                variable,
                layout,
                _SIMPLE[name],
                [self.get(operand, layout) for operand in core.args],
            )
            return
        if name not in _TABLE:
            raise UnsupportedError(
                f'"{self.name(variable)}": the operator {name} has no ONNX form in '
                "Loadstone: it cannot be exported"
            )
        _TABLE[name](self, variable, core, bias)

    def only_weights(self, variable: Var) -> bool:
        """Whether a dequantized constant is read as weights or merged bias alone."""
        return all(
            name in ("nn.conv2d", "matmul") and position == 1
            for name, position in self.readers.get(variable, ())
        )

    def convolution(self, variable: Var, call: Call, bias: Expr | None) -> None:
        name, attrs = self.name(variable), call.attrs
        inputs = [
            self.get(call.args[0], FIRST),
            self.operand(call.args[1], [0, 3, 1, 2], f"{name}/weights"),
        ]
        inputs += [self.bias(bias, f"{name}/bias")] if bias is not None else []
        pads, kernel = integers(attrs.padding), (shape(call.args[1]) or ())[1:3]
        options = {
            "strides": integers(attrs.strides),
            "pads": pads,
            "dilations": integers(attrs.dilation),
        }
        self.emit(
            variable, FIRST, "Conv", inputs, kernel_shape=kernel, group=int(attrs.groups), **options
        )

    def matmul(self, variable: Var, call: Call, bias: Expr | None) -> None:
        name = self.name(variable)
        if str(call.attrs.out_dtype) == "int32":
            weights = self.operand(call.args[1], [0, 1], f"{name}/weights")
            inputs = [self.plain(call.args[0]), weights]
            self.emit(variable, PLAIN, "MatMulInteger", inputs)
            return
        if bias is None:
            second = (
                self.operand(call.args[1], [0, 1], f"{name}/weights")
                if self.weights(call.args[1]) and len(shape(call.args[1]) or ()) == 2
                else None
            )
            self.emit(
                variable,
                PLAIN,
                "MatMul",
                [self.plain(call.args[0]), second or self.plain(call.args[1])],
            )
            return
        weights = self.operand(call.args[1], [1, 0], f"{name}/weights")
        self.emit(
            variable,
            PLAIN,
            "Gemm",
            [self.plain(call.args[0]), weights, self.bias(bias, f"{name}/bias")],
            transB=1,
        )

    def pool(self, variable: Var, call: Call, bias: Expr | None) -> None:
        attrs, maximum = call.attrs, is_call(call, "nn.max_pool2d")
        options = {
            "strides": integers(attrs.strides),
            "pads": integers(attrs.padding),
            "ceil_mode": int(attrs.ceil_mode),
        }
        if maximum:
            options["dilations"] = integers(attrs.dilation)
        else:
            options["count_include_pad"] = int(attrs.count_include_pad)
        op_type = "MaxPool" if maximum else "AveragePool"
        self.emit(
            variable,
            FIRST,
            op_type,
            [self.get(call.args[0], FIRST)],
            kernel_shape=integers(attrs.pool_size),
            **options,
        )

    def mean(self, variable: Var, call: Call, bias: Expr | None) -> None:
        rank = len(shape(call.args[0]) or ())
        axes = sorted(
            axis % rank
            for axis in (range(rank) if call.attrs.axis is None else integers(call.attrs.axis))
        )
        keep = int(call.attrs.keepdims)
        if rank == 4 and axes == [1, 2]:
            target = self.fresh(self.name(variable))
            pooled = target if keep else self.fresh(f"{target}/pooled")
            self.node("GlobalAveragePool", [self.get(call.args[0], FIRST)], pooled)
            self.names[variable, FIRST if keep else PLAIN] = (
                pooled if keep else self.node("Flatten", [pooled], target, axis=1)
            )
            return
        self.emit(
            variable, PLAIN, "ReduceMean", [self.plain(call.args[0])], axes=axes, keepdims=keep
        )

    def reduce(self, variable: Var, call: Call, bias: Expr | None) -> None:
        kind = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[op_name(call)]
        rank = len(shape(call.args[0]) or ())
        axes = sorted(
            axis % rank
            for axis in (range(rank) if call.attrs.axis is None else integers(call.attrs.axis))
        )
        inputs, attributes = [self.plain(call.args[0])], {"axes": axes}
        if kind == "ReduceSum":  # since opset 13
            inputs, attributes = (
                [*inputs, self.constant(np.array(axes, np.int64), f"{self.name(variable)}/axes")],
                {},
            )
        self.emit(variable, PLAIN, kind, inputs, keepdims=int(call.attrs.keepdims), **attributes)

    def softmax(self, variable: Var, call: Call, bias: Expr | None) -> None:
        self.emit(variable, PLAIN, "Softmax", [self.plain(call.args[0])], axis=int(call.attrs.axis))

    def layer_norm(self, variable: Var, call: Call, bias: Expr | None) -> None:
        rank, axes = len(shape(call.args[0]) or ()), integers(call.attrs.axes)
        if [axis % rank for axis in axes] != list(range(rank - len(axes), rank)):
            raise UnsupportedError(
                f'"{self.name(variable)}": a layer normalization over axes {list(axes)} of '
                f"{rank} has no ONNX form: ONNX normalizes over the last ones"
            )
        self.emit(
            variable,
            PLAIN,
            "LayerNormalization",
            [self.plain(item) for item in call.args],
            axis=-len(axes),
            epsilon=float(call.attrs.epsilon),
        )

    def clip(self, variable: Var, call: Call, bias: Expr | None) -> None:
        layout = self.layout(call.args[0])
        bounds = [
            self.constant(np.float32(scalar(bound)), f"{self.name(variable)}/{end}")
            for end, bound in zip(("min", "max"), call.args[1:], strict=True)
        ]
        self.emit(variable, layout, "Clip", [self.get(call.args[0], layout), *bounds])

    def quantize(self, variable: Var, call: Call, bias: Expr | None) -> None:
        layout, name = self.layout(call.args[0]), self.name(variable)
        op_type = "QuantizeLinear" if is_call(call, "quantize") else "DequantizeLinear"
        per_channel = value(call.args[1]).size > 1
        layout = PLAIN if per_channel else layout
        axis = {"axis": int(call.attrs.axis)} if per_channel else {}
        self.emit(
            variable,
            layout,
            op_type,
            [self.get(call.args[0], layout), *self.grid(call, name)],
            **axis,
        )

    def astype(self, variable: Var, call: Call, bias: Expr | None) -> None:
        layout = self.layout(call.args[0])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(str(call.attrs.dtype)))
        self.emit(variable, layout, "Cast", [self.get(call.args[0], layout)], to=kind)

    def rsqrt(self, variable: Var, call: Call, bias: Expr | None) -> None:
        root = self.node(
            "Sqrt", [self.plain(call.args[0])], self.fresh(f"{self.name(variable)}/sqrt")
        )
        self.emit(variable, PLAIN, "Reciprocal", [root])

    def leaky(self, variable: Var, call: Call, bias: Expr | None) -> None:
        layout = self.layout(call.args[0])
        self.emit(
            variable,
            layout,
            "LeakyRelu",
            [self.get(call.args[0], layout)],
            alpha=float(call.attrs.alpha),
        )

    def prelu(self, variable: Var, call: Call, bias: Expr | None) -> None:
        behind = (
            len(shape(call.args[0]) or ())
            - 1
            - int(call.attrs.axis) % len(shape(call.args[0]) or (1,))
        )
        if not is_constant(call.args[1]):
            raise UnsupportedError(
                f'"{self.name(variable)}": slopes that are computed have no ONNX form in Loadstone'
            )
        slopes = self.constant(
            value(call.args[1]).reshape(-1, *[1] * behind), f"{self.name(variable)}/slopes"
        )
        self.emit(variable, PLAIN, "PRelu", [self.plain(call.args[0]), slopes])

    def transposed_convolution(self, variable: Var, call: Call, bias: Expr | None) -> None:
        attrs, name = call.attrs, self.name(variable)
        if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCHW", "IOHW"):
            raise UnsupportedError(
                f'"{name}": a transposed convolution in {attrs.data_layout} has no ONNX form '
                "in Loadstone"
            )
        terms = {
            "strides": "strides",
            "pads": "padding",
            "dilations": "dilation",
            "output_padding": "output_padding",
        }
        options = {term: integers(getattr(attrs, attribute)) for term, attribute in terms.items()}
        self.emit(
            variable,
            PLAIN,
            "ConvTranspose",
            [self.plain(item) for item in call.args],
            group=int(attrs.groups),
            **options,
        )


_TABLE: dict[str, Callable[[_Exporter, Var, Call, Expr | None], None]] = {
    "nn.conv2d": _Exporter.convolution,
    "matmul": _Exporter.matmul,
    "nn.max_pool2d": _Exporter.pool,
    "nn.avg_pool2d": _Exporter.pool,
    "mean": _Exporter.mean,
    **dict.fromkeys(("sum", "max", "min"), _Exporter.reduce),
    "broadcast_to": _Exporter.broadcast,
    "concat": _Exporter.concat,
    "nn.softmax": _Exporter.softmax,
    "nn.layer_norm": _Exporter.layer_norm,
    "clip": _Exporter.clip,
    "quantize": _Exporter.quantize,
    "dequantize": _Exporter.quantize,
    "astype": _Exporter.astype,
    "permute_dims": _Exporter.permute,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "flatten"), _Exporter.reshape),
    "nn.pad": _Exporter.pad,
    "strided_slice": _Exporter.slice_,
    "image.resize2d": _Exporter.resize,
    "rsqrt": _Exporter.rsqrt,
    "nn.leakyrelu": _Exporter.leaky,
    **dict.fromkeys(FUNCTIONS, _Exporter.function),
    "argmax": _Exporter.argmax,
    "variance": _Exporter.variance,
    "nn.group_norm": _Exporter.group_norm,
    "nn.prelu": _Exporter.prelu,
    "nn.conv2d_transpose": _Exporter.transposed_convolution,
    "take": _Exporter.take,
}
