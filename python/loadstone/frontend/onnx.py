# SPDX-License-Identifier: Apache-2.0
"""ONNX to Relax: float, QDQ and QOperator models.

In:   the bytes of an .onnx file, whose open sizes are known (a symbolic batch becomes 1).
Out:  an IRModule whose `main` carries the file's tensor names and the attributes
      "loadstone.numerics" = "onnx" and "loadstone.outputs".
Next: canonical.py brings it into the one QDQ form (NHWC, int8).
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import onnx.version_converter

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import MAX_SCALE, one_line, short
from loadstone.frontend.onnx_graph import fold_shapes, input_shapes, read
from loadstone.frontend.onnx_ml import without_ml
from loadstone.frontend.onnx_recurrent import RECURRENT, recurrent
from loadstone.frontend.onnx_selection import top_k
from loadstone.frontend.qoperator import rewrite_to_qdq
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.relax.compat import (
    FloatImm,
    abandoning,
    is_constant,
    onnx_importer,
    relax,
    scalar,
    shape,
    value,
)
from loadstone.relax.convolutions import with_types

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from loadstone.relax.types import Expr, IRModule

__all__ = ["from_bytes"]

#: Dynamic quantization computes scales at run time: another kind of network.
DYNAMIC = (
    "DynamicQuantizeLinear",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "DynamicQuantizeLSTM",
)
#: Nodes that hold graphs of their own.
CONTROL = ("If", "Loop", "Scan")
MAX_TENSOR_ELEMENTS = 2**31 - 1
#: From here on an initializer need not be an input too. Quantizers add such initializers to older
#: models and leave the number as it is.
LEAST_IR_VERSION = 4
#: From here on DequantizeLinear has one scale per channel; QLinearConv has always had.
QDQ_OPSET = 13


def from_bytes(data: bytes, name: str, reading: Reading = WHOLE) -> IRModule:
    """The model as an IRModule, NCHW as ONNX has it.

    Raises ModelError for a damaged file and UnsupportedError for what Loadstone does not do; `name`
    begins the message.
    """
    model = without_ml(read(data, name, reading), name)
    shapes = input_shapes(model, name, reading)
    _refuse(model, name)
    model = fold_shapes(model)

    try:
        return _import(_checked(_qdq(model, name), name), shapes, name)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: cannot be imported: {one_line(error)}") from error


def _describe(node: NodeProto) -> str:
    return (
        f'{node.op_type} (node "{short(node.name)}", output '
        f'"{short(node.output[0]) if node.output else ""}")'
    )


def _refuse(model: ModelProto, name: str) -> None:
    for node in model.graph.node:
        if node.op_type in DYNAMIC:
            raise UnsupportedError(
                f"{name}: {_describe(node)}: dynamic quantization, whose scales are computed "
                "at run time: "
                "quantize statically (`loadstone quantize`, or onnxruntime's quantize_static)"
            )
        if node.op_type == "NonMaxSuppression":
            raise UnsupportedError(
                f"{name}: {_describe(node)}: how many boxes it gives is known when the model runs: "
                f"cut the model before it, --outputs {' --outputs '.join(node.input[:2])}, and "
                "choose among those boxes behind the artifact"
            )
        if (
            node.op_type in ("QuantizeLinear", "DequantizeLinear")
            and node.attribute
            and _opset(model) < QDQ_OPSET
        ):
            raise UnsupportedError(
                f"{name}: {_describe(node)}: scales per channel need opset {QDQ_OPSET}, the "
                f"model has {_opset(model)}: "
                "convert the float model (onnx.version_converter) before it is quantized"
            )


def _opset(model: ModelProto) -> int:
    return next(
        (int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1
    )


def _qdq(model: ModelProto, name: str) -> ModelProto:
    """The model with QDQ in the place of operators on integers, in an opset that can say so."""
    model.ir_version = max(model.ir_version, LEAST_IR_VERSION)
    rewritten = rewrite_to_qdq(model.graph, lambda node: f"{name}: {_describe(node)}")
    _check_scales(model.graph, name)
    if not rewritten or _opset(model) >= QDQ_OPSET:
        return model
    return onnx.version_converter.convert_version(model, QDQ_OPSET)


def _check_scales(graph: Any, name: str) -> None:
    """A scale of 0, infinity, beyond all numbers or no number at all has no meaning that a
    framework would not make up."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
        if (
            node.op_type not in ("QuantizeLinear", "DequantizeLinear")
            or len(node.input) < 2
            or node.input[1] not in constants
        ):
            continue
        zero_point = constants.get(node.input[2]) if len(node.input) > 2 else None
        if (
            zero_point is not None
            and zero_point.data_type == onnx.TensorProto.INT32
            and np.any(onnx.numpy_helper.to_array(zero_point))
        ):
            raise ModelError(
                f'{name}: {_describe(node)}: tensor "{short(node.input[0])}" is int32 with a '
                "zero point, which must be 0 there"
            )
        scales = np.asarray(
            onnx.numpy_helper.to_array(constants[node.input[1]]), np.float32
        ).reshape(-1)
        wrong = scales[~((scales > 0) & (scales <= MAX_SCALE))]
        if wrong.size:
            raise ModelError(
                f'{name}: {_describe(node)}: tensor "{short(node.input[0])}" has the scale '
                f"{wrong[0]:g} "
                f'("{short(node.input[1])}"): a scale is above 0 and at most {MAX_SCALE:g}'
            )


def _checked(model: ModelProto, name: str) -> IRModule:
    """The model with every shape inferred, after ONNX's own checker: before anything is
    believed."""
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            raise UnsupportedError(
                f"{name}: {_describe(node)}: no importer for this operator of {node.domain}"
            )
        if node.op_type in CONTROL:
            raise UnsupportedError(
                f"{name}: {_describe(node)}: which nodes run is decided when the model runs: "
                "export the model with the condition fixed, or cut it with --inputs and --outputs"
            )
        if (
            node.op_type not in ("Constant", *RECURRENT)
            and node.op_type not in onnx_importer()._get_convert_map()  # noqa: SLF001 (TVM has no public one)
        ):
            raise UnsupportedError(f"{name}: {_describe(node)}: no importer for this operator")
    try:
        inferred = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
        onnx.checker.check_model(inferred)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        ValueError,
        TypeError,
    ) as error:
        raise ModelError(f"{name}: damaged ONNX file: {one_line(error)}") from error
    return inferred


def _import(model: ModelProto, shapes: dict[str, list[int]], name: str) -> IRModule:
    opset = _opset(model)
    importer = _Importer(shapes, "float32", sanitize=False)
    importer.where = {node.output[0]: f"{name}: {_describe(node)}" for node in model.graph.node}
    for node in model.graph.node:
        node.name = node.output[0]  # what _Importer names the variable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        abandoning(importer.bb),
    ):
        warnings.simplefilter("ignore")
        module = importer.from_onnx(model.graph, opset)
    names = [entry.name for entry in model.graph.output]  # a Relax variable has no dot
    module["main"] = module["main"].with_attrs(
        {"loadstone.numerics": "onnx", "loadstone.outputs": names}
    )
    return module


#: Attributes of a node as TVM's importer hands them over: numbers, texts, lists of numbers.
OnnxAttributes: TypeAlias = dict[str, Any]


class _Importer(onnx_importer().ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, but it names what it emits, and does the operators that TVM makes
    unrecognisable. where: begins a message about a node, by its first output."""

    where: Mapping[str, str]

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """`_checked` has."""

    def _convert_operator(
        self, op_name: str, inputs: Sequence[Expr], attrs: OnnxAttributes, opset: int
    ) -> Expr:
        name = attrs["tvm_custom"]["name"]
        try:
            return self._converted(op_name, inputs, attrs, opset, name)
        except ModelError:
            raise
        except Exception as error:
            where = self.where.get(name, op_name)
            raise ModelError(f"{where} cannot be imported: {one_line(error)}") from error

    def _converted(
        self, op_name: str, inputs: Sequence[Expr], attrs: OnnxAttributes, opset: int, name: str
    ) -> Expr:
        if op_name == "Clip" and all(bound is None or is_constant(bound) for bound in inputs[1:]):
            converted = _clip(inputs, attrs)
        elif op_name == "GlobalMaxPool" and len(shape(inputs[0]) or ()) == 4:
            converted = relax.op.nn.max_pool2d(inputs[0], pool_size=(shape(inputs[0]) or ())[2:])
        elif op_name == "Pad" and _is_constant_pad(inputs, attrs):
            converted = _pad(inputs, attrs)
        elif op_name == "Split":
            return self._slices(super()._convert_operator(op_name, inputs, attrs, opset), attrs)
        elif op_name in RECURRENT:
            return recurrent(op_name, list(inputs), attrs, lambda call: self._emitted(call, name))
        elif op_name == "TopK":
            return top_k(list(inputs), attrs, lambda call: self._emitted(call, name))
        else:
            _set_pads(op_name, inputs, attrs)
            converted = super()._convert_operator(op_name, inputs, attrs, opset)
        if not isinstance(converted, relax.Call):
            return converted
        return self._emitted(converted, name)

    def _slices(self, split: Expr, attrs: OnnxAttributes) -> Expr:
        """A Split as slices, which are done on integers and have an ONNX form each."""
        whole = self.bb.normalize(split)
        source, end, parts = whole.args[0], 0, list["Expr"]()
        axis = int(attrs.get("axis", 0)) % len(shape(source) or (1,))
        for field in whole.ty.fields:
            begin, end = end, end + int(field.shape[axis])
            part = relax.op.strided_slice(source, [axis], [begin], [end])
            parts.append(self._emitted(part, f"{attrs['tvm_custom']['name']}_{len(parts)}"))
        return relax.Tuple(parts)

    def _emitted(self, converted: Expr, name: str) -> Expr:
        normal = self.bb.normalize(with_types(converted))
        return (
            self.bb.emit(normal, name_hint=name)
            if isinstance(normal.ty, relax.TensorType)
            else normal
        )


def _clip(inputs: Sequence[Expr], attrs: OnnxAttributes) -> Expr:
    """Bounds are attributes up to opset 10, inputs later."""
    low, high = attrs.get("min", -math.inf), attrs.get("max", math.inf)
    low = low if inputs[1] is None else scalar(inputs[1])
    high = high if inputs[2] is None else scalar(inputs[2])
    return relax.op.clip(
        inputs[0], FloatImm("float32", float(low)), FloatImm("float32", float(high))
    )


def _is_constant_pad(inputs: Sequence[Expr], attrs: OnnxAttributes) -> bool:
    """Padding with a constant, by numbers that are known; opset 18 can also name axes."""
    return (
        attrs.get("mode", b"constant") == b"constant"
        and all(entry is None or is_constant(entry) for entry in inputs[1:3])
        and not inputs[3]
    )


def _pad(inputs: Sequence[Expr], attrs: OnnxAttributes) -> Expr:
    """ONNX: all befores, then all afters. Attributes up to opset 10, inputs later."""
    pads = attrs["pads"] if inputs[1] is None else [int(number) for number in value(inputs[1])]
    fill = attrs.get("value", 0.0) if inputs[2] is None else scalar(inputs[2])
    pairs = zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True)
    return relax.op.nn.pad(
        inputs[0], [number for pair in pairs for number in pair], pad_value=float(fill)
    )


def _set_pads(op_name: str, inputs: Sequence[Expr], attrs: OnnxAttributes) -> None:
    """SAME_UPPER and SAME_LOWER as numbers: TVM's importer would pad apart from the convolution."""
    mode = attrs.get("auto_pad", b"NOTSET").decode()
    if op_name != "Conv" or not mode.startswith("SAME"):
        return
    spatial, kernel = (shape(inputs[0]) or ())[2:], (shape(inputs[1]) or ())[2:]
    befores, afters = [], []
    for axis, (size, taps) in enumerate(zip(spatial, kernel, strict=True)):
        stride, dilation = (
            attrs.get(key, [1] * len(kernel))[axis] for key in ("strides", "dilations")
        )
        total = max(0, (-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        befores.append(small if mode == "SAME_UPPER" else large)
        afters.append(large if mode == "SAME_UPPER" else small)
    attrs.pop("auto_pad")
    attrs["pads"] = tuple(befores + afters)
