# SPDX-License-Identifier: Apache-2.0
"""An ONNX graph under construction from a Relax function: names, layouts, constants and their
quantization.

In:   a function in canonical form (NHWC, OHWI, QDQ or float), names for its outputs.
Out:  an onnx.ModelProto of opset 13, or 17 or 21 where necessary. A subclass defines the nodes of
      each operator.
Next: export_onnx.py has the operators.

ONNX has convolutions and pools in NCHW only. A value may therefore exist under two names, one per
layout; a Transpose is written only where one is needed that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from loadstone.files import JsonObject
from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    dtype,
    is_call,
    is_constant,
    name_of,
    op_name,
    relax,
    result,
    shape,
    uses,
    value,
)
from loadstone.relax.rewriter import fresh_name

if TYPE_CHECKING:
    from onnx import NodeProto, ValueInfoProto

    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["FIRST", "PLAIN", "TO_FIRST", "TO_LAST", "OnnxWriter"]

OPSET = 13
#: Operators that need a newer opset.
_SINCE = {"LayerNormalization": 17}
IR_VERSION = 8
#: Quantized tensors of 16 bits need this opset.
WIDE_OPSET, WIDE_IR_VERSION = 21, 10
#: Since this opset the axes of a reduction are an input.
AXES_OPSET = 18
#: Layouts of a value: in the module's order of axes, or channels first.
PLAIN, FIRST = "plain", "first"
TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class OnnxWriter:
    """A subclass defines in `binding` the nodes of each call."""

    def __init__(self, function: RelaxFunction, outputs: Sequence[str]) -> None:
        self.function, self.output_names = function, list(outputs)
        self.uses = uses(function)
        self.bound = dict(bindings(function))
        self.names: dict[tuple[Var, str], str] = {}  # (variable, layout) -> ONNX name
        self.merged: dict[
            Var, tuple[Var, Expr]
        ] = {}  # variable of a bias addition -> (variable of its core, bias)
        self.readers: dict[
            Var, list[tuple[str, int]]
        ] = {}  # variable -> (operator, position), merged biases left out
        self.nodes: list[NodeProto] = []
        self.initializers: JsonObject = {}
        self.taken: set[str] = set()
        self.opset = WIDE_OPSET if any(map(_is_wide, self.bound.values())) else OPSET

    def write(self) -> onnx.ModelProto:
        """The whole graph, not yet checked."""
        for parameter in self.function.params:
            self.names[parameter, PLAIN] = self.fresh(parameter.name)
        self.taken.update(self.output_names)
        self.find_biases()
        cores = {core for core, _ in self.merged.values()}
        for variable, call in self.bound.items():
            if variable in cores or isinstance(call, relax.Tuple):
                continue
            if isinstance(call, relax.Var):
                self.alias(variable, call)
            else:
                self.binding(variable, call)
        for variable, name in zip(result(self.function), self.output_names, strict=True):
            self.node("Identity", [self.plain(variable)], name)
        return self.model()

    def model(self) -> onnx.ModelProto:
        """The nodes written so far, as a model."""
        inputs = [
            _value_info(self.names[parameter, PLAIN], parameter)
            for parameter in self.function.params
        ]
        outputs = [
            _value_info(name, variable)
            for variable, name in zip(result(self.function), self.output_names, strict=True)
        ]
        graph = helper.make_graph(
            _without_identities(self.nodes),
            "main",
            inputs,
            outputs,
            list(self.initializers.values()),
        )
        opset = max([self.opset, *(_SINCE.get(node.op_type, OPSET) for node in self.nodes)])
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            producer_name="loadstone",
            ir_version=IR_VERSION if opset < WIDE_OPSET else WIDE_IR_VERSION,
        )

    # -- names -------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """A name that no other value has."""
        return fresh_name(name, self.taken)

    def name(self, variable: Var) -> str:
        """The module's name of a value."""
        return name_of(self.bound[variable]) or str(variable.name)

    def alias(self, variable: Var, source: Expr) -> None:
        """Makes `variable` equal to `source`, in every layout that exists."""
        for layout in (PLAIN, FIRST):
            if (source, layout) in self.names:
                self.names[variable, layout] = self.names[source, layout]

    def node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        """Appends a node of one output, and gives its name. Reductions are written as before opset
        18, which made the axes an input."""
        inputs = list(inputs)
        if self.opset >= AXES_OPSET and op_type.startswith("Reduce") and "axes" in attributes:
            inputs.append(
                self.constant(np.array(attributes.pop("axes"), np.int64), f"{output}/axes")
            )
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def constant(self, array: Array | np.generic, name: str) -> str:
        """Adds an initializer, and gives its name. array: of any shape; its type is kept."""
        unique = self.fresh(name)
        self.initializers[unique] = numpy_helper.from_array(np.asarray(array, order="C"), unique)
        return unique

    # -- layouts -----------------------------------------------------------------------------------

    def plain(self, expr: Expr) -> str:
        """The ONNX name of an operand in the module's order of axes."""
        return self.get(expr, PLAIN)

    def get(self, expr: Expr, layout: str) -> str:
        """The ONNX name of an operand in that layout."""
        if is_constant(expr):
            array = value(expr)
            return self.constant(
                np.transpose(array, TO_FIRST) if layout == FIRST else array, "constant"
            )
        if (expr, layout) not in self.names:
            other, order, suffix = (
                (PLAIN, TO_FIRST, "nchw") if layout == FIRST else (FIRST, TO_LAST, "nhwc")
            )
            source = self.names[expr, other]
            target = self.fresh(f"{source}/{suffix}")
            self.names[expr, layout] = self.node("Transpose", [source], target, perm=order)
        return self.names[expr, layout]

    def layout(self, *operands: Expr) -> str:
        """FIRST when a 4-D operand exists in it and the others have four axes as well."""
        variables = [operand for operand in operands if isinstance(operand, relax.Var)]
        if any(len(shape(operand) or ()) != 4 for operand in operands):
            return PLAIN
        return FIRST if any((operand, FIRST) in self.names for operand in variables) else PLAIN

    def emit(
        self, variable: Var, layout: str, op_type: str, inputs: Sequence[str], **attributes: object
    ) -> None:
        """Appends the node that computes `variable`, in that layout."""
        self.names[variable, layout] = self.node(
            op_type, inputs, self.fresh(self.name(variable)), **attributes
        )

    # -- convolutions and dense layers with their bias ---------------------------------------------

    def find_biases(self) -> None:
        """Records the additions of a vector that are the bias of a convolution or dense layer, and
        the readers of all other values."""
        for variable, call in self.bound.items():
            if not is_call(call, "add"):
                continue
            core: Expr = self.bound.get(call.args[0])
            bias = self.source(call.args[1])
            weighted = is_call(core, "nn.conv2d") or (
                is_call(core, "matmul")
                and len(shape(core) or ()) == 2
                and self.weights(core.args[1])
            )
            vector = self.is_vector(bias)
            if weighted and vector and self.uses[call.args[0]] == 1:
                self.merged[variable] = (call.args[0], call.args[1])
        for variable, call in self.bound.items():
            if isinstance(call, relax.Call) and variable not in self.merged:
                for position, item in enumerate(call.args):
                    if isinstance(item, relax.Var):
                        self.readers.setdefault(item, []).append((op_name(call), position))

    def source(self, expr: Expr) -> Expr:
        """The constant behind dequantize(constant); else the expression."""
        bound: Expr = self.bound.get(expr)
        return (
            bound.args[0] if is_call(bound, "dequantize") and is_constant(bound.args[0]) else expr
        )

    def weights(self, expr: Expr) -> bool:
        """Whether an operand is a constant, quantized or not."""
        return is_constant(self.source(expr))

    def is_vector(self, expr: Expr) -> bool:
        """Whether an operand is a constant with one number per channel."""
        return (
            is_constant(expr) and value(expr).ndim > 0 and value(expr).size == value(expr).shape[-1]
        )

    def operand(self, expr: Expr, permutation: Sequence[int], name: str) -> str:
        """A constant or dequantized constant, transposed; a scale per channel follows its axis."""
        bound: Expr = self.bound.get(expr)
        array = np.transpose(value(self.source(expr)), permutation)
        if not is_call(bound, "dequantize"):
            return self.constant(array, name)
        axis = list(permutation).index(int(bound.attrs.axis) % array.ndim) if array.ndim > 1 else 0
        return self.dequantized(self.constant(array, f"{name}/int"), bound, axis, f"{name}/real")

    def bias(self, expr: Expr, name: str) -> str:
        """A bias as a vector, dequantized where it is stored as integers."""
        bound: Expr = self.bound.get(expr)
        array = value(self.source(expr)).reshape(-1)
        if not is_call(bound, "dequantize"):
            return self.constant(array, name)
        return self.dequantized(self.constant(array, f"{name}/int"), bound, 0, f"{name}/real")

    def dequantized(self, stored: str, call: Call, axis: int, name: str) -> str:
        """DequantizeLinear of an initializer, with the parameters of `call`."""
        return self.node(
            "DequantizeLinear", [stored, *self.grid(call, name)], self.fresh(name), axis=axis
        )

    def grid(self, call: Call, name: str) -> list[str]:
        """Initializers of a quantize's or dequantize's scale and zero point."""
        kind = str(call.attrs.out_dtype) if is_call(call, "quantize") else dtype(call.args[0])
        scale, zero_point = value(call.args[1]).astype(np.float32), value(call.args[2]).astype(kind)
        if scale.size == 1:
            scale, zero_point = scale.reshape(()), zero_point.reshape(())
        return [
            self.constant(scale, f"{name}/scale"),
            self.constant(zero_point, f"{name}/zero_point"),
        ]

    def binding(self, variable: Var, call: Call) -> None:
        """Writes what computes `variable`."""
        raise NotImplementedError


def _value_info(name: str, variable: Var) -> ValueInfoProto:
    extents = shape(variable)
    assert extents is not None
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype(variable))), extents
    )


def _is_wide(call: Expr) -> bool:
    """Whether it quantizes to 16 bits, or dequantizes from 16 bits."""
    if is_call(call, "quantize"):
        return str(call.attrs.out_dtype) == "int16"
    return is_call(call, "dequantize") and dtype(call.args[0]) == "int16"


def _without_identities(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Removes a final Identity, and gives its name to the value before it, for all readers; a
    second one of the same value remains."""
    producers = {node.output[0]: node for node in nodes}
    names: dict[str, str] = {}  # old -> new
    kept = []
    for node in nodes:
        source = producers.get(node.input[0]) if node.op_type == "Identity" else None
        if source is not None and node.input[0] not in names:
            names[node.input[0]] = node.output[0]
        else:
            kept.append(node)
    for node in kept:
        for side in (node.input, node.output):
            for position, name in enumerate(side):
                side[position] = names.get(name, name)
    return kept
