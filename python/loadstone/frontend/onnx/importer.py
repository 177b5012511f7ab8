# SPDX-License-Identifier: Apache-2.0
"""An ONNX model to Relax: whole, folded, checked against the table, converted node by node.

In:   the bytes of an .onnx file, whose open sizes are known (a symbolic batch becomes 1).
Out:  an IRModule whose `main` carries the file's tensor names and the attributes
      "loadstone.numerics" = "onnx" and "loadstone.outputs".
Next: canonical.py brings it into canonical form (QDQ, NHWC, int8).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.version_converter

from loadstone.artifact.memory_plan import MAX_RANK
from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import MAX_SCALE, one_line, short
from loadstone.frontend.onnx import operators
from loadstone.frontend.onnx.estimators import ESTIMATORS
from loadstone.frontend.onnx.folding import fold
from loadstone.frontend.onnx.fused import FUSED
from loadstone.frontend.onnx.fused_dynamic import FUSED_DYNAMIC
from loadstone.frontend.onnx.graph import input_shapes, read
from loadstone.frontend.onnx.ml import LABELS
from loadstone.frontend.onnx.node import OnnxNode, described
from loadstone.frontend.onnx.qoperator import rewrite_to_qdq
from loadstone.frontend.onnx.quantizers import plain_quantizers
from loadstone.frontend.onnx.rewriting import rewrite
from loadstone.frontend.onnx.table import CONVERTERS, check, element_types, row_of
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.relax.compat import abandoning, dtype, exact_constant, is_constant, relax, shape
from loadstone.relax.convolutions import with_types

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

    from loadstone.relax.types import Expr, IRModule

__all__ = ["DYNAMIC", "from_bytes"]
assert operators  # its import fills the table

#: Recurrent layers whose scales are computed at run time, in every step.
DYNAMIC = ("DynamicQuantizeLSTM",)
#: What ONNX's checker puts before its sentences.
_TAGS = re.compile(r"\[\w+Error\] *|Inference error\(s\): *")
#: Nodes that hold graphs of their own.
CONTROL = ("If", "Loop", "Scan")
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
    model = read(data, name, reading)
    input_shapes(model, name, reading)
    try:
        rewrite(model, {**ESTIMATORS, **LABELS, **FUSED, **FUSED_DYNAMIC}, name)
        model = fold(model, lambda node: row_of(node, _opsets(model)) is not None)
        _refuse(model, name)
        return _import(_checked(_qdq(model, name), name), name)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{name}: cannot be imported: {one_line(error)}") from error


def _opsets(model: ModelProto) -> Mapping[str, int]:
    """The version of each domain; the standard's own is ""."""
    return {
        "" if entry.domain == "ai.onnx" else entry.domain: int(entry.version)
        for entry in model.opset_import
    }


def _refuse(model: ModelProto, name: str) -> None:
    for node in model.graph.node:
        _refuse_training(node, name)
        if node.op_type in DYNAMIC:
            raise UnsupportedError(
                f"{name}: {described(node)}: dynamic quantization of a recurrent layer, whose "
                "scales are computed in each of its steps: quantize it statically (`loadstone "
                "quantize`), or leave LSTM out of quantize_dynamic's op_types_to_quantize"
            )
        if node.op_type == "NonMaxSuppression" and any(
            node.output[0] in other.input for other in model.graph.node
        ):
            raise UnsupportedError(
                f"{name}: {described(node)}: how many boxes it gives is known when the model runs, "
                f"and other nodes read them: end the model with it, --outputs {node.output[0]}, "
                f"or before it, --outputs {' --outputs '.join(node.input[:2])}"
            )
        if (
            node.op_type in ("QuantizeLinear", "DequantizeLinear")
            and not node.domain
            and node.attribute
            and _opset(model) < QDQ_OPSET
        ):
            raise UnsupportedError(
                f"{name}: {described(node)}: scales per channel need opset {QDQ_OPSET}, the "
                f"model has {_opset(model)}: "
                "convert the float model (onnx.version_converter) before it is quantized"
            )


def _refuse_training(node: NodeProto, name: str) -> None:
    """Before ONNX's checker, which takes it for damage where only the first output is there."""
    if node.op_type != "BatchNormalization":
        return
    for attribute in node.attribute:
        if attribute.name == "training_mode" and attribute.i:
            raise UnsupportedError(
                f"{name}: {described(node)}: its attribute training_mode is {attribute.i}, and "
                "only 0 is imported: export the model for inference, where mean and variance are "
                "those of the training"
            )


def _opset(model: ModelProto) -> int:
    return _opsets(model).get("", 1)


def _qdq(model: ModelProto, name: str) -> ModelProto:
    """The model with QDQ in the place of operators on integers, in an opset that can say so."""
    model.ir_version = max(model.ir_version, LEAST_IR_VERSION)

    def where(node: NodeProto) -> str:
        return f"{name}: {described(node)}"

    foreign = any(node.domain and node.op_type.endswith("Linear") for node in model.graph.node)
    rewritten = rewrite_to_qdq(model.graph, where, _opset(model)) or foreign
    plain_quantizers(model.graph, where)
    _check_scales(model.graph, name)
    if not rewritten:
        return model
    model = fold(model, lambda node: row_of(node, _opsets(model)) is not None)
    if _opset(model) >= QDQ_OPSET:
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
                f'{name}: {described(node)}: tensor "{short(node.input[0])}" is int32 with a '
                "zero point, which must be 0 there"
            )
        scales = np.asarray(
            onnx.numpy_helper.to_array(constants[node.input[1]]), np.float32
        ).reshape(-1)
        wrong = scales[~((scales > 0) & (scales <= MAX_SCALE))]
        if wrong.size:
            raise ModelError(
                f'{name}: {described(node)}: tensor "{short(node.input[0])}" has the scale '
                f"{wrong[0]:g} "
                f'("{short(node.input[1])}"): a scale is above 0 and at most {MAX_SCALE:g}'
            )


def _checked(model: ModelProto, name: str) -> ModelProto:
    """The model with every shape inferred, after ONNX's own checker and the table: before anything
    is believed."""
    for node in model.graph.node:
        if node.op_type in CONTROL:
            raise UnsupportedError(
                f"{name}: {described(node)}: which nodes run is decided when the model runs: "
                "export the model with the condition fixed, or cut it with --inputs and --outputs"
            )
        if (node.domain if node.domain != "ai.onnx" else "", node.op_type) not in CONVERTERS:
            check(model, name, _opsets(model))
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
        text = _TAGS.sub("", one_line(error))
        raise ModelError(f"{name}: damaged ONNX file: {text}") from error
    _check_memory(inferred.graph, name, _opsets(inferred))
    check(inferred, name, _opsets(inferred))
    return inferred


def _check_memory(graph: GraphProto, name: str, opsets: Mapping[str, int]) -> None:
    """What an artifact holds: inputs and outputs of few dimensions, no tensor without elements."""
    extents = {tensor: found for tensor, (_, found) in _types(graph).items()}
    extents |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.input, *graph.output):
        found = extents.get(entry.name, ())
        if len(found) > MAX_RANK:
            raise UnsupportedError(
                f'{name}: tensor "{short(entry.name)}" has {len(found)} dimensions, more than '
                f"{MAX_RANK}: reshape it before the model is exported"
            )
        if 0 in found:
            raise _nothing(f'{name}: tensor "{short(entry.name)}"', found)
    for node in graph.node:
        row = row_of(node, opsets)
        read = [e for k, e in enumerate(node.input) if row is None or k not in row.constants]
        for tensor in (*read, *node.output):
            if 0 in extents.get(tensor, ()):
                where = f'{name}: {described(node)}: tensor "{short(tensor)}"'
                raise _nothing(where, extents[tensor])


def _nothing(where: str, extents: Sequence[int]) -> UnsupportedError:
    return UnsupportedError(
        f"{where} has no elements ({', '.join(map(str, extents))}), and memory has at least one: "
        "export the model without it"
    )


def _import(model: ModelProto, name: str) -> IRModule:
    graph, builder = model.graph, relax.BlockBuilder()
    known: dict[str, Expr] = {
        tensor.name: exact_constant(onnx.numpy_helper.to_array(tensor))
        for tensor in graph.initializer
    }
    parameters = []
    types = _types(graph)
    for entry in graph.input:
        if entry.name not in known:
            dtype, extents = types[entry.name]
            parameters.append(relax.Var(entry.name, relax.TensorType(extents, dtype)))
            known[entry.name] = parameters[-1]
    with warnings.catch_warnings(), abandoning(builder), builder.function("main", parameters):
        warnings.simplefilter("ignore")
        with builder.dataflow():
            for proto in graph.node:
                inputs = tuple(known[entry] if entry else None for entry in proto.input)
                where = f"{name}: {described(proto)}"
                node = OnnxNode(proto, where, inputs, _opsets(model), builder, types)
                known |= _converted(node)
            made = [known[entry.name] for entry in graph.output]
            result = builder.emit_output(made[0] if len(made) == 1 else relax.Tuple(made))
        builder.emit_func_output(result)
    module = builder.get()
    module["main"] = module["main"].with_attrs(
        {
            "loadstone.numerics": "onnx",
            "loadstone.outputs": [
                entry.name for entry in graph.output
            ],  # a Relax variable has no dot
        }
    )
    return module


def _types(graph: GraphProto) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Element type and extents by tensor, of those whose sizes are all known."""
    extents = {
        entry.name: tuple(int(d.dim_value) for d in entry.type.tensor_type.shape.dim)
        for entry in (*graph.input, *graph.value_info, *graph.output)
        if entry.type.tensor_type.HasField("shape")
        and all(d.HasField("dim_value") for d in entry.type.tensor_type.shape.dim)
    }
    return {
        tensor: (dtype, extents[tensor])
        for tensor, dtype in element_types(graph).items()
        if tensor in extents
    }


def _converted(node: OnnxNode) -> dict[str, Expr]:
    """What became of a node's outputs, each as ONNX's shape inference says that it is."""
    row = row_of(node.proto, node.opsets)
    assert row is not None  # check
    try:
        results = _each(row.convert(node), node)
    except ModelError:
        raise
    except Exception as error:
        raise node.given_up() from error
    found: dict[str, Expr] = {}
    for output, result in zip(node.proto.output, results, strict=False):
        if not output or result is None:
            continue
        bound = result if _is_bound(result) else node.emit(result, output)
        _as_inferred(node, output, bound)
        found[output] = bound
    return found


def _is_bound(expr: Expr) -> bool:
    """A variable or a constant: nothing that would be computed where it is read."""
    return isinstance(expr, relax.Var) or is_constant(expr)


def _each(made: Expr | Sequence[Expr | None], node: OnnxNode) -> Sequence[Expr | None]:
    """The results one by one, also of a call that gives a tuple."""
    if not isinstance(made, relax.Expr):
        return list(made)
    if isinstance(made, relax.Tuple):
        return list(made.fields)
    normal = node.builder.normalize(with_types(made))
    if not isinstance(normal.ty, relax.TupleType):
        return [normal]
    bound = node.builder.emit(normal)
    return [node.emit(relax.TupleGetItem(bound, i)) for i in range(len(normal.ty.fields))]


def _as_inferred(node: OnnxNode, output: str, result: Expr) -> None:
    expected = node.types.get(output)
    found = (dtype(result), shape(result))
    if expected is not None and found != expected:
        raise node.refusal(
            f'its output "{short(output)}" would be {_type_text(*found)}, and ONNX says '
            f"{_type_text(*expected)}",
            "cut the model around it with --inputs and --outputs",
        )


def _type_text(dtype: str, extents: Sequence[int] | None) -> str:
    return f"{dtype} ({', '.join(map(str, extents or ()))})"
